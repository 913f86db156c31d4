"""A saved fleet read back: what `poll --format json --full` wrote, evaluated again without a network.

Replicas are as they were when the poll ended: rollouts and suppressions are evaluated at that time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.documents.models import LISTS, MAJOR, reader_of_fleets
from dashboard.documents.secrets import clean_fleet
from dashboard.errors import SnapshotError, UnreadableError
from dashboard.fleet import Document
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.grouping import grouped
from dashboard.fleet.traffic import Traffic
from dashboard.rules.findings import Inspection
from dashboard.vllm.merging import version_of
from dashboard.vllm.reading import SAVED_FLEET_BYTES, SAVED_FLEET_NODES, json_fault, node_count

MAX_BYTES = SAVED_FLEET_BYTES  # 1,000 replicas of the benchmark take 23 MB, indented
COMMAND = "poll --format json --full"
LONGEST = 400  # characters of what a sentence quotes of the file


def read_snapshot(raw: bytes) -> Fleet:
    """Return the saved fleet without secrets, under its own policy; raise SnapshotError for a file that has none.

    Pools and findings in the file are derived again: of those in the file only the letters of cohorts are used.
    """
    saved, at = read_saved(without_secrets(raw))
    return assemble(saved, at)


def without_secrets(raw: bytes) -> bytes:
    """Return a file with its secrets replaced; raise SnapshotError for one that is too large to be parsed."""
    check_size(raw)
    try:
        saved = from_json(raw)
    except ValueError:  # `read_saved` says which
        return raw
    clean = clean_fleet(saved)
    return raw if clean == saved else to_json(clean)


def read_saved(raw: bytes) -> tuple[Fleet, datetime]:
    """Return a fleet of which nothing is derived yet, and its time; raise SnapshotError for a file that has none."""
    check_size(raw)
    try:
        saved = reader_of_fleets().validate_json(raw, strict=True)
    except ValidationError as error:
        raise _misread(raw, error) from None
    except UnreadableError as error:
        raise _damaged(error.detail) from None
    _check(saved)
    parts = {name: grouped(saved[name]) for name in LISTS}
    replicas = tuple(
        replace(each, **{name: tuple(rows.get(each.id, ())) for name, rows in parts.items()})
        for each in saved["replicas"]
    )
    documents = {key: Document(key, version_of(each), each) for key, each in saved["documents"].items()}
    traffic: dict[str, dict[int, Traffic]] = defaultdict(dict)
    for replica, engine in saved["traffic"]:
        traffic[replica][engine.dp_rank] = engine.traffic
    names = ("ignored", "policy", "discovery_errors", "routers", "recent", "traffic_window", "sightings")
    derived_from = {name: saved[name] for name in names}
    at = saved["data_as_of"]
    inspection = Inspection(saved["unconfirmed"])  # the other findings are found again
    fleet = Fleet(
        saved["fleet"],
        1,
        at,
        replicas=replicas,
        documents=documents,
        inspection=inspection,
        letters=dict(saved["pools"]),
        traffic=dict(traffic),
        recorded_traffic=None if saved["recorded_traffic"] is None else dict(saved["recorded_traffic"]),
        **derived_from,
    )
    return fleet, at


def check_size(raw: bytes) -> None:
    """Raise SnapshotError for a file with more bytes or nodes than are read: to be called before it is parsed."""
    limit = ""
    if len(raw) > MAX_BYTES:
        limit = f"is larger than the limit of {MAX_BYTES // 2**20} MiB"
    elif node_count(raw, SAVED_FLEET_NODES) > SAVED_FLEET_NODES:
        limit = f"has more than {SAVED_FLEET_NODES:,} JSON nodes"
    if limit:
        raise SnapshotError(f"The snapshot {limit}; save one pool at a time, with {COMMAND} --pool.")


def _misread(raw: bytes, error: ValidationError) -> SnapshotError:
    """Return what a file is instead of a snapshot, else the first mistake in it."""
    try:
        found = from_json(raw, allow_inf_nan=False)
    except ValueError as reason:
        return SnapshotError(f"The snapshot {json_fault(reason)}; copy it once more, or save one with {COMMAND}.")
    if not isinstance(found, dict) or not {"schema_version", "replicas"} <= found.keys():
        return SnapshotError(f"The snapshot has no fleet; save one with {COMMAND}.")
    version = found["schema_version"]
    if not isinstance(version, str) or version.partition(".")[0] != MAJOR:
        return SnapshotError(
            f"The snapshot has schema version {end_cut(repr(version), 20)}, this program reads {MAJOR}.x; "
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
    for name, unique in {**LISTS, "traffic": ("dp_rank",)}.items():
        _refuse_duplicate(name, ((replica, *(getattr(row, key) for key in unique)) for replica, row in saved[name]))
        for place, (replica, _) in enumerate(saved[name]):
            if replica not in known:
                raise _damaged(f"{name}[{place}].replica: there is no replica {replica}")
    for place, each in enumerate(saved["replicas"]):
        if each.document is not None and each.document not in saved["documents"]:
            raise _damaged(f"replicas[{place}].document: there is no document {each.document}")


def _refuse_duplicate(name: str, keys: Iterable[tuple[object, ...]]) -> None:
    twice = next((key for key, number in Counter(keys).items() if number > 1), None)
    if twice is not None:
        raise _damaged(f"{name}: duplicate {', '.join(map(str, twice))}")
