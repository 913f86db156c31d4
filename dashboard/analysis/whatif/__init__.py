"""What would change if a pool converged to one of its cohorts or to its baseline. Nothing is ever applied."""
