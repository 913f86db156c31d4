"""The page Status: where targets come from, the options in force, what is assumed, and which facts are missing."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.config import TARGET_SOURCES, Options
from dashboard.config.load import ReloadStatus
from dashboard.fleet import (
    MOST_CONFLICTS,
    FailureKind,
    LabelConflict,
    ReceiverStatus,
    Replica,
    ReplicaState,
    Source,
    SourceStatus,
)
from dashboard.fleet.formatting import MANY, count, duration, iso, joined, missing_rate, shortlist
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Kind, Link, Piece, Style, join_texts, page, plain, replica, to_plain
from dashboard.fleet.traffic import LEAST_REQUESTS, LEAST_TOKENS
from dashboard.rules.catalogue import ALL_RULES, RULE_SET
from dashboard.rules.domain import CERTAIN, Domain, Origin
from dashboard.store.opening import HistoryStatus
from dashboard.views import pages
from dashboard.views.blocks import Block, Cell, Paragraph, Section, Tone, View, quiet_paragraph
from dashboard.views.context import context_of
from dashboard.views.excluded import CREDENTIALS, PROVIDER, is_locked, reason, state_tone
from dashboard.views.pool_text import BASES, routers_section
from dashboard.views.table import Field, to_data, to_table
from dashboard.views.traffic import CACHING_OFF, UNREACHABLE, rate_text, why_no_rates
from dashboard.vllm.field_reference import known_versions
from vllm_fleet_provider.shared.redaction import redact

MOST_TARGETS = 1_000  # rows of the table of targets
MOST_NAMES = 3  # replicas that a row names
LISTED_APART = frozenset(TARGET_SOURCES)  # options that the table of sources shows
NOTHING = "-"
SHARED = {"router": "Router", "kv_store": "KV store", "disaggregated": "Disaggregated"}  # keys of fleet.yaml
ASK_EACH = "set direct: always of the source prometheus"


class Fact(NamedTuple):
    """Something that a replica can report: whether it does, and what would reveal it."""

    name: str
    is_known: Callable[[Replica], bool]
    reveal: str

    def known_text(self, replica: Replica) -> str:
        return str(self.is_known(replica)).lower()


FACTS = (
    Fact("version", lambda each: each.version is not None, "check the probe /version"),
    Fact("start time", lambda each: each.started_at is not None, "check the probe /metrics"),
    Fact("full configuration", lambda each: bool({Source.PROVIDER, Source.SERVER_INFO} & {*each.sources}), PROVIDER),
    Fact("KV cache blocks", lambda each: any(one.num_gpu_blocks is not None for one in each.engines), PROVIDER),
    Fact("KV cache groups", lambda each: bool(each.kv_cache_groups), PROVIDER),
    Fact("block hashes", lambda each: any(one.fingerprint is not None for one in each.engines), PROVIDER),
    Fact("devices", lambda each: bool(each.devices), PROVIDER),
    Fact("memory by part", lambda each: any(one.memory is not None for one in each.devices), PROVIDER),
    Fact("arguments", lambda each: each.set_arguments is not None, PROVIDER),
)


def status_report(
    fleet: Fleet,
    *,
    sources: Sequence[SourceStatus] = (),
    conflicts: Sequence[LabelConflict] = (),
    options: Options | None = None,
    reload: ReloadStatus | None = None,
    history: HistoryStatus | None = None,
    receivers: Sequence[ReceiverStatus] = (),
) -> View:
    """Return the status. The arguments are those of the live fleet; a snapshot has none."""
    complete = sum(all(fact.is_known(each) for fact in FACTS) for each in fleet.replicas)
    undeclared = sum(bool(each.assumptions) for each in fleet.inspection.domains.values())
    parts = [f"{complete:,} of {count(len(fleet.replicas), 'replica')} report every fact"] if fleet.replicas else []
    parts += [f"router not declared in {count(undeclared, 'pool')}"] if undeclared else []
    known = (_coverage_section(fleet), _traffic_section(fleet, options)) if fleet.replicas else ()
    common = (_domains_section(fleet), *known, _versions_section(fleet))
    listed: tuple[Section, ...] = ()
    live: tuple[Section, ...] = ()
    if options is not None:
        listed = (_sources_section(fleet, sources), *_conflicts_section(fleet, conflicts))
        listed += (*_targets_sections(fleet, sources), *routers_section(fleet.routers))
        listed += tuple(_receivers_section(receivers))
        live = (_history_section(options, history), _options_section(options, reload))
    return View(
        title="Status",
        headline=_headline(fleet, sources),
        lead=f"{'; '.join(parts)}." if parts else "",
        context=context_of(fleet),
        parts=(*listed, *common, *live),
    )


def _headline(fleet: Fleet, sources: Sequence[SourceStatus]) -> str:
    failed, unread = [each for each in sources if each.failure], [each for each in fleet.routers if each.failures]
    counts = fleet.coverage
    if not counts.targets and not failed:
        return "No targets" if fleet.polled_at else "Waiting for the first poll"
    parts = [f"{count(len(failed), 'source')} failed"] if failed else []
    parts += [f"{count(len(unread), 'router')} failed"] if unread else []
    return ", ".join([*parts, f"{counts.answered:,} of {count(counts.targets, 'target')} answered"])


def _error(name: str) -> Field:
    return Field(
        "",
        "Error",
        lambda row: getattr(row, name) or NOTHING,
        tone=lambda row: Tone.WARNING if getattr(row, name) else Tone.PLAIN,
    )


def _sources_section(fleet: Fleet, sources: Sequence[SourceStatus]) -> Section:
    answered = {each.id for each in fleet.replicas if each.state is not ReplicaState.DOWN}
    fields = (
        Field("name", "Source"),
        Field("kind", "Kind"),
        Field("", "Targets", value=lambda row: len(row.targets), is_number=True),
        Field("", "Reachable", value=lambda row: len(answered & {*row.targets}), is_number=True),
        Field("succeeded_at", "Last success", missing=NOTHING),
        _error("failure"),
    )
    if not sources:
        return Section("sources", "Sources", (Paragraph(plain("No sources.")),))
    return Section("sources", "Sources", (to_table(sources, fields, "sources", "Sources of targets"),))


def _conflicts_section(fleet: Fleet, conflicts: Sequence[LabelConflict]) -> Iterator[Section]:
    fields = (
        Field(
            "",
            "Target",
            lambda row: fleet.names.get(row.target, row.target),
            link=lambda row: Link(Kind.REPLICA, row.target),
        ),
        Field("label", "Label"),
        Field("value", "Value in use"),
        Field("source", "From"),
        Field("other", "Other value"),
        Field("other_source", "From"),
    )
    if conflicts:
        note = f"The source that is listed first wins. At most {MOST_CONFLICTS} are listed."
        table = to_table(conflicts, fields, "conflicts", "Labels on which sources disagree", note)
        yield Section("conflicts", table.caption, (table,))


def _receivers_section(receivers: Sequence[ReceiverStatus]) -> Iterator[Section]:
    fields = (
        Field("kind", "Receiver"),
        Field("", "Name", lambda row: row.name or NOTHING),
        Field("", "Host", lambda row: row.host or NOTHING),
        Field("pending", "Pending", is_number=True, missing=NOTHING),
        Field("succeeded_at", "Last success", missing=NOTHING),
        _error("error"),
    )
    if receivers:
        note = "python -m dashboard alert-test tests them."
        table = to_table(receivers, fields, "receivers", "Receivers of findings", note)
        yield Section("notifications", "Notifications", (table,))


def _targets_sections(fleet: Fleet, sources: Sequence[SourceStatus]) -> Iterator[Section]:
    listed_by: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for target in source.targets:
            listed_by[target].append(source.name)
    ordered = sorted(fleet.replicas, key=lambda each: (each.failure is None, each.name))
    fields = (
        Field("name", "Target", lambda row: row.name, link=lambda row: Link(Kind.REPLICA, row.id)),
        Field("id", "Address", lambda row: row.id),
        Field(
            "state",
            "State",
            lambda row: f"{row.state}{', stale' if row.target_stale else ''}",
            tone=lambda row: Tone.UNKNOWN if row.target_stale else state_tone(row.state),
        ),
        Field("", "Last success", lambda row: iso(at) if (at := fleet.read_at(row)) else NOTHING),
        Field("", "Error", lambda row: NOTHING if row.state is ReplicaState.UP else reason(row)),
        Field("", "Source", lambda row: joined(listed_by[row.id]) or NOTHING),
    )
    if ordered:
        rest = "{:,} more not listed: see Replicas.".format
        caption = "Targets, failed ones first"
        table = to_table(ordered, fields, "targets", caption, most=MOST_TARGETS, rest=rest, is_whole=True)
        yield Section("targets", "Targets", (table,))


def _history_section(options: Options, status: HistoryStatus | None) -> Section:
    if status is None:
        action = "set history.url, url_env or url_file" if options.history.enabled else "set history.enabled: true"
        cause = "read_only is set" if options.history.enabled else "history.enabled is false"
        return Section("history", "History", (Paragraph(plain(f"Off: {cause}. To record polls, {action}.")),))
    blocks = [Paragraph(plain(f"Not recorded. {status.problem}"), Tone.WARNING)] if status.problem else []
    if status.follows:
        blocks.append(Paragraph(plain("Another instance polls and records. This one shows its polls.")))
    if status.limited:
        text = f"Changes of {shortlist(status.limited, 10)} are not recorded until 0:00 UTC: too many today."
        blocks.append(Paragraph(plain(text), Tone.WARNING))
    last = iso(status.recorded_at) if status.recorded_at else "none since the start"
    failed = f" {count(status.failures, 'poll')} not recorded since the start." if status.failures else ""
    return Section("history", "History", (*blocks, Paragraph(plain(f"Last recorded poll: {last}.{failed}"))))


def _options_section(options: Options, reload: ReloadStatus | None) -> Section:
    defaults = dict(_leaves(Options().model_dump(mode="json")))
    fields = (
        Field("", "Option", lambda row: row[0], is_code=True),
        Field("", "Value", lambda row: _json(row[1]), is_code=True),
        Field(
            "",
            "Default",
            lambda row: _json(defaults[row[0]]) if defaults.get(row[0], row[1]) != row[1] else "",
            is_code=True,
        ),
    )
    blocks: list[Block] = []
    if reload is not None:
        blocks.append(Paragraph(plain(f"{options.file}, loaded {iso(reload.loaded_at)}.")))
        blocks += [Paragraph(plain(f"Not in force: {each}"), Tone.WARNING) for each in reload.mistakes]
        if late := reload.restart_required:
            blocks.append(Paragraph(plain(f"Restart required: {joined(list(late))}."), Tone.INFO))
    note = "A default is shown where the value differs from it. Secrets are redacted."
    table = to_table(_leaves(redact(options.model_dump(mode="json"))), fields, "options", "Options", note)
    return Section("options", "Options in force", (*blocks, table), is_aside=True)


def _leaves(value: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if place or key not in LISTED_APART:
            if isinstance(inner, dict) and inner:
                yield from _leaves(inner, (*place, key))
            else:
                yield ".".join((*place, key)), inner


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _domains_section(fleet: Fleet) -> Section:
    domains = sorted(fleet.inspection.domains.items(), key=lambda each: (not each[1].assumptions, each[0]))
    if not domains:
        return Section("assumptions", "Assumptions", (Paragraph(plain("No pool was read.")),))
    fields = (
        Field("", "Pool", lambda row: row[0], link=lambda row: Link(Kind.POOL, row[0])),
        *(Field("", title, partial(_shared_cell, key=key)) for key, title in SHARED.items()),
        Field("", "To declare it", _declaration, is_code=True),
    )
    note = f"Correct the values and write the line below pools: in {fleet.policy.file}."
    table = to_table(domains, fields, "assumptions", "Shared by a pool", note)
    return Section("assumptions", "Assumptions", (table,))


def _shared(domain: Domain, key: str) -> tuple[str, Origin]:
    """Return a value of a pool as fleet.yaml has it, and how it is known."""
    return str(getattr(domain, key)).lower(), getattr(domain, f"{key}_basis")


def _shared_cell(row: tuple[str, Domain], key: str) -> Cell:
    text, basis = _shared(row[1], key)
    return Cell(text, Tone.WARNING if key == "router" and basis not in CERTAIN else Tone.PLAIN, note=BASES[basis])


def _declaration(row: tuple[str, Domain]) -> str:
    pool, domain = row
    shared = {key: _shared(domain, key) for key in SHARED}
    missing = ", ".join(f"{key}: {text}" for key, (text, basis) in shared.items() if basis not in CERTAIN)
    return f"{json.dumps(pool)}: {{{missing}}}" if missing else NOTHING


def _coverage_section(fleet: Fleet) -> Section:
    groups: dict[tuple[tuple[Fact, ...], str], list[Replica]] = defaultdict(list)
    for each in fleet.replicas:
        missing = tuple(fact for fact in FACTS if not fact.is_known(each))
        groups[missing, "; ".join(_steps(missing, each))].append(each)
    rows = [(missing, members, steps) for (missing, steps), members in groups.items()]
    rows.sort(key=lambda row: (-len(row[0]), -len(row[1])))
    fields = (
        Field("", "Replicas", value=lambda row: len(row[1]), is_number=True),
        Field("", "Names", lambda row: _names_cell(row[1])),
        Field("", "Known", lambda row: ", ".join(fact.name for fact in FACTS if fact not in row[0]) or NOTHING),
        Field(
            "",
            "Missing",
            lambda row: ", ".join(fact.name for fact in row[0]) or NOTHING,
            tone=lambda row: Tone.UNKNOWN if row[0] else Tone.PLAIN,
        ),
        Field("", "To reveal it", lambda row: row[2] or NOTHING),
    )
    facts = (
        Field("name", key="replica"),
        Field("id", key="address"),
        *(Field("", key=fact.name, value=fact.known_text) for fact in FACTS),
    )
    table = to_table(rows, fields, "coverage", "Facts that replicas report")
    data = to_data(fleet.replicas, facts, "coverage", "Facts by replica")
    return Section("coverage", "Coverage", (replace(table, for_programs=lambda: data),))


def _names_cell(members: Sequence[Replica]) -> Cell:
    names = join_texts([(replica(each.name, each.id),) for each in members[:MOST_NAMES]], last=", ")
    more = len(members) - MOST_NAMES
    shown = (*names, *([Piece(f" and {more:,} more", Style.MUTED)] if more > 0 else []))
    return Cell(to_plain(shown), pieces=shown)


def _steps(missing: Iterable[Fact], row: Replica) -> list[str]:
    if not missing:
        return []
    if row.failure and row.failure.kind is FailureKind.NOT_VLLM:
        return ["remove it from the targets: not vLLM"]
    if row.state is ReplicaState.DOWN:
        return ["make the replica reachable"]
    if is_locked(row):
        return [CREDENTIALS]
    if row.same_digest_as:
        return [ASK_EACH]
    steps = list(dict.fromkeys(fact.reveal for fact in missing))
    has_provider = Source.PROVIDER in row.sources
    return [each for each in steps if each != PROVIDER or not has_provider] or ["not reported by this server"]


def _traffic_section(fleet: Fleet, options: Options | None) -> Section:
    """Return whether counters of use are read, and how many replicas have a hit rate, or why not."""
    blocks: list[Block] = []
    if options is not None:
        read, window = (duration(each) for each in (options.traffic.interval_seconds, options.traffic.window_seconds))
        text = f"Counters of use are read every {read}. Rates are of the last {window}."
        if not options.traffic.enabled:
            text = "Off: traffic.enabled is false. To read counters of use, set it to true."
            return Section("traffic", "Traffic", (Paragraph(plain(text)),))
        blocks.append(Paragraph(plain(text)))
    if why := why_no_rates(fleet):
        return Section("traffic", "Traffic", (*blocks, quiet_paragraph(why)))
    groups = grouped((_rate_word(fleet, each), each) for each in fleet.replicas)

    def why_none(row: tuple[str, Sequence[Replica]]) -> str:
        """Return the reason of the first of these replicas, where its numbers are not those of others."""
        word, members = row
        if word == "not enough traffic" and len(members) > 1:
            return f"Each has fewer than {LEAST_REQUESTS} requests or {LEAST_TOKENS:,} prompt tokens in the window."
        return "" if word == UNREACHABLE else missing_rate(fleet.traffic_of([members[0].id]))

    fields = (
        Field("", "Replicas", value=lambda row: len(row[1]), is_number=True),
        Field("", "Prefix hit rate", lambda row: row[0] or "known"),
        Field("", "Names", lambda row: _names_cell(row[1])),
        Field("", "Reason", lambda row: why_none(row) or NOTHING),
    )
    rows = sorted(groups.items(), key=lambda row: -len(row[1]))
    table = to_table(rows, fields, "rates", "Prefix hit rates of replicas")
    return Section("traffic", "Traffic", (*blocks, table))


def _rate_word(fleet: Fleet, row: Replica) -> str:
    """Return why a replica has no hit rate; empty where it has one."""
    traffic = fleet.traffic_of([row.id])
    if row.id in fleet.without_cache and traffic.seconds:
        return CACHING_OFF
    return "" if traffic.hit_rate is not None else rate_text(traffic, is_down=row.state is ReplicaState.DOWN)


def _versions_section(fleet: Fleet) -> Section:
    known = known_versions()
    versions = sorted({each.version for each in fleet.replicas if each.version})
    lines = [
        f"Rule set {RULE_SET}: {len(ALL_RULES)} rules.",
        f"Field reference: vLLM {known[0]} to {known[-1]}.",
        f"Versions in this fleet: {shortlist(versions, MANY)}." if versions else "No replica reported its version.",
    ]
    rules = (Piece(" Rules by outcome are on "), Piece("Findings", link=page(pages.FINDINGS)), Piece("."))
    return Section("versions", "Rules and versions", (Paragraph((*plain(" ".join(lines)), *rules)),))
