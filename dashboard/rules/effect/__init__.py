"""Rules of the family effect: what vLLM's counters show of a replica, and which findings explain it."""
