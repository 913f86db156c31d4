"""The vLLM plugin that serves the configuration API. It runs inside vLLM and needs only vLLM's dependencies.

`plugin` has the two entry points. In each engine process `engine` describes the engine, with `sections`, `groups`,
`devices`, `hashing` and `settings`. In the API server `endpoint` asks the engines once, `front` adds the server's own
values, `answer` builds the answer, and `metrics` exports its digests on /metrics. Everything is read through
`gathering`: an unavailable value is null and listed. `switch` reads and suggests VLLM_PLUGINS. The dashboard imports
`shared` only.
"""

__version__ = "1.0.0"  # of the dashboard, too: both are released together
