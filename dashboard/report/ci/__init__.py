"""Findings as CI systems read them, and whether a check has passed. Pure."""
