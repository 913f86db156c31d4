"""Findings as text, the same in every format, and as a table for programs. Each format escapes foreign text."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note, ReplicaState
from dashboard.fleet.formatting import SOME, count, iso, shortlist
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Piece, Style, Text
from dashboard.rules.catalogue import BY_ID, places
from dashboard.rules.domain import DETECTED
from dashboard.rules.findings import CohortShare, Confidence, Finding, Inspection, OutcomeKind, Remedy, Severity
from dashboard.views.blocks import Table
from dashboard.views.names import MOST_NAMED, brief, in_natural_order, names_of
from dashboard.views.pool_text import BASES, rollout_text
from dashboard.views.table import Field, plain_value, to_data

MOST_PLACES = 12  # pools or replicas that a line names
MOST_RULES = 5  # that a summary names with their places, if not more are critical
MUCH_UNKNOWN = 4  # a list marks a finding that was not evaluated on a quarter of the replicas or more
FINDINGS = "findings"  # one file has the findings of all lists
SNIPPETS = {"flag": "Flag", "env": "Environment variable", "yaml": "YAML", "shell": "Command"}
OR = "or"  # between snippets of which one is enough
_CODE = re.compile(r"`([^`]+)`")


def rule_title(rule: str) -> str:
    """Return the id and name of a rule, or only the id of an unknown rule."""
    return f"{rule} {BY_ID[rule].name}" if rule in BY_ID else rule


def rule_step(rule: str) -> str:
    """Return the first sentence of how to fix what a rule finds; empty for an unknown rule."""
    return BY_ID[rule].page.fix.partition(". ")[0].rstrip(".") if rule in BY_ID else ""


def rule_problem(rule: str) -> str:
    """Return the problem of a rule in one line; empty for an unknown rule."""
    return BY_ID[rule].page.problem.partition("\n")[0] if rule in BY_ID else ""


def with_code(text: str) -> Text:
    """Return one of the program's sentences; its parts in backticks are code."""
    parts = _CODE.split(text)
    return tuple(Piece(part, Style.CODE if place % 2 else Style.PLAIN) for place, part in enumerate(parts) if part)


def answered(fleet: Fleet) -> str:
    return f"{fleet.coverage.answered:,} of {fleet.coverage.targets:,} answered"


def severity_counts(findings: Iterable[Finding]) -> str:
    counts = Counter(each.severity for each in findings)
    return ", ".join(f"{counts[severity]:,} {severity}" for severity in Severity)


