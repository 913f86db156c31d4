"""The sources of a fleet: lists of targets, polls, and files of saved answers."""
