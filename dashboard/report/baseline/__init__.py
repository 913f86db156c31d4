"""Baselines as files that people edit. Pure."""
