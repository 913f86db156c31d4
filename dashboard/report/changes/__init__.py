"""What changed between two fleets, in words and as a document. Pure."""
