"""Targets from the API server of Kubernetes."""

from dashboard.sources.kubernetes.source import Kubernetes

__all__ = ["Kubernetes"]
