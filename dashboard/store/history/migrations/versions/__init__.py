"""The schemas of the history, in the order of their numbers."""
