"""Rules: which differences matter, what they break, what to do. `catalogue` names them all, `engine` runs them."""
