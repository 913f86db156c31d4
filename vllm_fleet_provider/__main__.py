"""python -m vllm_fleet_provider: list vLLM's plugins and print the line that enables the provider.

Only the line is on standard output. Without vLLM it prints no line, which would omit vLLM's plugins, and exits with 1.
"""

import os
import sys

from vllm_fleet_provider.switch import has_vllm, installed, listing, suggestion

if not has_vllm():
    sys.exit(f"exit 1: there is no vLLM in this Python ({sys.executable}): run it with the Python that runs vLLM.")
plugins = installed()
suggested = suggestion(os.environ, plugins)
sys.stderr.write("\n".join(["Plugins of vLLM that are installed here:", *listing(plugins), *suggested.notes, ""]))
sys.stderr.flush()
sys.stdout.write(f"{suggested.line}\n")
