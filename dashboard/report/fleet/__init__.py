"""A fleet as a document and back, and as text for a terminal. Pure."""
