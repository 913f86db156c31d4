"""vLLM's replies as pydantic models, one module per endpoint; differences between versions stay here."""
