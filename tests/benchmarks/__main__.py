"""`make bench`: every budget, one table after the other."""

import sys

from tests.benchmarks import (
    bench_access,
    bench_core,
    bench_history,
    bench_hub,
    bench_network,
    bench_pages,
    bench_prometheus,
    bench_review,
    bench_soak,
    bench_start,
    bench_traffic,
    bench_week,
)


def main() -> int:
    """Run all; return 1 when a budget is exceeded."""
    results = []
    mains = {
        "core": bench_core.main,
        "review": bench_review.main,
        "history": bench_history.main,
        "network": bench_network.main,
        "traffic": bench_traffic.main,
        "pages": bench_pages.main,
        "access": bench_access.main,
        "prometheus": bench_prometheus.main,
        "hub": bench_hub.main,
        "start": bench_start.main,
        "soak": bench_soak.run,
        "week": bench_week.main,
    }
    for title, main_of in mains.items():
        print(f"\n== {title}\n", flush=True)
        results.append(main_of())
    return int(any(results))


if __name__ == "__main__":
    sys.exit(main())
