"""Targets from the API of a Prometheus server that scrapes the replicas."""
