"""Fleet-wide comparison of vLLM configuration.

The packages, from the bottom to the top; each imports only packages below it:

- `errors`: what the program raises. `fleet`: the core types and their dataframes.
- `vllm`: everything that knows vLLM's answers.
- `compare`, `capacity`, `rules`: what differs, how much KV cache there is, what a difference breaks.
- `analysis`: a fleet from its answers, what changed between two, what would change.
- `documents`: the published JSON documents, and the one of them that is read again.
- `config`: fleet.yaml and the environment. `store`: snapshots, their notes, the history.
- `views`: pages and reports as data, one module each. `render`: the formats that they are written in.
- `sources`: lists of targets, polls, files of answers. `demo`: a simulated fleet.
- `notify`: alerts of findings, and their delivery to Alertmanagers and webhooks.
- `service`: the polling loop and the current fleet.
- `access`: who a request is from, what a role may do, the audit log. `mcp`: read-only tools for agents.
- `web`: pages, HTTP routes and what guards them. `cli`: the commands. `api`: the public functions below.

Below them all is `vllm_fleet_provider.shared`: of the plugin that runs inside vLLM, packages import nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider import __version__

if TYPE_CHECKING:
    from dashboard.api import compare_fleets, load_fleet, poll_fleet

__all__ = ["__version__", "compare_fleets", "load_fleet", "poll_fleet"]


def __getattr__(name: str) -> Any:
    """Load the API when it is used: neither `--help` nor vLLM needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dashboard.api"), name)
