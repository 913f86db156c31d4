"""Reports as files: HTML, PDF, Markdown, JSON, CSV and SVG. Pure, but for the process that makes a PDF."""
