"""Views and findings in every format: HTML, Markdown, CSV, PDF, SVG, SARIF, JUnit, GitHub annotations, terminal."""
