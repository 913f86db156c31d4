"""What is derived from the answers of a fleet: its assembly, what changed between two, what would change."""
