"""A simulated fleet: a real HTTP server on loopback that answers as vLLM does, on many addresses."""

from dashboard.demo.describe import targets
from dashboard.demo.options import judging
from dashboard.demo.server import DemoServer, Restart, in_thread, running
from dashboard.demo.story import default_fleet

__all__ = ["DemoServer", "Restart", "default_fleet", "in_thread", "judging", "running", "targets"]
