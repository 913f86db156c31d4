"""python -m dashboard.provider: which plugins vLLM has here, and the line that switches the provider on.

The line alone goes to standard output, so that a shell can take it. Exit code 1 and no line where there is no vLLM: it
would leave out what vLLM loads elsewhere.
"""

import os
import sys

from dashboard.provider.switch import has_vllm, installed, listing, suggestion

if not has_vllm():
    sys.exit(f"exit 1: there is no vLLM in this Python ({sys.executable}): run it with the Python that runs vLLM.")
plugins = installed()
suggested = suggestion(os.environ, plugins)
sys.stderr.write("\n".join(["Plugins of vLLM that are installed here:", *listing(plugins), *suggested.notes, ""]))
sys.stderr.flush()
sys.stdout.write(f"{suggested.line}\n")
