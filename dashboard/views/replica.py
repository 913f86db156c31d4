"""What the page of one replica says, as a report: how it stands, what is wrong with it, what it holds, all it tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Pool, Replica, formatting
from dashboard.fleet.pieces import plain
from dashboard.report.replicas.beside import beside_its_pool
from dashboard.report.replicas.differences import Apart, from_majority
from dashboard.report.replicas.settings import POOL_HAS, ReadCoverage, identity_table
from dashboard.report.replicas.sources import SOURCES
from dashboard.report.replicas.standing import standing_words
from dashboard.views.blocks import Cell, Column, Figure, Figures, Paragraph, Section, Table, Tone, View
from dashboard.views.capacity_blocks import PoolRanks
from dashboard.views.capacity_data import ranks_of, total
from dashboard.views.capacity_tables import ranks_table
from dashboard.views.context import context_of
from dashboard.views.domain_text import shared_texts
from dashboard.views.finding_entries import FindingContext, full_entries
from dashboard.views.finding_list import group_findings, list_findings
from dashboard.views.glossary import BASIS, COHORT, REFERENCE, glossary
from dashboard.views.names import brief, replica_names
from dashboard.views.slugs import slug

if TYPE_CHECKING:
    import pandas as pd

LONGEST_NAME = 60  # characters
_NO_POOL = "no reply tells its model"


def replica_report(fleet: Fleet, replica_id: str, *, name: str = "") -> View:
    """Report one replica; raise KeyError where the fleet has none of this id. `name` is the snapshot's."""
    replica = {each.id: each for each in fleet.replicas}[replica_id]
    pool, apart, rows, far = beside_its_pool(fleet, replica)
    return View(
        title="Replica",
        headline=formatting.middle_cut(formatting.one_line(replica.name), LONGEST_NAME),
        lead=standing_words(replica, far if far.read else None),
        context=context_of(fleet, name=name, filters=[("replica", replica.id)]),
        parts=(
            Section("numbers", "In numbers", (_figures(replica, pool, apart, far), *_warnings(fleet, replica))),
            *_findings(fleet, replica),
            *_contradictions(replica),
            *_capacity(fleet, replica),
            *_identity(replica),
            glossary((COHORT, REFERENCE, BASIS)),
            *_settings(rows, replica),
        ),
    )


def _figures(replica: Replica, pool: Pool | None, apart: Sequence[Apart], far: ReadCoverage) -> Figures:
    held = total([replica])
    cohort = next((each for each in pool.cohorts if replica.id in each.replicas), None) if pool else None
    where = f"cohort {cohort.letter} of {len(pool.cohorts):,}" if cohort and pool else "in no cohort"
    ranks = formatting.count(len(replica.engines), "DP rank") if replica.engines else "no engine is known"
    sizes = [formatting.size(held.bytes)] if held.bytes is not None else []
    basis = [f"{held.basis}"] if held.tokens is not None else []
    return Figures(
        (
            Figure("Pool", brief(replica.pool or "none"), where if pool else _NO_POOL),
            _differences(replica, apart, far),
            Figure("vLLM", brief(replica.version or formatting.NOT_KNOWN), _started(replica)),
            Figure("KV cache tokens", formatting.short(held.tokens, held.basis), " · ".join([ranks, *sizes, *basis])),
            Figure("Read", formatting.iso(replica.observed_at) if replica.observed_at else "never"),
        )
    )


def _differences(replica: Replica, apart: Sequence[Apart], far: ReadCoverage) -> Figure:
    label = "Differs from its pool in"
    if replica.document is None or not far.compared:
        why = "its settings were never read" if replica.document is None else "no other replica tells its settings"
        return Figure(label, "?", why, Tone.UNKNOWN)
    number = from_majority(apart)
    ties = len(apart) - number
    note = f"of {formatting.count(far.compared, 'setting')} compared"
    note += f"; {ties:,} {'has' if ties == 1 else 'have'} no majority" if ties else ""
    return Figure(label, f"{number:,}", note)


def _started(replica: Replica) -> str:
    return f"started {formatting.iso(replica.started_at)}" if replica.started_at else "start not known"


