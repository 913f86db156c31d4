"""Where a fleet comes from: lists of targets, polls of them, and files that hold answers."""
