"""What the provider shares with whoever reads its answers: their form, their digests, the spelling, and redaction."""
