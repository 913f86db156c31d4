"""The content of a snapshot taken apart into bodies that the history has, too, and put together again byte for byte."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from dashboard.documents.models import LISTS
from dashboard.store.history.parts import COLUMNS, TIMES, split_replica
from dashboard.vllm.reading import SAVED_FLEET, node_count

DOCUMENTS, REPLICAS, REPLICA = "documents", "replicas", "replica"


class SplitReplica(NamedTuple):
    """A replica of a snapshot: process and answers, as in its span. `pool` groups similar ones."""

    pool: str
    process: bytes
    answers: bytes


class SplitContent(NamedTuple):
    """The content of a snapshot in parts. `shell` is what is in no other part; where `is_whole`, it is all of it.

    It names the keys of each kind of row in their order: another version of the program may write another one.
    """

    shell: bytes
    documents: Sequence[bytes] = ()
    replicas: Sequence[SplitReplica] = ()
    is_whole: bool = False

    def join(self) -> bytes:
        """Return the content."""
        return self.shell if self.is_whole else _join(self)


def split_content(content: bytes) -> SplitContent:
    """Return the parts of content, which join to the same bytes; what another program wrote stays whole."""
    whole = SplitContent(content, is_whole=True)
    if node_count(content, SAVED_FLEET.max_nodes) > SAVED_FLEET.max_nodes:
        return whole
    try:
        parts = _split(from_json(content))
        return parts if parts.join() == content else whole
    except (ValueError, LookupError, TypeError, AttributeError):
        return whole


def _split(written: dict[str, Any]) -> SplitContent:
    rows, lists = written[REPLICAS], {name: written[name] for name in LISTS}
    of_replica: dict[str, dict[str, list[Any]]] = {each[REPLICA]: {name: [] for name in LISTS} for each in rows}
    for name, items in lists.items():
        for item in items:
            of_replica[item[REPLICA]][name].append({key: part for key, part in item.items() if key != REPLICA})
    shell = {
        "rest": {**written, **{name: [] for name in (*LISTS, REPLICAS)}, DOCUMENTS: list(written[DOCUMENTS])},
        "rows": {name: list(items[0]) if items else [] for name, items in {REPLICAS: rows, **lists}.items()},
        "probe": next((list(probe) for each in rows for probe in each["probes"]), []),
        "columns": COLUMNS,
        "times": TIMES,
        "own": [
            [[each[name] for name in COLUMNS], [[probe[name] for name in TIMES] for probe in each["probes"]]]
            for each in rows
        ],
    }
    replicas = [SplitReplica(str(each["pool"]), *split_replica(each, of_replica[each[REPLICA]])) for each in rows]
    documents = [json.dumps(each, separators=(",", ":")).encode() for each in written[DOCUMENTS].values()]
    return SplitContent(to_json(shell), documents, replicas)


def _join(parts: SplitContent) -> bytes:
    shell = from_json(parts.shell)
    whole, orders = shell["rest"], shell["rows"]
    whole[DOCUMENTS] = dict(zip(whole[DOCUMENTS], map(from_json, parts.documents), strict=True))
    for each, (columns, times) in zip(parts.replicas, shell["own"], strict=True):
        row = {**from_json(each.process), **from_json(each.answers)}
        row |= zip(shell["columns"], columns, strict=True)
        probes = zip(row["probes"], times, strict=True)
        timed = ({**probe, **dict(zip(shell["times"], own, strict=True))} for probe, own in probes)
        row["probes"] = [{name: probe[name] for name in shell["probe"]} for probe in timed]
        for name, order in orders.items():
            if name != REPLICAS:
                whole[name] += [{key: ({REPLICA: row[REPLICA]} | item)[key] for key in order} for item in row[name]]
        whole[REPLICAS].append({name: row[name] for name in orders[REPLICAS]})
    return to_json(whole)
