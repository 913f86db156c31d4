"""What is kept: the history of the fleet and snapshots, in one database, and accepted findings."""
