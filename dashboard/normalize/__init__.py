"""From replies to documents: one namespace of paths, one spelling of values, secrets gone at the edge."""
