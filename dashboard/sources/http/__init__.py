"""HTTP of polling and discovery: one GET within limits, API keys, failures as sentences."""
