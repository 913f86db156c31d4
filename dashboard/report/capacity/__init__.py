"""KV cache capacity in numbers and words. Pure."""
