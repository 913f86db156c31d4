"""What `check` and `poll` print: findings with cause and fix; replicas, then each pool with what differs in it."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.sharing_text import sharing_text
from dashboard.capacity.sums import capacity_of
from dashboard.fleet import Pool, Replica, ReplicaState, State, cohort_letters
from dashboard.fleet.formatting import NOT_KNOWN, at_most, count, end_cut, hit_rate, setting_text, uncapitalized
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.rules.catalogue import BY_ID, places
from dashboard.rules.findings import Finding, OutcomeKind, Severity
from dashboard.rules.registry import Scope
from dashboard.views import finding_text, summary
from dashboard.views.blocks import Cell, Column, Entries, Entry, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.effect import finding_line
from dashboard.views.finding_list import EITHER, has_alternatives, labelled
from dashboard.views.finding_text import with_code
from dashboard.views.table import Field, to_table
from dashboard.views.traffic import rate_hint, rate_text

SKIPPED = "{}, as not enough replicas report their settings."
SKIPPED_TRAFFIC = "{} on traffic, as too little was counted: `--traffic 60s`, or longer."
REASONS = "`--format json` lists each with the reason."
MOST_LINES = 50  # of one section below the findings; the rest is counted
PAGES = "`python -m dashboard rules ID` prints the page of a rule, such as `python -m dashboard rules RT-01`."
MOST_DIFFERENCES = 12  # of a pool; the rest is counted
TONES = {ReplicaState.UP: Tone.GOOD, ReplicaState.PARTIAL: Tone.WARNING, ReplicaState.DOWN: Tone.CRITICAL}
VALUES = frozenset({State.REPORTED, State.NULL, State.REDACTED})


def check_view(fleet: Fleet, left_out: str = "") -> View:
    """Return all findings of a fleet, and what was not evaluated or not counted; `left_out` names what is not new."""
    inspection, names = fleet.inspection, fleet.names
    entries = [
        (
            finding.severity,
            _entry(fleet, finding, finding_text.same_as(finding, earlier, names) if earlier else None),
        )
        for finding, earlier in finding_text.with_earlier(inspection.findings)
    ]
    sections = [
        Section(f"severity-{severity}", count(len(own), summary.SEVERITY_TERMS[severity]), (Entries(own),))
        for severity in Severity
        if (own := tuple(entry for each, entry in entries if each is severity))
    ]
    lists = (
        ("assumptions", "Assumptions (not configured)", finding_text.assumptions(inspection)),
        ("rollouts", "Rollouts", finding_text.rollouts(inspection)),
        ("suppressed", "Suppressed", finding_text.suppressed(inspection, names)),
        ("errors", "Rule errors", finding_text.reasons_of(inspection, OutcomeKind.ERROR)),
        ("warnings", "Warnings", [*inspection.notes, *fleet.unrecorded]),
        ("unreachable", "Unreachable", finding_text.unreachable(fleet)),
    )
    sections += [_list(anchor, heading, lines) for anchor, heading, lines in lists if lines]
    if skipped := summary.skipped_rules(inspection):
        on_traffic = sum(BY_ID[each].scope is Scope.TRAFFIC for each in skipped)
        numbers = ((SKIPPED, len(skipped) - on_traffic), (SKIPPED_TRAFFIC, on_traffic))
        lines = [text.format(count(number, "rule")) for text, number in numbers if number]
        sections.append(Section("skipped", "Skipped", (Paragraph(with_code(" ".join([*lines, REASONS]))),)))
    if inspection.findings:
        sections.append(Section("rules", "Rules", (Paragraph(with_code(PAGES)),)))
    nothing = "" if fleet.coverage.answered else "no replica answered; "
    return View(
        title="vLLM fleet",
        headline=f"{fleet.name}: {nothing}{summary.findings_title(inspection, are_new=bool(left_out))}",
        lead=f"{summary.findings_lead(fleet)}. {left_out}".rstrip(),
        context=context_of(fleet),
        parts=tuple(sections),
    )


def check_summary(fleet: Fleet) -> Section:
    """Return one line for each critical and the first other rules with findings; the ids of the rest by severity."""
    entries, shown = [], set()
    for severity, named, others in finding_text.rules_by_severity(fleet.inspection.findings):
        for found in named:
            where = finding_text.first_names(dict.fromkeys(place for each in found for place in places(each)))
            title = Piece(finding_text.rule_title(found[0].rule), Style.STRONG)
            entries.append(Entry(Tone(severity), (title, Piece(f" in {where}"))))
        shown |= {found[0].rule for found in named}
        if hidden := [rule for rule in others if rule not in shown]:
            entries.append(Entry(Tone(severity), plain(", ".join(hidden))))
            shown |= {*hidden}
    return Section("summary", "Summary", (Entries(tuple(entries)) if entries else Paragraph(plain("No findings")),))


def _entry(fleet: Fleet, finding: Finding, same_as: str | None) -> Entry:
    advice = [labelled("Why it matters", with_code(finding.why))] if finding.why else []
    advice.append(labelled("What to do", with_code(finding.remedy.sentence)))
    snippets = () if same_as else tuple(each.text for each in finding.remedy.snippets)
    return Entry(
        tone=Tone(finding.severity),
        head=(Piece(finding_text.rule_title(finding.rule), Style.STRONG), Piece(f" in {finding_text.where(finding)}")),
        side=finding_text.replicas_text(finding, fleet.names),
        lines=(
            plain(finding.sentence),
            *([plain(measured)] if (measured := finding_line(fleet, finding)) else []),
            *([plain(same_as)] if same_as else advice),
            *map(plain, finding_text.remarks(finding)),
            *([plain(EITHER)] if snippets and has_alternatives(finding.remedy) else []),
        ),
        snippets=snippets,
    )


def _list(anchor: str, heading: str, lines: Sequence[str]) -> Section:
    hidden = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"and {hidden:,} more"] if hidden > 0 else [])]
    return Section(anchor, heading, (Entries(tuple(Entry(Tone.PLAIN, plain(each)) for each in shown)),))


def poll_view(fleet: Fleet) -> View:
    counts = fleet.coverage
    return View(
        title="vLLM fleet",
        headline=f"{fleet.name}: {counts.answered:,} of {counts.targets:,} answered",
        lead=f"{counts.up:,} up, {counts.partial:,} partial, {counts.down:,} down. {_sharing(fleet)}".rstrip(),
        context=context_of(fleet),
        parts=(
            Section("replicas", "Replicas", (_replicas(fleet),)),
            *(_pool(fleet, pool, place) for place, pool in enumerate(fleet.pools)),
        ),
    )


def _sharing(fleet: Fleet) -> str:
    """Return the share of replicas that share prefixes with their pool; empty where none is counted."""
    counts = fleet.prefix_sharing
    if not counts.counted:
        return ""
    if counts.unknown == counts.counted:
        return f"Prefix sharing is unknown for {count(counts.unknown, 'replica')}."
    unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
    return f"{summary.shared_text(counts)} share prefixes with their pool{unknown}."


def _replicas(fleet: Fleet) -> Table:
    cohorts = cohort_letters(fleet.pools)
    rates = [Field("", "hit rate", lambda row: _rate_text(fleet, row), is_number=True)] if fleet.traffic else []
    fields = (
        Field("name", "replica", lambda row: row.name),
        Field("", "pool", lambda row: end_cut(row.pool or "-", 40)),
        Field("state", "state", tone=lambda row: TONES[row.state]),
        Field("", "cohort", lambda row: cohorts.get(row.id, "-")),
        Field("", "vLLM", lambda row: end_cut(row.version or "-", 20)),
        Field("", "KV tokens", _tokens, is_number=True),
        *rates,
        Field("", "reason", _reason),
    )
    return to_table(fleet.replicas, fields, "replicas", "Replicas")


def _reason(replica: Replica) -> str:
    """Return the failure's sentence, without the address where that is the replica's name."""
    detail = replica.failure.detail if replica.failure else ""
    text = detail.removeprefix(f"{replica.name} ")
    return f"{text[:1].upper()}{text[1:]}"


def _rate_text(fleet: Fleet, replica: Replica) -> str:
    """Return the prefix hit rate of a replica, or why it has none; a dash where it did not answer."""
    traffic = fleet.traffic_of([replica.id])
    is_read = traffic.seconds or replica.state is not ReplicaState.DOWN
    return rate_text(traffic, is_off=replica.id in fleet.without_cache) if is_read else "-"


def _tokens(replica: Replica) -> str:
    """Return the sum of a replica's ranks, and of how many where not of all."""
    found = capacity_of([replica])
    if not found.ranks:
        return "-"
    of_some = f" ({found.tokens.known:,} of {found.ranks:,} ranks)" if found.tokens.known and found.unknown else ""
    return f"{NOT_KNOWN if found.tokens.value is None else at_most(f'{found.tokens.value:,}', found.basis)}{of_some}"


