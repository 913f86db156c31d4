"""Two sides of a comparison with defaults: a test passes only what changed."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.fleet import Document, Replica, Setting, State
from tests import builders
from tests.builders import NOW

BLOCK_SIZE = "cache_config.block_size"
SEQS = "scheduler_config.max_num_seqs"
OLD = builders.document()
NEW = builders.document({BLOCK_SIZE: 32})
RESTARTED: dict[str, Any] = {"started_at": NOW - timedelta(minutes=9)}
LATER = builders.POLLED_AT + timedelta(days=7)
ADDRESS = "http://{}:8000"


def fleet(*members: Replica, documents: Iterable[Document] = (OLD, NEW), **more: Any) -> Fleet:
    """A fleet of these replicas; `documents` may contain unused ones."""
    return builders.fleet(members, documents, **{"policy": builders.HASHING, **more})


def chat(number: int = 4, document: Document = OLD, first: int = 1, **more: Any) -> list[Replica]:
    """Replicas chat-01, chat-02, ... of one pool."""
    return builders.alike("chat", number, document, first=first, **more)


def between(before: Iterable[Replica], after: Iterable[Replica], *documents: Document, **more: Any) -> Changes:
    """What changed from some replicas to others, a week later."""
    known = (OLD, NEW, *documents)
    then = fleet(*before, documents=known, **more.pop("then", {}))
    return changes_between(then, fleet(*after, documents=known, **{"polled_at": LATER, **more.pop("now", {})}))


def ids(*names: str) -> tuple[str, ...]:
    """The ids of replicas by their names."""
    return tuple(map(ADDRESS.format, names))


def without_value(state: State) -> Setting:
    """A setting without a value, for this reason."""
    return builders.setting(None, state)


def one_process(*names: str, document: Document = OLD, **more: Any) -> list[Replica]:
    """One process behind several addresses."""
    addresses = ids(*names)
    return [
        builders.replica(name, document=document, same_process=tuple(each for each in addresses if each != own), **more)
        for name, own in zip(names, addresses, strict=True)
    ]
