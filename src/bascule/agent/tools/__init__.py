"""The agent's own tools, one file each."""
