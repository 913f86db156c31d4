"""The history of the fleet: documents and states as spans of time in a database."""
