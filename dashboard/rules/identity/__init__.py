"""Rules on data-parallel groups, identity and coverage: ID. There is no ID-04: no replica reports what it needs."""
