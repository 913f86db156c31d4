"""Rules on capacity and performance: CP. There is no CP-09."""
