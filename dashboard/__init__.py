"""Fleet-wide comparison of vLLM configuration.

From the bottom to the top: `schemas` reads vLLM's replies, `models` holds the nouns, `normalize` turns replies into
documents, `wording` writes values for people, `compare` and `capacity` decide, `rules` judge, `fleet` puts one poll
together, `report` writes it, `options` reads fleet.yaml, `discovery` and `collect` touch the outside, `service` runs
the poll, `server` answers beside the pages, `ui` and `pages` show, `cli` and `check` are the command line. `demo` is
a simulated fleet. `provider` stands apart: it runs inside vLLM. `redaction` takes secrets away, and `text`
neutralizes foreign text.
"""

__version__ = "0.1.0"
