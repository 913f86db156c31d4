"""What each page says of a fleet, and the review that puts them together, as reports: a module each."""
