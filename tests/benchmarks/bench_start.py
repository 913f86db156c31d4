"""How long a command takes to start, in times of `import streamlit`, the largest package of the dashboard.

Run it with `python -m tests.benchmarks.bench_start`.
"""

import subprocess
import sys
import time

from tests.serving import ROOT

TIMES = 5
BUDGETS = {("-m", "dashboard", "--help"): 1.0, ("-m", "dashboard", "rules"): 2.0}


def main() -> int:
    """Print a table of figure, budget and share of the budget; return 1 when one is over."""
    base = _seconds("-c", "import streamlit")
    rows = [(" ".join(command), _seconds(*command) / base, budget) for command, budget in BUDGETS.items()]
    print(f"import streamlit takes {base:.2f} s\n")
    print(f"{'in times of import streamlit':<64}{'measured':>10}{'budget':>8}{'share':>8}")
    for name, measured, budget in rows:
        print(f"{name:<64}{measured:>10.2f}{budget:>8.2f}{measured / budget:>8.0%}")
    return int(any(measured > budget for _, measured, budget in rows))


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
