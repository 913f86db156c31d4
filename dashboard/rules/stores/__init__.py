"""Rules on shared KV cache stores: SH."""
