"""Routers and masters of KV stores: what they report of their configuration, in place of what is declared."""

from dashboard.sources.routers.reader import RouterReader

__all__ = ["RouterReader"]
