"""Replicas with their values of one setting, one a row: on a page, rows are ticked to compare their replicas."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, SettingValue, State, cohort_letters
from dashboard.fleet.formatting import end_cut, setting_text
from dashboard.fleet.pieces import Kind, Link
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Column, Section, Table
from dashboard.vllm.value_origin import ValueOrigin, setting_arguments, value_origin
from dashboard.vllm.versions import is_unsupported

REPLICAS = "setting-replicas"  # anchor
MOST_ROWS = 1_000
COMMAND_LINE = "command_line"  # the source of an argument that is not named


def origin_text(path: str, value: SettingValue, replica: Replica) -> str:
    """Write the origin of a replica's value: `set by --block-size`, `default`, `derived`."""
    origin = value_origin(path, value, replica.version, replica.set_arguments)
    if origin is not ValueOrigin.SET or replica.set_arguments is None:
        return str(origin)
    argument = setting_arguments(replica.set_arguments, replica.version)[path]
    place = f" ({argument.source.replace('_', ' ')})" if argument.source != COMMAND_LINE else ""
    return f"set by {argument.name}{place}"


def setting_value(fleet: Fleet, replica: Replica, path: str) -> SettingValue:
    """Return the value or the state of a setting of a replica, which must have a document."""
    setting = fleet.documents[str(replica.document)].settings.get(path)
    if setting is not None:
        return SettingValue(setting.value, setting.state)
    return SettingValue("null", State.UNSUPPORTED if is_unsupported(replica.version, path) else State.ABSENT)


def replicas_section(fleet: Fleet, path: str, replicas: Sequence[Replica]) -> tuple[Section, ...]:
    """Return these replicas with their values of a setting; empty without any."""
    return (Section(REPLICAS, "Replicas", (_table(fleet, replicas, path),)),) if replicas else ()


def affected_section(fleet: Fleet, finding: Finding) -> Section:
    """Return the replicas of a finding, then the others of its pools, with the first setting that it names."""
    affected = set(finding.replicas)
    members = [each for each in fleet.replicas if each.id in affected or each.pool in finding.pools]
    members.sort(key=lambda each: each.id not in affected)
    settings = (path for path in finding.paths if any(path in each.settings for each in fleet.documents.values()))
    marks = {each.id: "yes" if each.id in affected else "no" for each in members}
    return Section(
        "compare-replicas", "Compare replicas", (_table(fleet, members, next(settings, ""), marks),), is_aside=True
    )


def _table(fleet: Fleet, replicas: Sequence[Replica], path: str, affected: Mapping[str, str] | None = None) -> Table:
    """Return a row for each replica. The columns of value and origin are only there with a `path`."""
    letters = cohort_letters(fleet.pools)
    columns = {
        Column("Replica"): [Cell(each.name, link=Link(Kind.REPLICA, each.id)) for each in replicas],
        Column("Affected"): [Cell(affected[each.id]) for each in replicas] if affected else None,
        Column("Pool"): [Cell(each.pool or "") for each in replicas],
        Column("Cohort"): [Cell(letters.get(each.id, "")) for each in replicas],
        Column("Value", is_code=True): [_value(fleet, each, path) for each in replicas] if path else None,
        Column("Origin"): [_origin(fleet, each, path) for each in replicas] if path else None,
    }
    present = {column: cells[:MOST_ROWS] for column, cells in columns.items() if cells is not None}
    hidden = len(replicas) - MOST_ROWS
    notes = (
        f"Value of {path}." if path and affected else "",
        f"{hidden:,} more replicas are not listed." if hidden > 0 else "",
    )
    return Table(
        name=REPLICAS,
        caption=f"{path} by replica" if path else "Replicas",
        columns=tuple(present),
        rows=tuple(zip(*present.values(), strict=True)),
        note=" ".join(filter(None, notes)),
        is_large=True,
    )


def _value(fleet: Fleet, replica: Replica, path: str) -> Cell:
    return Cell(end_cut(setting_text(*setting_value(fleet, replica, path))) if replica.document else "")


def _origin(fleet: Fleet, replica: Replica, path: str) -> Cell:
    return Cell(origin_text(path, setting_value(fleet, replica, path), replica) if replica.document else "")
