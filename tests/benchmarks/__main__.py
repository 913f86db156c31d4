"""`make bench`: every budget, one table after the other."""

from __future__ import annotations

import sys

from tests.benchmarks import bench_core, bench_network, bench_pages, bench_review


def main() -> int:
    """Run all; return 1 when a budget is exceeded."""
    results = []
    benches = {"core": bench_core, "review": bench_review, "network": bench_network, "pages": bench_pages}
    for title, bench in benches.items():
        print(f"\n== {title}\n", flush=True)
        results.append(bench.main())
    return int(any(results))


if __name__ == "__main__":
    sys.exit(main())
