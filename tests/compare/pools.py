"""Small pools for tests of comparing: documents from plain values, and the strategy that draws them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from dashboard.compare import compare_pool
from dashboard.fleet import Document, Pool, Replica, Role, Setting, Source, State
from tests.builders import replica

VALUES: Sequence[Any] = (None, 1, 2, "x", {}, State.NULL, State.UNKNOWN, State.REDACTED)  # None: the path is left out
PATHS = (
    "version",
    "cache_config.block_size",
    "cache_config.hash_block_size",
    "lora_config",
    "lora_config.max_loras",
    "lora_config.deep.leaf",
    "seed",
)


def setting(value: Any, source: Source = Source.SERVER_INFO) -> Setting:
    """A setting of a JSON value, None being null, or of a state without a value."""
    if isinstance(value, State):
        return Setting("null", value, source)
    return setting(State.NULL, source) if value is None else Setting(json.dumps(value), State.REPORTED, source)


def document(key: str, settings: Mapping[str, Any], version: str | None = None) -> Document:
    """A document of plain values by path."""
    return Document(key, version, {path: setting(value) for path, value in settings.items()})


def member(key: str, document: str | None, *, fresh: bool = True, identity: int = 0) -> Replica:
    """A replica with a document, by its id, and so many identity settings."""
    own = {f"identity.{number}": setting(number) for number in range(identity)}
    return replace(replica(key, id=key, fresh=fresh, identity=own), document=document)


def pool_of(*holders: tuple[int, Mapping[str, Any]], ignore: Sequence[str] = ()) -> tuple[Pool, dict[str, Document]]:
    """A compared pool and its documents; each (count, settings) is a document with as many fresh replicas."""
    documents = {f"d{index}": document(f"d{index}", settings) for index, (_, settings) in enumerate(holders)}
    members = [
        member(f"http://{index}-{number}:80", f"d{index}", identity=41)
        for index, (count, _) in enumerate(holders)
        for number in range(count)
    ]
    return compare_pool("chat", Role.BOTH, members, documents, ignore), documents


def pool_of_documents(documents: Mapping[str, Document], stale: Sequence[str] = ()) -> Pool:
    """A compared pool with one replica per document, named like it."""
    members = [member(key, key, fresh=key not in stale) for key in documents]
    return compare_pool("chat", Role.BOTH, members, documents)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Replica], dict[str, Document]]:
    """Draw up to 12 replicas, some stale and some never read, over up to 8 documents, each of some replica."""
    drawn = draw(st.lists(st.fixed_dictionaries({path: st.sampled_from(VALUES) for path in PATHS}), max_size=8))
    documents = {
        f"d{index}": document(f"d{index}", {path: value for path, value in settings.items() if value is not None})
        for index, settings in enumerate(drawn)
    }
    more = draw(st.lists(st.sampled_from([None, *documents]), max_size=4))
    members = [
        member(f"http://{index}:80", key, fresh=draw(st.booleans()), identity=index)
        for index, key in enumerate([*documents, *more])
    ]
    return members, documents


def compared(fleet: tuple[list[Replica], dict[str, Document]], ignore: Sequence[str] = ()) -> Pool:
    """Compare a drawn fleet."""
    members, documents = fleet
    return compare_pool("chat", Role.BOTH, members, documents, ignore)
