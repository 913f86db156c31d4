"""Subjects of rules, built from the entries of cases."""

from collections.abc import Iterable
from typing import Any

from dashboard.rules.domain import Declared, domain_of
from dashboard.rules.subject import FleetSubject, PairSubject, PoolSubject
from tests import builders
from tests.rules.case import built


def pool(
    *entries: dict[str, Any], ignore: Iterable[str] = (), declared: Declared | None = None, name: str = "chat"
) -> PoolSubject:
    """A pool of replicas `chat-1`, `chat-2` and so on."""
    replicas, documents = built([{**entry, "pool": name} for entry in entries])
    fleet = builders.fleet(replicas, documents, ignore=tuple(ignore))
    domain = domain_of(declared or Declared(), [each.role for each in replicas], [each.settings for each in documents])
    return PoolSubject(fleet.pools[0], domain, tuple(replicas), fleet.documents, tuple(ignore))


def pair(
    prefill: Iterable[dict[str, Any]], decode: Iterable[dict[str, Any]], ignore: Iterable[str] = ()
) -> PairSubject:
    """The pools `chat/prefill` and `chat/decode`."""
    sides = (
        pool(*({"role": role, **entry} for entry in entries), ignore=ignore, name=f"chat/{role}")
        for role, entries in (("prefill", prefill), ("decode", decode))
    )
    return PairSubject(*sides)


def whole(*subjects: PoolSubject) -> FleetSubject:
    """A fleet of some pools."""
    return FleetSubject(subjects, tuple(replica for each in subjects for replica in each.all_replicas))
