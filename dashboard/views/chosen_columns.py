"""Replicas that a URL names to compare: of the fleet that is shown, or as they were in a snapshot (`id@snapshot`)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, unquote

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import one_line, short_id
from dashboard.rules.findings import Finding
from dashboard.views.context import as_of
from dashboard.views.names import find_replicas

MOST_CHOSEN = 12  # replicas of any pools that are compared
AT = "@"  # between replica and snapshot; `quote` encodes it within an id


class ChosenColumn(NamedTuple):
    """A replica to compare; `snapshot` is the id in the URL, empty for the fleet that is shown."""

    replica: str
    snapshot: str = ""

    @property
    def key(self) -> str:
        """Return its id among the replicas that are compared."""
        return f"{self.replica}{AT}{self.snapshot}" if self.snapshot else self.replica


class OpenedSnapshot(NamedTuple):
    """An opened snapshot: its fleet and its name, which may be empty."""

    fleet: Fleet
    name: str

    @property
    def label(self) -> str:
        """Return its name, else its id."""
        return self.name or short_id(str(self.fleet.snapshot))


def write_chosen(ids: Iterable[str]) -> str:
    """Return replicas as the value of a URL parameter: percent-encoded ids with commas between."""
    return ",".join(quote(each, safe=":/[]") for each in ids)


def add_snapshot(text: str, snapshot: str, known: Collection[str]) -> str:
    """Return the value of the URL parameter with each replica of the fleet also as it was in a snapshot.

    `known` are the ids that are shown: a replica that the fleet lacks is not added.
    """
    ids = [each.replica for each in chosen_columns(text) if not each.snapshot and each.replica in known]
    return ",".join([text, *(f"{write_chosen([each])}{AT}{snapshot}" for each in ids)])


def chosen_columns(text: str) -> tuple[ChosenColumn, ...]:
    """Return what a URL parameter names, each once, in its order."""
    parts = (each.partition(AT) for each in text.split(",") if each)
    return tuple(dict.fromkeys(ChosenColumn(unquote(replica), snapshot) for replica, _, snapshot in parts))


def read_chosen(fleet: Fleet, text: str) -> tuple[str, ...]:
    """Return the replicas to compare that a URL parameter names. `fleet` is that of `with_snapshots`."""
    known = {each.id for each in fleet.replicas}
    return tuple(each.key for each in _spelled(fleet, chosen_columns(text)) if each.key in known)[:MOST_CHOSEN]


def _spelled(fleet: Fleet, columns: Iterable[ChosenColumn]) -> tuple[ChosenColumn, ...]:
    """Return columns by id where a reader wrote the name of a replica, or its address without the scheme."""
    found = ((each, [] if each.snapshot else find_replicas(fleet, each.replica)) for each in columns)
    return tuple(dict.fromkeys(ChosenColumn(known[0].id) if known else each for each, known in found))


def with_snapshots(fleet: Fleet, columns: Iterable[ChosenColumn], opened: Mapping[str, OpenedSnapshot]) -> Fleet:
    """Return the fleet with the replicas that columns name in snapshots, with their documents, traffic and findings.

    Their id is the column's key, their name has the snapshot. What is in no snapshot of `opened` is left out.
    """
    wanted = {each: opened[each.snapshot] for each in columns if each.snapshot in opened}
    replicas, documents, findings = list(fleet.replicas), dict(fleet.documents), list(fleet.inspection.findings)
    traffic = dict(fleet.traffic)
    for column, frozen in wanted.items():
        for each in frozen.fleet.replicas:
            if each.id == column.replica:
                replicas.append(replace(each, id=column.key, name=f"{each.name} {AT} {one_line(frozen.label)}"))
                documents |= {key: frozen.fleet.documents[key] for key in [each.document] if key is not None}
        if own := frozen.fleet.traffic.get(column.replica):
            traffic[column.key] = own
        findings += _findings(column, frozen.fleet)
    inspection = replace(fleet.inspection, findings=tuple(findings))
    return replace(fleet, replicas=tuple(replicas), documents=documents, traffic=traffic, inspection=inspection)


def _findings(column: ChosenColumn, frozen: Fleet) -> Iterator[Finding]:
    for each in frozen.inspection.findings:
        if column.replica in each.replicas:
            yield replace(each, replicas=(column.key,))


def snapshot_notes(columns: Iterable[ChosenColumn], opened: Mapping[str, OpenedSnapshot]) -> dict[str, str]:
    """Return the snapshot of each column that has one, with its time: `snapshot 3fa9c01b2e, data as of ...`."""
    wanted = ((each.key, opened[each.snapshot].fleet) for each in columns if each.snapshot in opened)
    return {key: f"snapshot {short_id(str(frozen.snapshot))}, {as_of(frozen)}" for key, frozen in wanted}


def not_shown(fleet: Fleet, text: str, opened: Mapping[str, OpenedSnapshot], problems: Mapping[str, str]) -> list[str]:
    """Return a sentence for each replica and each snapshot that is not shown. `problems` are by snapshot."""
    sentences = list(problems.values())
    known = {each.id for each in fleet.replicas}
    columns = _spelled(fleet, chosen_columns(text))
    unknown = [each for each in columns if each.key not in known]
    for each in unknown:
        if not each.snapshot:
            sentences.append(f"{one_line(each.replica)} is not in this fleet.")
        elif each.snapshot in opened:
            sentences.append(f"{one_line(each.replica)} is not in snapshot {one_line(opened[each.snapshot].label)}.")
    if (more := len(columns) - len(unknown) - MOST_CHOSEN) > 0:
        sentences.append(f"At most {MOST_CHOSEN} replicas are compared: {more:,} are left out.")
    return sentences
