"""Start time of commands, relative to `import streamlit`, the largest package of the dashboard.

Run it with `python -m tests.benchmarks.bench_start`.
"""

import subprocess
import sys
import time

from tests.benchmarks.measures import Row, print_table
from tests.serving import ROOT

TIMES = 5
BUDGETS = {("-m", "dashboard", "--help"): 1.0, ("-m", "dashboard", "rules"): 2.0}


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    base = _seconds("-c", "import streamlit")
    rows = [Row(" ".join(command), _seconds(*command) / base, budget) for command, budget in BUDGETS.items()]
    print(f"import streamlit takes {base:.2f} s\n")
    return print_table(rows, "relative to import streamlit")


def _seconds(*command: str) -> float:
    """Return the shortest of several runs."""
    taken = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=ROOT)
        taken.append(time.perf_counter() - begun)
    return min(taken)


if __name__ == "__main__":
    sys.exit(main())
