"""Targets from the API of a Prometheus server that scrapes the replicas."""

from dashboard.sources.prometheus.source import Prometheus

__all__ = ["Prometheus"]
