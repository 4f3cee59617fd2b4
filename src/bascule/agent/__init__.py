"""The client's side of the tool framework."""
