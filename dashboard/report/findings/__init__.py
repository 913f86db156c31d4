"""Findings in words, in order, and as documents. Pure."""
