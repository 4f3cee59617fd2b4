"""Outside things that tools use."""
