"""A fleet on paper: JSON, tables, HTML, CSV, and how values are written. Pure."""
