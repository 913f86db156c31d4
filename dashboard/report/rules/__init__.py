"""The rules themselves, as text. Pure."""
