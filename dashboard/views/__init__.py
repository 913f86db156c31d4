"""The content of every page and of the review, one module each: from a fleet and choices to a view."""
