"""Routers and masters of KV stores: what they report of their configuration, in place of what is declared."""
