"""What the demo says in fleet.yaml: what its pools share, and a finding that somebody answers for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import date

SUPPRESSED_FOR = timedelta(days=30)


def judging(today: date) -> dict[str, Any]:
    """Return the keys `pools` and `suppress` of the options."""
    return {
        "pools": {
            "*chat-70b": {"router": "prefix-hash", "expects": {"hash_algorithm": "sha256_cbor"}},
            "*gemma-27b": {"router": "approximate"},
        },
        "suppress": [
            {
                "rule": "CO-14",
                "pool": "*deepseek-v3/*",
                "owner": "platform team",
                "reason": "A network policy lets only the dashboard reach these ports.",
                "until": str(today + SUPPRESSED_FOR),
            }
        ],
    }
