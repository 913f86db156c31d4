"""The vLLM plugin that serves the configuration API; it runs inside vLLM and needs nothing but what vLLM brings.

`plugin` holds the two entry points. In each engine process `engine` describes the engine, with `sections`, `groups`,
`devices`, `hashing` and `settings`; in the API server `endpoint` asks the engines once, `front` adds what only the API
server knows, and `answer` puts the answer together. `gathering` is how anything is read at all: what cannot be had is
null and named. `switch` says whether the operator named the plugin.
"""
