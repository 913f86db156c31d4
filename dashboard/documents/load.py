"""A saved fleet read back: what `poll --format json --full` wrote, evaluated again without a network.

Replicas are as they were when the poll ended: rollouts and suppressions are evaluated at that time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.documents.contract import WithExtraKeys
from dashboard.documents.fleet import SCHEMA_VERSION, fleet_object
from dashboard.errors import SnapshotError, UnreadableError
from dashboard.fleet import Document, Replica, RouterConfig
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.recent import RecentEvents
from dashboard.fleet.sightings import Sightings
from dashboard.rules.policy import Policy
from dashboard.vllm.merging import version_of
from dashboard.vllm.reading import SAVED_FLEET, json_fault, node_count

MAX_BYTES = SAVED_FLEET.max_bytes  # 1,000 replicas of the benchmark take 23 MB, indented
COMMAND = "poll --format json --full"
LONGEST = 400  # characters of what a sentence quotes of the file
# The lists of what belongs to a replica, with what is unique in each of them.
LISTS = {"engines": ("dp_rank",), "devices": ("dp_rank", "rank"), "kv_cache_groups": ("dp_rank", "group_id")}


class SavedFleet(NamedTuple):
    """What a saved fleet is derived from."""

    name: str
    polled_at: datetime
    replicas: tuple[Replica, ...]
    documents: Mapping[str, Document]
    ignored: tuple[str, ...]
    policy: Policy
    discovery_errors: tuple[str, ...]
    routers: tuple[RouterConfig, ...]
    recent: RecentEvents
    sightings: Sightings


def read_snapshot(raw: bytes) -> Fleet:
    """Return the fleet that was saved, evaluated under its own policy; raise SnapshotError for a file that has none.

    Pools and findings in the file are ignored: both are derived again.
    """
    return derive_saved(read_saved(raw))


def derive_saved(saved: SavedFleet, before: Fleet | None = None) -> Fleet:
    """Compare and evaluate what was saved. What `before` derived from equal input is reused."""
    read = Fleet(
        saved.name,
        1,
        saved.polled_at,
        saved.replicas,
        saved.documents,
        (),
        ignored=saved.ignored,
        policy=saved.policy,
        discovery_errors=saved.discovery_errors,
        routers=saved.routers,
        recent=saved.recent,
        sightings=saved.sightings,
    )
    return assemble(read, saved.polled_at, before=before)


def read_saved(raw: bytes) -> SavedFleet:
    """Return what a fleet is derived from; raise SnapshotError for a file that has none."""
    try:
        saved = _saved(raw)
    except UnreadableError as error:
        raise _damaged(error.detail) from None
    _check(saved)
    parts: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in LISTS}
    for name, by_replica in parts.items():
        for item, added in saved[name]:
            by_replica[added["replica"]].append(item)
    replicas = tuple(
        replace(each, **{name: tuple(by_replica[each.id]) for name, by_replica in parts.items()})
        for each in saved["replicas"]
    )
    documents = {key: Document(key, version_of(each), each) for key, each in saved["documents"].items()}
    return SavedFleet(
        saved["fleet"],
        saved["data_as_of"],
        replicas,
        documents,
        saved["ignored"],
        saved["policy"],
        saved["discovery_errors"],
        saved["routers"],
        saved["recent"],
        saved["sightings"],
    )


def check_nodes(raw: bytes) -> None:
    """Raise SnapshotError for a file with more nodes than are read: to be called before it is parsed."""
    if node_count(raw, SAVED_FLEET.max_nodes) > SAVED_FLEET.max_nodes:
        raise SnapshotError(
            f"The snapshot has more than {SAVED_FLEET.max_nodes:,} JSON nodes; "
            f"save one pool at a time, with {COMMAND} --pool."
        )


def _saved(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        most = MAX_BYTES // 2**20
        raise SnapshotError(
            f"The snapshot is larger than the limit of {most} MiB; save one pool at a time, with {COMMAND} --pool."
        )
    check_nodes(raw)
    try:
        saved: dict[str, Any] = fleet_object(full=True).load(raw)
    except ValidationError as error:
        raise _misread(raw, error) from None
    return saved


def _misread(raw: bytes, error: ValidationError) -> SnapshotError:
    """Return what a file is instead of a snapshot, else the first mistake in it."""
    try:
        found = from_json(raw, allow_inf_nan=False)
    except ValueError as reason:
        return SnapshotError(f"The snapshot {json_fault(reason)}; copy it once more, or save one with {COMMAND}.")
    if not isinstance(found, dict) or not {"schema_version", "replicas"} <= found.keys():
        return SnapshotError(f"The snapshot has no fleet; save one with {COMMAND}.")
    if (version := found["schema_version"]) != SCHEMA_VERSION:
        return SnapshotError(
            f"The snapshot has schema version {end_cut(repr(version), 20)}, this program reads {SCHEMA_VERSION}; "
            f"save it again with {COMMAND} of this version."
        )
    if "documents" not in found:
        return SnapshotError(f"The snapshot was saved without --full; save it with {COMMAND}.")
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return _damaged(f"{_place(first['loc'])}: {first['msg']}")


def _place(steps: Iterable[int | str]) -> str:
    """Return the place of a mistake: `replicas[3].state`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _damaged(what: str) -> SnapshotError:
    return SnapshotError(f"The snapshot is damaged at {end_cut(what, LONGEST)}; save it again with {COMMAND}.")


def _check(saved: Mapping[str, Any]) -> None:
    """Refuse duplicates, and what belongs to a replica or a document that the file lacks."""
    known = Counter(each.id for each in saved["replicas"])
    _refuse_duplicate("replicas", ((each,) for each in known.elements()))
    for name, unique in LISTS.items():
        rows: tuple[WithExtraKeys, ...] = saved[name]
        _refuse_duplicate(name, ((added["replica"], *(getattr(item, key) for key in unique)) for item, added in rows))
        for place, (_, added) in enumerate(rows):
            if added["replica"] not in known:
                raise _damaged(f"{name}[{place}].replica: there is no replica {added['replica']}")
    for place, each in enumerate(saved["replicas"]):
        if each.document is not None and each.document not in saved["documents"]:
            raise _damaged(f"replicas[{place}].document: there is no document {each.document}")


def _refuse_duplicate(name: str, keys: Iterable[tuple[object, ...]]) -> None:
    twice = next((key for key, number in Counter(keys).items() if number > 1), None)
    if twice is not None:
        raise _damaged(f"{name}: duplicate {', '.join(map(str, twice))}")
