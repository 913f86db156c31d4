"""python -m dashboard.provider: which plugins vLLM has here, and the line that switches the provider on.

The line alone goes to standard output, so that a shell can take it: `eval "$(python -m dashboard.provider)"`.
"""

import os
import sys

from dashboard.provider.switch import installed, listing, suggestion

plugins = installed()
suggested = suggestion(os.environ, plugins)
sys.stderr.write("\n".join(["Plugins of vLLM that are installed here:", *listing(plugins), *suggested.notes, ""]))
sys.stderr.flush()
sys.stdout.write(f"{suggested.line}\n")
