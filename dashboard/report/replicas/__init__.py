"""Replicas in rows, and one with its settings. Pure."""
