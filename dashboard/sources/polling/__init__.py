"""Polling: probe every target within limits, and turn each answer or failure into a snapshot."""
