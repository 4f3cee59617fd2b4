"""JSON Schema, as much of it as tools use: checking a value, and making one that is valid."""
