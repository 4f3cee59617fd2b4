"""Patches as models write them: read, matched against files, and turned into whole new files."""
