"""The block hashes that engines tell, as a row of the difference matrix beside the settings that decide them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.compare.columns import Column
from dashboard.compare.matrix import NOTHING_AGREED, Cell, CellState, Row
from dashboard.compare.reference import Reference, ReferenceKind
from dashboard.fleet import Engine, Pool, Replica

LABEL = "block hashes"
SHOWN = 12  # characters of a digest: enough to see which are equal


class _Told(NamedTuple):
    """Of one column: the digests of its engines, how many replicas tell all of theirs, whether any gives a reason."""

    digests: list[str]
    telling: int
    is_reasoned: bool


def hash_row(
    path: str, pool: Pool, reference: Reference, columns: Sequence[Column], replicas: Mapping[str, Replica]
) -> Row | None:
    """Write in how many ways the engines of each column hash blocks; None where nobody tells.

    A cohort or a replica as the reference is what the others differ from, as far as it has one way; without one, such
    as in a baseline, nothing is marked. Of the majority it is the way that most replicas have; where several are as
    frequent, all differ. Replicas that do not tell leave it unknown whether a column is like the others.
    """
    told = [_told(replicas[key] for key in column.replicas) for column in columns]
    held = {key: set(_digests(replicas[key].engines)) for column in columns for key in column.replicas}
    first, *others = Counter(digest for own in held.values() for digest in own).most_common(2) or [("", 0)]
    if not first[0]:
        return None
    is_majority = reference.kind is ReferenceKind.MAJORITY
    is_tie = is_majority and bool(others) and others[0][1] == first[1]
    wanted = ("" if is_tie else first[0]) if is_majority else _reference_digest(pool, reference, replicas)
    cells = [_cell(own, column, wanted) for own, column in zip(told, columns, strict=True)]
    if reference.kind is ReferenceKind.BASELINE:
        cells[0] = Cell(CellState.UNKNOWN, json.dumps(NOTHING_AGREED))
    differs = any(cell.state is CellState.DIFFERS for cell in cells)
    return Row(path, LABEL, tuple(cells), differs=differs, tie=is_tie, comparable=wanted is not None)


def _reference_digest(pool: Pool, reference: Reference, replicas: Mapping[str, Replica]) -> str | None:
    """Return how the cohort or the replica hashes that is the reference; None where it tells no way or several."""
    members = {
        ReferenceKind.COHORT: [key for each in pool.cohorts if each.letter == reference.key for key in each.replicas],
        ReferenceKind.REPLICA: [reference.key],
    }
    ways = set(_told(replicas[key] for key in members.get(reference.kind, ())).digests)
    return ways.pop() if len(ways) == 1 else None


def _told(replicas: Iterable[Replica]) -> _Told:
    engines = [each.engines for each in replicas]
    digests = [digest for own in engines for digest in _digests(own)]
    telling = sum(bool(own) and len(_digests(own)) == len(own) for own in engines)
    return _Told(digests, telling, any(mark.reason for own in engines for each in own if (mark := each.fingerprint)))


def _digests(engines: Iterable[Engine]) -> list[str]:
    return [mark.engine for each in engines if (mark := each.fingerprint) and mark.engine]


def _cell(told: _Told, column: Column, wanted: str | None) -> Cell:
    """Write one column; `wanted` is the digest of the reference, empty for a tie, None where nothing can be marked."""
    ways = set(told.digests)
    if not ways:
        return Cell(CellState.UNKNOWN, json.dumps("none")) if told.is_reasoned else Cell(CellState.ABSENT, "")
    if len(ways) == 1:
        text = told.digests[0][:SHOWN]
    else:
        text = f"{len(ways):,} {'different' if len(ways) == len(told.digests) else 'ways'}"
    is_whole = told.telling == column.count
    if wanted is not None and ways != {wanted}:
        state = CellState.DIFFERS
    else:
        state = CellState.SAME if is_whole and wanted is not None else CellState.UNKNOWN
    return Cell(state, json.dumps(text), None if is_whole else told.telling)