def rules_by_severity(findings: Iterable[Finding]) -> Iterator[tuple[Severity, list[list[Finding]], list[str]]]:
    """Yield for each severity the findings of each rule that a summary names with its places, and the ids of others.

    Those are all critical ones, and the first others while there is room.
    """
    by_severity: dict[Severity, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for each in findings:
        by_severity[each.severity][each.rule].append(each)
    room = MOST_RULES
    for severity in sorted(by_severity, key=attrgetter("rank")):
        alike = by_severity[severity]
        most = len(alike) if severity is Severity.CRITICAL else room
        yield severity, [*alike.values()][:most], [*alike][most:]
        room = max(0, room - len(alike))


def first_names(names: Iterable[str]) -> str:
    return shortlist(names, SOME)


def where(finding: Finding) -> str:
    """Return the places of a finding: `chat`, `a and b`."""
    return first_names(places(finding))


def are_few(finding: Finding) -> bool:
    """Return whether a list names the replicas of a finding, not only its cohorts."""
    return len(finding.replicas) <= MOST_NAMED


def has_several_pools(cohorts: Iterable[CohortShare]) -> bool:
    return len({share.pool for share in cohorts}) > 1


def cohorts_text(finding: Finding) -> str:
    """Return the cohorts of a finding: `A x3, B x1`. With several pools, each has its pool's name."""
    several = has_several_pools(finding.cohorts)
    return ", ".join(_cohort(share, several=several) for share in finding.cohorts)


def replicas_text(finding: Finding, names: Mapping[str, str]) -> str:
    """Return the cohorts with names: `B x2 (chat-16 and chat-17), C x1 (chat-18)`; at most SOME names.

    `names` is by replica id. The smallest cohorts are named first.
    """
    several = has_several_pools(finding.cohorts)
    left, shown = SOME, {}
    for share in sorted(finding.cohorts, key=lambda each: each.number):
        shown[share] = min(left, share.number)
        left -= shown[share]
    texts = []
    for share in finding.cohorts:
        named = f" ({shortlist(names_of(share.replicas, names), shown[share])})" if shown[share] else ""
        texts.append(f"{_cohort(share, several=several)}{named}")
    return ", ".join(texts) or "no replica"


def assumed(finding: Finding) -> str:
    """Return `Assumed: router is approximate.`, `Router is kv-events (detected).`; empty without assumptions."""
    text = "; ".join(map(_with_basis, finding.assumptions))
    return text and f"{text[0].upper()}{text[1:]}."


def _with_basis(assumption: str) -> str:
    return assumption if assumption.endswith(DETECTED) else f"assumed: {assumption}"


def undeclared(finding: Finding) -> str:
    """Return `Router not declared: critical behind prefix-hash or kv-events.`; empty if that has no effect."""
    by_severity: dict[Severity, list[str]] = {}
    for context, severity in finding.severity_behind:
        by_severity.setdefault(severity, []).append(context)
    worse = ", ".join(f"{severity} behind {' or '.join(routers)}" for severity, routers in by_severity.items())
    return f"Router not declared: {worse}." if worse else ""


def remarks(finding: Finding, inspection: Inspection | None = None) -> list[str]:
    """Return a sentence each on expiry, rollout, confidence, and replicas that were not evaluated.

    With an inspection, the sentence on the rollout has its versions and progress.
    """
    sentences = []
    if (ended := finding.expired) is not None:
        sentences.append(f"Suppression by {ended.owner} expired on {ended.until} ({ended.reason}).")
    if finding.seen_at is not None:
        sentences.append(f"Not confirmed: last seen at {iso(finding.seen_at)}; what it is on was not read since.")
    if finding.is_rollout and inspection is None:
        sentences.append("Follows the rollout in this pool: one severity lower.")
    elif finding.is_rollout and inspection is not None:
        rollouts = (inspection.rollouts[pool] for pool in finding.pools if pool in inspection.rollouts)
        sentences += map(rollout_text, rollouts)
    is_derived = finding.confidence is Confidence.DERIVED
    sentences += filter(
        None, ["Derived from reported settings." if is_derived else assumed(finding), undeclared(finding)]
    )
    if finding.unknown:
        replicas = f"{finding.unknown:,} of {count(finding.total, 'replica')}"
        sentences.append(f"Not evaluated on {replicas} (unreachable, or setting not reported).")
    return sentences


def assumptions(inspection: Inspection) -> list[str]:
    """Return the pools of which findings depend on an undeclared router, with the router that counts and its basis."""
    undeclared = {pool: each for pool, each in inspection.domains.items() if each.assumptions}
    affected = {
        pool
        for finding in inspection.findings
        for pool in undeclared.keys() & finding.pools
        if finding.severity_behind or not set(finding.assumptions).isdisjoint(undeclared[pool].assumptions)
    }
    routers = ((pool, undeclared[pool].router, BASES[undeclared[pool].router_basis]) for pool in sorted(affected))
    return [
        f"{pool}: router is {router} ({basis}); declare it under pools in fleet.yaml."
        for pool, router, basis in routers
    ]


def paste_lines(remedy: Remedy) -> tuple[str, ...]:
    """Return the snippets, with "or" between them where one is enough."""
    texts = tuple(each.text for each in remedy.snippets)
    return tuple(line for text in texts for line in (OR, text))[1:] if remedy.any_of else texts


def same_as(finding: Finding, earlier: Finding, names: Mapping[str, str]) -> str:
    """Return which earlier finding has the same cause and fix: by its pool, in the same pool by its replicas."""
    other = where(earlier)
    if other == where(finding):
        other = replicas_text(earlier, names)
        other = f"{earlier.rule} above" if other == replicas_text(finding, names) else f"{earlier.rule} on {other}"
    return f"Same cause and fix as {other}."


def with_earlier(findings: Iterable[Finding]) -> Iterator[tuple[Finding, Finding | None]]:
    """Yield each finding with the first earlier one of the same rule, cause and fix, if there is one."""
    first: dict[tuple[str, str, Remedy], Finding] = {}
    for finding in findings:
        kind = (finding.rule, finding.why, finding.remedy)
        yield finding, first.get(kind)
        first.setdefault(kind, finding)


def suppressed(inspection: Inspection, names: Mapping[str, str]) -> list[str]:
    """Return a line for each suppressed finding: owner, expiry and reason."""
    return [
        f"{each.severity} {each.rule} in {where(each)}, {replicas_text(each, names)}: {suppressions([each])}"
        for each in inspection.suppressed
    ]


def suppressions(findings: Iterable[Finding]) -> str:
    """Return the suppressions of findings: `suppressed until 2026-04-30 by ann: canary`."""
    entries = dict.fromkeys(
        (each.owner, each.until, each.reason) for finding in findings if (each := finding.suppression)
    )
    return "; ".join(f"suppressed until {until} by {owner}: {reason}" for owner, until, reason in entries)


def reasons_of(inspection: Inspection, kind: OutcomeKind) -> list[str]:
    """Return the rules with one kind of outcome, by reason: `RT-01 in a and b: …`."""
    subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in inspection.outcomes:
        if outcome.kind is kind:
            subjects[outcome.rule, outcome.reason].append(outcome.subject)
    return [f"{rule} in {first_names(where)}: {reason}" for (rule, reason), where in subjects.items()]


def rollouts(inspection: Inspection) -> list[str]:
    """Return the rollouts in progress: `chat: rollout 0.32.0 -> 0.32.1 (1/7) since 2026-04-30T12:00:00Z`."""
    return [
        f"{each.pool}: rollout {each.old} -> {each.new} ({len(each.replicas):,}/{each.total:,}) since {iso(each.began)}"
        for each in inspection.rollouts.values()
    ]


def unreachable(fleet: Fleet) -> list[str]:
    return [
        f"{each.name}: {each.failure.detail if each.failure else 'no usable reply'}"
        for each in fleet.replicas
        if each.state is ReplicaState.DOWN
    ]


def pools_of(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(pool for each in findings for pool in each.pools))


def _cohort(share: CohortShare, *, several: bool) -> str:
    text = f"{share.letter} x{share.number:,}" if share.letter else f"{share.number:,} not reported"
    return f"{share.pool} {text}" if several and share.pool else text


def findings_data(
    found: Iterable[Finding], names: Mapping[str, str], sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> Table:
    """Return a row for each finding, with all its pools and replicas.

    `names` is by the replicas' ids, `sightings` by fingerprint.
    """
    return to_data(found, finding_fields(names, sightings), FINDINGS, "Findings")


def finding_fields(
    names: Mapping[str, str], sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> tuple[Field, ...]:
    """Return the columns of findings for programs: one shape in every file, named as in the JSON document of findings.

    Replicas and addresses are in the order of the cohorts.
    """

    def field(key: str, value: Callable[[Finding], Any], *, is_number: bool = False) -> Field:
        return Field("", value=lambda finding: plain_value(value(finding)), key=key, is_number=is_number)

    def sighted(key: str) -> Field:
        return field(key, lambda finding: getattr(sightings.get(finding.fingerprint), key, None) if sightings else None)

    def addresses(finding: Finding) -> list[str]:
        return [each for share in finding.cohorts for each in in_natural_order(share.replicas, names)]

    return (
        field("severity", attrgetter("severity")),
        field("rule", attrgetter("rule")),
        field("name", lambda finding: BY_ID[finding.rule].name if finding.rule in BY_ID else ""),
        field("id", attrgetter("id")),
        field("pools", attrgetter("pools")),
        field("replicas", lambda finding: [names.get(each, each) for each in addresses(finding)]),
        field("addresses", addresses),
        field("cohorts", cohorts_text),
        field("sentence", attrgetter("sentence")),
        field("why", attrgetter("why")),
        field("remedy", attrgetter("remedy.sentence")),
        field("snippets", lambda finding: [each.text for each in finding.remedy.snippets]),
        field("paths", attrgetter("paths")),
        field("confidence", attrgetter("confidence")),
        field("assumptions", attrgetter("assumptions")),
        field("is_rollout", attrgetter("is_rollout")),
        field("unknown", attrgetter("unknown"), is_number=True),
        field("total", attrgetter("total"), is_number=True),
        *map(sighted, Sighting._fields),
    )


COLUMNS = tuple(each.column for each in finding_fields({}))


def tags(finding: Finding) -> Text:
    """Return what limits or explains a finding as tags: assumptions, confidence, cause, rollout, missing data."""
    words = [*map(_with_basis, finding.assumptions)]
    words += [str(finding.confidence)] if finding.confidence is Confidence.DERIVED else []
    words += [f"likely cause: {', '.join(finding.explained_by)}"] if finding.explained_by else []
    words += ["rollout"] if finding.is_rollout else []
    words += ["suppression expired"] if finding.expired else []
    words += ["not confirmed"] if finding.seen_at else []
    if finding.unknown * MUCH_UNKNOWN >= max(finding.total, 1):
        words.append(f"unknown on {finding.unknown:,} of {finding.total:,}")
    return tuple(piece for word in words for piece in (Piece(" "), Piece(word, Style.TAG)))


def where_of(finding: Finding) -> str:
    """Return the place of a finding: its pool, its pair, or the pools of a rule on the whole fleet."""
    return shortlist(map(brief, places(finding)), MOST_PLACES)


def note_lines(note: Note | None, before: Note | None = None) -> tuple[Text, ...]:
    lines = [_note(note, "Note")] if note else []
    lines += [_note(before, "At the last review")] if before and before != note else []
    return tuple(lines)


def _note(note: Note, label: str) -> Text:
    owner = f"{label}, {brief(note.owner)}: " if note.owner else f"{label}: "
    by = f", {brief(note.author)}" if note.author else ""
    time = (Piece(f" ({iso(note.at)}{by})", Style.MUTED),) if note.at else ()
    return (Piece(owner, Style.STRONG), Piece(note.text or "owner assigned, no text"), *time)
