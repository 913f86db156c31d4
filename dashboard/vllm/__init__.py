"""Everything that knows vLLM's answers: schemas, the normal form of settings, versions."""
