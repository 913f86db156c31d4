"""The page of one replica: state, findings, settings, engines, identity, probes."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import effect_of
from dashboard.capacity.sums import capacity_of
from dashboard.fleet import ProbeResult, Replica, ReplicaState, Source, formatting
from dashboard.fleet.formatting import count, iso, middle_cut, missing_word, one_line, setting_text
from dashboard.fleet.pieces import Age, Kind, Link, Piece, Style, page, section, shortlist_texts
from dashboard.fleet.traffic import Traffic
from dashboard.rules.findings import tally_replicas
from dashboard.rules.sentences import capital
from dashboard.views import pages
from dashboard.views.blocks import Block, Figure, Figures, Paragraph, Section, Tone, View, quiet_paragraph
from dashboard.views.context import context_of
from dashboard.views.excluded import reason
from dashboard.views.finding_list import fix_groups, full_entries, list_findings
from dashboard.views.finding_text import rule_title
from dashboard.views.help import glossary
from dashboard.views.names import brief, replica_text
from dashboard.views.pool_text import shared_texts
from dashboard.views.replica_engines import engines_section
from dashboard.views.replica_settings import (
    ReplicaComparison,
    compare_with_pool,
    count_differences,
    identity_blocks,
    provider_sections,
    settings_blocks,
)
from dashboard.views.replicas import best_source
from dashboard.views.since import since_paragraphs
from dashboard.views.summary import tally_text
from dashboard.views.table import Field, to_table
from dashboard.views.traffic import CACHING_OFF, NOT_BY_REPLICA, rate_hint, rate_text, why_no_traffic

LONGEST_NAME = 60  # characters
LONGEST_RESULT = 300
LONGEST_RAW = 60_000  # characters of a raw answer, which a browser highlights at once
UNKNOWN = "?"
MOST_UNKNOWN = 6  # unrecognized parts of replies that are named
MOST_SUPPRESSED = 12  # findings that are named
# Anchors: above the tabs of the page, and the tabs.
HEAD = ("numbers", "findings", "contradictions")
SETTINGS, ENGINES, IDENTITY, PROBES, PROVIDER = "settings", "engines", "identity", "probes", "provider"
CONTRADICTIONS = (
    Field("path", "Setting", lambda row: middle_cut(row.path, LONGEST_NAME), is_code=True),
    Field("kept", "Used", lambda each: setting_text(*each.kept[:2]), is_code=True, key="Kept"),
    Field("kept", "Source", lambda each: formatting.SOURCE_WORDS[each.kept.source], key="said by"),
    Field("other", "Not used", lambda each: setting_text(*each.other[:2]), is_code=True, key="Not kept"),
    Field("other", "Its source", lambda each: formatting.SOURCE_WORDS[each.other.source], key="said by"),
)


def replica_report(fleet: Fleet, replica_id: str, *, comparison: ReplicaComparison | None = None) -> View:
    """Return all that is known of one replica. Raises KeyError where the fleet has none with this id.

    `comparison` is that with its pool, where it is known.
    """
    replica = fleet.as_read(fleet.by_id[replica_id])
    document = fleet.documents.get(replica.document or "")
    settings = document.settings if document else {}
    compared = comparison or compare_with_pool(fleet, replica)
    shown = cache(lambda: settings_blocks(replica, compared))
    sighting = fleet.sightings.replicas.get(replica.id)
    since = since_paragraphs(sighting if sighting and sighting.absent_at else None, "In the fleet")
    title = f"All {count(len(compared.rows), 'setting')}" if len(compared.rows) else "Settings"
    return View(
        title="Replica",
        headline=middle_cut(one_line(replica.name), LONGEST_NAME),
        lead=" · ".join([middle_cut(one_line(replica.id), LONGEST_NAME), _state_text(replica, compared)]),
        context=context_of(fleet, filters=[("replica", replica.id)]),
        parts=(
            Section("numbers", "Summary", (_figures(fleet, replica, compared), *since, *_notices(fleet, replica))),
            *_findings(fleet, replica),
            *_contradictions(replica),
            engines_section(fleet, replica, settings),
            Section(IDENTITY, "Identity", identity_blocks(replica)),
            Section(PROBES, "Probes", _probes(replica)),
            *provider_sections(replica, settings),
            glossary(("cohort", "reference", "basis")),
            Section(SETTINGS, title, shown, is_appendix=True),
        ),
    )


def raw_answer(probe: ProbeResult) -> tuple[str, str]:
    """Return a redacted answer to show, and a note on what is left out.

    JSON is indented, undecodable bytes are replaced.
    """
    text = probe.raw.decode("utf-8", errors="replace")
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    notes = []
    if probe.source is Source.METRICS and len(probe.raw) < probe.size_bytes:
        lines = count(len(probe.raw.splitlines()), "line")
        notes.append(f"Only used lines are kept: {lines} of an answer of {probe.size_bytes:,} bytes.")
    if len(text) > LONGEST_RAW:
        notes.append(f"The first {LONGEST_RAW:,} of {len(text):,} characters.")
    return text[:LONGEST_RAW], " ".join(notes)


def in_order(probes: Sequence[ProbeResult]) -> list[ProbeResult]:
    """Return probes in order: failed, read, not found."""
    return sorted(probes, key=lambda probe: (probe.failure is None, probe.reply is None, probe.path))


def _state_text(replica: Replica, comparison: ReplicaComparison) -> str:
    names = {ReplicaState.PARTIAL: "Partial", ReplicaState.DOWN: "Down"}
    text = "Up." if replica.state is ReplicaState.UP else f"{names[replica.state]}: {reason(replica)}"
    if 0 < len(comparison.rows) < comparison.of_pool:
        text += f" Reports {len(comparison.rows):,} of the {comparison.of_pool:,} settings of its pool."
    text += f" {formatting.STALE_TARGET}" if replica.target_stale else ""
    if replica.same_digest_as:
        text += f" Settings not read from it: same digest as {replica.same_digest_as}."
    source = best_source(replica.sources)
    return text + (f" Source: {source}." if source else "")


def _figures(fleet: Fleet, replica: Replica, comparison: ReplicaComparison) -> Figures:
    pool = comparison.pool
    cohort = next((each for each in pool.cohorts if replica.id in each.replicas), None) if pool else None
    where = f"cohort {cohort.letter} of {len(pool.cohorts):,}" if cohort and pool else "no cohort"
    where = where if replica.role == "both" else f"{replica.role} · {where}"
    started, start_age = "start time not reported", None
    if replica.started_at:
        started, start_age = f"started {iso(replica.started_at)}", Age(replica.started_at, "started {}")
    read = Figure("Read", "never", "no probe succeeded")
    if time := replica.observed_at:
        read = Figure("Read", f"{time:%H:%M:%S}", iso(time), age=Age(time))
    link = Link(Kind.POOL, pool.name) if pool else None
    return Figures(
        (
            _finding_figure(fleet, replica),
            Figure("Pool", brief(replica.pool or "none"), where if pool else "model not reported", link=link),
            _difference_figure(replica, comparison),
            Figure("vLLM", brief(replica.version or formatting.NOT_KNOWN), started, note_age=start_age),
            _capacity_figure(replica),
            _traffic_figure(fleet, replica),
            read,
        )
    )


def _finding_figure(fleet: Fleet, replica: Replica) -> Figure:
    tally = tally_replicas(fleet.inspection, [replica])[replica.id]
    number = tally.critical + tally.warning + tally.info
    suppressed = sum(replica.id in each.replicas for each in fleet.inspection.suppressed)
    note = ", ".join(filter(None, (tally_text(tally), f"{suppressed:,} suppressed" if suppressed else "")))
    tone = Tone(tally.worst) if tally.worst else Tone.PLAIN
    return Figure("Findings", f"{number:,}", note, tone, section("findings") if note else None)


def _capacity_figure(replica: Replica) -> Figure:
    capacity = capacity_of([replica])
    notes = [count(len(replica.engines), "DP rank")] if replica.engines else ["no engine data"]
    notes += [formatting.size(capacity.bytes.value)] if capacity.bytes.value is not None else []
    notes += [f"{capacity.unknown:,} not known"] if capacity.unknown and capacity.tokens.known else []
    notes += [f"{capacity.basis}"] if capacity.tokens.known else []
    return Figure("KV cache tokens", formatting.short(capacity.tokens.value, capacity.basis), " · ".join(notes))


def _difference_figure(replica: Replica, comparison: ReplicaComparison) -> Figure:
    label = "Differs from pool"
    if replica.document is None or not comparison.compared:
        why = "settings not reported" if replica.document is None else "no other replica reports its settings"
        return Figure(label, UNKNOWN, why, Tone.UNKNOWN)
    number = count_differences(comparison.differences)
    ties = len(comparison.differences) - number
    note = f"of {count(comparison.compared, 'setting')} compared" + (f"; {ties:,} without a majority" if ties else "")
    is_complete = len(comparison.rows) >= comparison.of_pool
    tone = Tone.GOOD if is_complete and not comparison.differences else Tone.PLAIN
    pool = comparison.pool.name if comparison.pool else ""
    link = page(pages.COMPARE, pool=pool, reference=replica.id) if comparison.differences else None
    return Figure(label, f"{number:,}", note, tone, link)


def _traffic_figure(fleet: Fleet, replica: Replica) -> Figure:
    own = fleet.traffic_of([replica.id])  # of a past time where no other replica has its settings
    if own.seconds:
        rest = effect_of(fleet, replica.pool or "", [replica.id]).rest
        why = CACHING_OFF if replica.id in fleet.without_cache else missing_word(own)
        beside = f"unaffected replicas {formatting.hit_rate(rest)}" if rest.seconds else rate_hint(own)
        return Figure("Prefix hit rate", formatting.hit_rate(own), why or beside)
    by_replica = NOT_BY_REPLICA if fleet.recorded_traffic is not None else ""
    unread = rate_text(Traffic(), is_down=replica.state is ReplicaState.DOWN)
    return Figure("Prefix hit rate", formatting.NOT_KNOWN, why_no_traffic(fleet) or by_replica or unread)


def _notices(fleet: Fleet, replica: Replica) -> list[Block]:
    notices: list[Block] = []
    if not replica.fresh and replica.observed_at is not None and (replica.document or replica.engines):
        read_at = Piece(iso(replica.observed_at), age=Age(replica.observed_at))
        stale = Piece("Stale values.", Style.STRONG)
        notices.append(Paragraph((stale, Piece(" Last read "), read_at, Piece(". Not counted.")), Tone.WARNING))
    if replica.same_process:
        title = f"One process behind {formatting.in_words(len(replica.same_process) + 1)} addresses."
        others = replica_text(replica.same_process, fleet.names, len(replica.same_process))
        text = (Piece(title, Style.STRONG), Piece(" Same instance_id: "), *others, Piece(". Capacity is counted once."))
        notices.append(Paragraph(text, Tone.WARNING))
    if unknown := sorted({what for probe in replica.probes if probe.reply for what in probe.reply.not_understood}):
        named = [(Piece(middle_cut(one_line(each), LONGEST_NAME), Style.CODE),) for each in unknown]
        head = Piece(f"{count(len(unknown), 'part')} of its replies not recognized: ", Style.STRONG)
        notices.append(Paragraph((head, *shortlist_texts(named, MOST_UNKNOWN), Piece(".")), Tone.INFO))
    if domain := fleet.inspection.domains.get(replica.pool or ""):
        notices.append(quiet_paragraph(f"{capital(', '.join(shared_texts(domain)))}."))
    return notices


def _findings(fleet: Fleet, replica: Replica) -> tuple[Section, ...]:
    known = list_findings(fleet)
    groups = fix_groups(each for each in known.active if replica.id in each.finding.replicas)
    suppressed = [each for each in known.suppressed if replica.id in each.finding.replicas]
    if not groups and not suppressed:
        return ()
    entries = full_entries(groups, fleet)
    items = []
    for entry, group in zip(entries.items, groups, strict=True):
        first = group[0]
        side = "" if first.finding.replicas == (replica.id,) else entry.side  # the page is about this replica
        items.append(replace(entry, head=first.finding.text, side=side, link=Link(Kind.FINDING, first.key)))
    title = count(sum(map(len, groups)), "finding")
    blocks: list[Block] = [replace(entries, items=tuple(items))] if items else []
    if suppressed:
        title += f", {len(suppressed):,} suppressed"
        named = [(Piece(rule_title(each.finding.rule), link=Link(Kind.FINDING, each.key)),) for each in suppressed]
        blocks.append(Paragraph((Piece("Suppressed: "), *shortlist_texts(named, MOST_SUPPRESSED), Piece("."))))
    return (Section("findings", title, tuple(blocks)),)


def _contradictions(replica: Replica) -> list[Section]:
    if not replica.contradictions:
        return []
    title = f"Sources disagree on {count(len(replica.contradictions), 'setting')}"
    note = "The value of the more trusted source is used."
    table = to_table(replica.contradictions, CONTRADICTIONS, "contradictions", title, note)
    return [Section("contradictions", title, (table,))]


def _probes(replica: Replica) -> tuple[Block, ...]:
    if not replica.probes:
        is_reported = replica.is_reported
        return (quiet_paragraph("On the dashboard of its cluster only." if is_reported else "Never polled."),)
    fields = (
        Field("", "Outcome", lambda probe: _probe_result(probe)[0]),
        Field("path", "Path", lambda probe: probe.path, is_code=True),
        Field("status", "Status", "{}", is_number=True),
        Field("", "Bytes", value=lambda probe: probe.size_bytes if probe.status else None, is_number=True),
        Field("", "Duration, ms", "{:,.1f}", lambda probe: probe.elapsed_seconds * 1000, is_number=True),
        Field("observed_at", "Time"),
        Field("", "Result", lambda probe: _probe_result(probe)[1]),
    )
    return (to_table(in_order(replica.probes), fields, "probes", "Probes", is_whole=True),)


def _probe_result(probe: ProbeResult) -> tuple[str, str]:
    if probe.failure is not None:
        detail = middle_cut(one_line(probe.failure.detail), LONGEST_RESULT)
        return f"✕ {formatting.FAILURE_WORDS[probe.failure.kind]}", detail
    if probe.reply is None:
        return "– not found", "This vLLM has no such path."
    parts = len(probe.reply.not_understood)
    return "✓ read", f"{count(parts, 'part')} not recognized." if parts else ""
