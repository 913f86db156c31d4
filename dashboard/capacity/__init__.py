"""KV cache capacity: blocks to tokens, bytes and requests, per engine, per device, per pool."""
