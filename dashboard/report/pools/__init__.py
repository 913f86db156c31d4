"""Pools in order, compared, and who of them can share prefixes. Pure."""
