"""Two sides of a comparison with good defaults: a test says only what changed."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import Changes, changes_between
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


def fleet(*members: Replica, told: Iterable[Document] = (OLD, NEW), **more: Any) -> Fleet:
    """A fleet of these replicas; documents that none of them holds do no harm."""
    return builders.fleet(members, told, **{"policy": builders.HASHING, **more})


def chat(number: int = 4, told: Document = OLD, first: int = 1, **more: Any) -> list[Replica]:
    """Replicas chat-01 and so on of one pool."""
    return builders.alike("chat", number, told, first=first, **more)


def between(before: Iterable[Replica], after: Iterable[Replica], *told: Document, **more: Any) -> Changes:
    """What changed from some replicas to others, a week later."""
    documents = (OLD, NEW, *told)
    then = fleet(*before, told=documents, **more.pop("then", {}))
    return changes_between(then, fleet(*after, told=documents, **{"polled_at": LATER, **more.pop("now", {})}))


def ids(*names: str) -> tuple[str, ...]:
    """The ids of replicas by their names."""
    return tuple(map(ADDRESS.format, names))


def silent(state: State) -> Setting:
    """A setting that has no value, for this reason."""
    return builders.setting(None, state)


def one_process(*names: str, told: Document = OLD, **more: Any) -> list[Replica]:
    """One process behind several addresses."""
    addresses = ids(*names)
    return [
        builders.replica(name, document=told, same_process=tuple(each for each in addresses if each != own), **more)
        for name, own in zip(names, addresses, strict=True)
    ]