def _pool(fleet: Fleet, pool: Pool, place: int) -> Section:
    cohorts = ", ".join(f"{each.letter} x{len(each.replicas)}" for each in pool.cohorts) or "not reported"
    sharing = Paragraph(sharing_text(fleet.sharing[pool.name], fleet.by_id))
    rates = [Paragraph(plain(text)) for text in (_hit_rates(fleet, pool),) if text]
    differences = _differences(pool, place, fleet.names) if pool.differences else Paragraph(plain(_no_difference(pool)))
    return Section(f"pool-{place}", f"{end_cut(pool.name, 80)}  {cohorts}", (sharing, *rates, differences))


def _hit_rates(fleet: Fleet, pool: Pool) -> str:
    """Return the prefix hit rate of a pool and of its cohorts; empty where it was read once only."""
    traffic = fleet.traffic_of(pool.replicas)
    if not traffic.seconds:
        return ""
    cohorts = [f"{each.letter} {hit_rate(fleet.traffic_of(each.replicas))}" for each in pool.cohorts]
    by_cohort = f": {', '.join(cohorts)}" if len(cohorts) > 1 else ""
    return f"Prefix hit rate {hit_rate(traffic)} ({uncapitalized(rate_hint(traffic).rstrip('.'))}){by_cohort}."


def _no_difference(pool: Pool) -> str:
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    if read < 2:  # noqa: PLR2004  # it takes two to differ
        return f"Not compared: {'only one replica' if read else 'no replica'} reports its settings."
    return f"No differences in {count(pool.equal, 'setting')} that at least two replicas report."


def _differences(pool: Pool, place: int, names: Mapping[str, str]) -> Table:
    heads = [
        f"{each.letter} x{len(each.replicas)}"
        + (f" {end_cut(names[each.replicas[0]], 30)}" if len(each.replicas) == 1 else "")
        for each in pool.cohorts
    ]
    rows = []
    for difference in pool.differences[:MOST_DIFFERENCES]:
        values = {letter: each for each in difference.values if each.state in VALUES for letter in each.cohorts}
        cells = [values.get(cohort.letter) for cohort in pool.cohorts]
        texts = (setting_text(each.value, each.state) if each else "not reported" for each in cells)
        rows.append((Cell(difference.path), *map(Cell, texts)))
    hidden = len(pool.differences) - MOST_DIFFERENCES
    note = f"and {count(hidden, 'more difference')}" if hidden > 0 else ""
    return Table(f"differences-{place}", "Differences", tuple(map(Column, ("setting", *heads))), tuple(rows), note)
