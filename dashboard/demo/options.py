"""The options of the demo: what its pools share, and suppressed findings."""

from datetime import date, timedelta
from typing import Any

SUPPRESSED_FOR = timedelta(days=30)


def demo_options(today: date) -> dict[str, Any]:
    """Return the keys `pools` and `suppress` of the options."""
    return {
        "pools": {
            "*chat-70b": {"router": "prefix-hash", "expects": {"hash_algorithm": "sha256_cbor"}},
            "*gemma-27b": {"router": "approximate"},
            "*deepseek-v3/decode": {"router": "prefix-hash"},
            "*deepseek-v3/prefill": {"router": "none"},  # decode ranks are chosen by prefix, prefill replicas by load
        },
        "suppress": [
            {
                "rule": "CO-14",
                "pool": "*deepseek-v3/*",
                "owner": "platform team",
                "reason": "A network policy lets only the dashboard reach these ports.",
                "until": str(today + SUPPRESSED_FOR),
            },
            {
                "rule": "RT-13",
                "pool": "*gemma-27b",
                "owner": "inference team",
                "reason": "One replica runs without the prefix cache for a month, to compare latencies.",
                "until": str(today + SUPPRESSED_FOR),
            },
        ],
    }
