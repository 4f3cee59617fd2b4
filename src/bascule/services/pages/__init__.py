"""The text of web pages and documents."""
