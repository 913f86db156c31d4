"""What is kept: the history of the fleet and frozen snapshots, in one database, and accepted findings."""