def _warnings(fleet: Fleet, replica: Replica) -> list[Paragraph]:
    """Say what a reader must know before believing the rest."""
    said = []
    if not replica.fresh and replica.observed_at is not None and (replica.document or replica.engines):
        said.append(f"Old values. They were last read {formatting.iso(replica.observed_at)} and are not counted.")
    if replica.same_process:
        names = replica_names(fleet)
        others = formatting.joined([brief(names.get(each, each)) for each in replica.same_process])
        many = formatting.in_words(len(replica.same_process) + 1)
        answer = "answers" if len(replica.same_process) == 1 else "answer"
        said.append(
            f"One process behind {many} addresses. {others} {answer} with the same instance_id. "
            "Its capacity is counted once."
        )
    domain = fleet.inspection.domains.get(replica.pool or "")
    shared = [Paragraph(plain(f"Its pool: {', '.join(shared_texts(domain))}."))] if domain else []
    return [*(Paragraph(plain(each), Tone.WARNING) for each in said), *shared]


def _findings(fleet: Fleet, replica: Replica) -> list[Section]:
    known = list_findings(fleet)
    own = [each for each in known.active if replica.id in each.finding.replicas]
    entries = full_entries(group_findings(own), FindingContext(known.names, fleet.inspection))
    return [Section("findings", formatting.count(len(own), "finding"), (entries,))] if own else []


def _contradictions(replica: Replica) -> list[Section]:
    if not replica.contradictions:
        return []
    rows = [
        (
            Cell(formatting.middle_cut(each.path, LONGEST_NAME)),
            Cell(formatting.setting_text(each.kept.value, each.kept.state)),
            Cell(SOURCES[each.kept.source]),
            Cell(formatting.setting_text(each.other.value, each.other.state)),
            Cell(SOURCES[each.other.source]),
        )
        for each in replica.contradictions
    ]
    columns = (
        Column("Setting", is_code=True),
        Column("Kept", is_code=True),
        Column("said by"),
        Column("Not kept", is_code=True),
        Column("said by"),
    )
    title = f"Its sources contradict each other in {formatting.count(len(rows), 'setting')}"
    note = "Kept is what the more trusted source says."
    return [Section("contradictions", title, (Table("contradictions", title, columns, tuple(rows), note),))]


def _capacity(fleet: Fleet, replica: Replica) -> list[Section]:
    ranks = tuple(rank for rank in ranks_of(fleet, None) if rank.replica.id == replica.id)
    if not ranks:
        said = Paragraph(plain("No engine is known: no reply tells its blocks."), Tone.UNKNOWN)
        return [Section("engines", "Engines", (said,))]
    table = ranks_table([PoolRanks("", "", ranks, {})], f"engines-{slug(replica.name)}", "Engines")
    reasons = dict.fromkeys(rank.engine.reason for rank in ranks if rank.engine.reason)
    return [Section("engines", "Engines", (table, *(Paragraph(plain(each)) for each in reasons)))]


def _identity(replica: Replica) -> list[Section]:
    labels = [("label " + key, value, "fleet.yaml") for key, value in sorted(replica.labels.items())]
    told = [tuple(row) for row in identity_table(replica.identity).itertuples(index=False)]
    rows = [tuple(Cell(formatting.one_line(str(each))) for each in row) for row in (*labels, *told)]
    if not rows:
        return []
    columns = (Column("Setting", is_code=True), Column("Value", is_code=True), Column("Told by"))
    note = "These must or may differ from replica to replica; they are never compared."
    return [Section("identity", "Identity", (Table("identity", "Identity", columns, tuple(rows), note),))]


def _settings(rows: pd.DataFrame, replica: Replica) -> list[Section]:
    if rows.empty:
        said = Paragraph(plain("Its settings were never read."), Tone.UNKNOWN)
        return [Section("settings", "Settings", (said,), is_appendix=True)]
    columns = (
        Column("Setting", is_code=True),
        Column("Value", is_code=True),
        Column(POOL_HAS, is_code=True),
        Column("State"),
        Column("Told by"),
    )
    told = rows[["path", "Value", POOL_HAS, "State", "Told by"]].itertuples(index=False)
    cells = tuple(tuple(Cell(formatting.one_line(str(each))) for each in row) for row in told)
    table = Table(f"settings-{slug(replica.name)}", "Settings", columns, cells)
    return [Section("settings", f"All {formatting.count(len(cells), 'setting')}", (table,), is_appendix=True)]
