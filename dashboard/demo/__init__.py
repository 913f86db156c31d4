"""A simulated fleet: a real HTTP server on loopback that answers as vLLM does, on many addresses."""

from dashboard.demo.arguments import changed, read_changes
from dashboard.demo.describe import DemoReplica, targets
from dashboard.demo.server import DemoServer, Restart, in_thread, running
from dashboard.demo.story import default_fleet, demo_options

__all__ = [
    "DemoReplica",
    "DemoServer",
    "Restart",
    "changed",
    "default_fleet",
    "demo_options",
    "in_thread",
    "read_changes",
    "running",
    "targets",
]
