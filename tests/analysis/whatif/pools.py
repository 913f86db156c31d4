"""Pools of a few replicas in which one differs: cohort B."""

from collections.abc import Mapping
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import WhatIf
from tests.builders import alike, document, fleet, replica

LARGER = {"cache_config.block_size": 32}


def pool_of(
    odd: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
    *,
    number: int = 3,
    others: Mapping[str, Any] | None = None,
    ignore: tuple[str, ...] = (),
    policy: Any = None,
    **more: Any,
) -> Fleet:
    """Return a pool of equal replicas with the fields `others`, and chat-9 with different settings and fields."""
    documents = document(usual), document(odd)
    members = [*alike("chat", number, documents[0], **(others or {})), replica("chat-9", document=documents[1], **more)]
    return fleet(members, documents, ignore=ignore, **({"policy": policy} if policy else {}))


def rules(what: WhatIf, name: str) -> list[str]:
    """Return the rules of the findings in one list: new, fixed, not_evaluated."""
    return [each.finding.rule for each in getattr(what.changes.findings, name)]
