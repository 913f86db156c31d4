"""Targets from the API server of Kubernetes."""
