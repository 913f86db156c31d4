"""Whether a checked fleet has passed: the exit code of `check`, and one sentence that says why."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, end_cut, joined
from dashboard.report.findings.words import answered, counted, named, places
from dashboard.rules.baseline import deviates_from_baseline
from dashboard.rules.findings import Finding, Outcome, OutcomeKind, Severity

PASSED, FOUND, UNREAD = 0, 1, 3  # 2 is wrong usage
NOUNS = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning", Severity.INFO: "info finding"}
JUDGED = frozenset({OutcomeKind.PASSED, OutcomeKind.FAILED})
BASELINE_RULE = deviates_from_baseline.id
MOST_NAMED = 5  # of one severity that the sentence names
LONGEST_NAME = 80  # characters
LONGEST_REASON = 200  # characters


class Verdict(NamedTuple):
    """The exit code and why; `too_little` says apart from it that too few answered.

    `baselines` are the files of which any deviation fails.
    """

    code: int
    sentence: str
    too_little: str = ""
    baselines: tuple[str, ...] = ()


def verdict_of(
    fleet: Fleet,
    fail_on: Severity | None,
    min_coverage: float,
    unread_lists: Sequence[str] = (),
    baselines: tuple[str, ...] = (),
) -> Verdict:
    """Judge a poll. `fail_on` None: never; `min_coverage` in percent of all targets, answered are up and partial.

    `unread_lists` says of each list of targets that could not be read why: then nobody knows how many there are.
    `baselines` are files: any deviation from one fails, unless nothing does, and so does one that no replica was held
    against.
    """
    bad = failing(fleet.inspection.findings, fail_on, baselines)
    short = "; ".join(filter(None, (_too_little(fleet, min_coverage, unread_lists), *_not_held(fleet, baselines))))
    level = _level(fail_on, baselines)
    if bad:
        parts = [f"{_listed(bad)}; {level}", *([f"also, {short}"] if short else [])]
        code = FOUND
    elif short:
        read = [f"apart from that, {_found(fleet, fail_on)}"] if fleet.replicas else []
        parts, code = [short, *read], UNREAD
    else:
        parts, code = [f"{_found(fleet, fail_on)}; {answered(fleet)}{_in_part(fleet)}; {level}"], PASSED
    more = [*_not_told(fleet, baselines), *_raised(fleet), *_undeclared(fleet.inspection.findings, fail_on)]
    return Verdict(code, f"exit {code}: {'; '.join([*parts, *more])}.", short, baselines)


def failing(findings: Iterable[Finding], fail_on: Severity | None, baselines: Collection[str] = ()) -> list[Finding]:
    """Return the findings at or above a level, and all deviations from these baselines; none where nothing fails."""
    if fail_on is None:
        return []
    return [each for each in findings if each.severity.rank <= fail_on.rank or _deviates(each, baselines)]


def _deviates(finding: Finding, baselines: Collection[str]) -> bool:
    return finding.rule == BASELINE_RULE and any(each.holder in baselines for each in finding.evidence)


def _level(fail_on: Severity | None, baselines: Sequence[str]) -> str:
    """Write `--fail-on critical, and any deviation from --baseline chat.yaml`."""
    level = f"--fail-on {fail_on or 'never'}"
    if not baselines or fail_on is None:
        return level
    return f"{level}, and any deviation from --baseline {named(end_cut(each, LONGEST_NAME) for each in baselines)}"


def _held(fleet: Fleet, file: str) -> list[Outcome]:
    """Return what became of the pools that this baseline is for."""
    told = (each for each in fleet.inspection.outcomes if each.rule == BASELINE_RULE)
    return [each for each in told if (found := fleet.policy.baseline(each.subject)) is not None and found.file == file]


def _not_held(fleet: Fleet, baselines: Iterable[str]) -> list[str]:
    """Say which baselines no replica was held against, and why: they have not passed."""
    said = []
    for file in baselines:
        outcomes = _held(fleet, file)
        if not any(each.kind in JUDGED for each in outcomes):
            why = outcomes[0].reason.rstrip(".") if outcomes else "it is for no pool that is here"
            said.append(f"no replica was held against {end_cut(file, LONGEST_NAME)} ({end_cut(why, LONGEST_REASON)})")
    return said


def _not_told(fleet: Fleet, baselines: Iterable[str]) -> list[str]:
    """Say how many replicas were not read, and how many do not tell all that a baseline speaks of."""
    return [
        sentence
        for file in baselines
        for each in _held(fleet, file)
        if each.kind in JUDGED
        for sentence in _silent(each, _unread(fleet, each.subject), end_cut(file, LONGEST_NAME))
    ]


def _silent(judged: Outcome, unread: int, file: str) -> Iterator[str]:
    """Tell those of a pool that were not read from those that were, and do not tell all."""
    of = f"of {count(judged.total, 'replica')} in {end_cut(judged.subject, LONGEST_NAME)}"
    if lost := min(unread, judged.unknown):
        yield f"{lost:,} {of} {'was' if lost == 1 else 'were'} not read, so not held against {file}"
    if silent := judged.unknown - lost:
        yield f"{silent:,} {of} {'does' if silent == 1 else 'do'} not tell all of {file}"


def _unread(fleet: Fleet, pool: str) -> int:
    """Count the replicas of a pool that rules do not judge: those without current data, where others have some."""
    members = [each for each in fleet.replicas if each.pool == pool]
    read = [each for each in members if each.document is not None]
    return len(members) - (sum(each.fresh for each in read) or len(read))


def _listed(bad: Sequence[Finding]) -> str:
    """Write `3 critical findings (RT-01 in chat, RT-05 in chat x2) and 1 warning (CO-02 in chat)`.

    The numbers in brackets add up to the one before them.
    """
    parts = []
    for severity, noun in NOUNS.items():
        same = Counter(_where(each) for each in bad if each.severity is severity)
        if same:
            names = [_name(where, number) for where, number in list(same.items())[:MOST_NAMED]]
            rest = sum(list(same.values())[MOST_NAMED:])
            more = [f"{rest:,} more"] if rest else []
            parts.append(f"{count(same.total(), noun)} ({', '.join([*names, *more])})")
    return joined(parts)


def _where(finding: Finding) -> tuple[str, str]:
    """Return `RT-01 in chat`, of a rule on the whole fleet with all its pools, and whether it counts again."""
    ended = f", whose suppression ended on {finding.expired.until}" if finding.expired else ""
    return f"{finding.rule} in {named(end_cut(place, LONGEST_NAME) for place in places(finding))}", ended


def _name(where: tuple[str, str], number: int) -> str:
    """Write `RT-01 in chat x2`; a single one without its number."""
    place, ended = where
    return f"{place}{f' x{number:,}' if number > 1 else ''}{ended}"


def _found(fleet: Fleet, fail_on: Severity | None) -> str:
    found = fleet.inspection.findings
    if not found:
        return "no finding"
    where = f"no finding at or above {fail_on}" if fail_on else "findings do not count"
    return f"{where} ({counted(found)})"


def _too_little(fleet: Fleet, min_coverage: float, unread_lists: Sequence[str]) -> str:
    counts = fleet.coverage
    if counts.targets == 0:
        return "there was no target to ask, and a fleet that did not answer has not passed"
    if unread_lists and min_coverage > 0:
        why = named(end_cut(each.rstrip("."), LONGEST_REASON) for each in unread_lists)
        return f"{count(len(unread_lists), 'list of targets', 'lists of targets')} could not be read ({why})"
    if counts.answered * 100 >= min_coverage * counts.targets:
        return ""
    lost = named(end_cut(each.name, LONGEST_NAME) for each in fleet.replicas if each.state is ReplicaState.DOWN)
    return f"only {answered(fleet)}, and --min-coverage is {min_coverage:g} % (not read: {lost})"


def _raised(fleet: Fleet) -> list[str]:
    rules = {each.rule for each in fleet.inspection.outcomes if each.kind is OutcomeKind.ERROR}
    return [f"not judged, for the rule itself raised an error: {', '.join(sorted(rules))}"] if rules else []


def _in_part(fleet: Fleet) -> str:
    """Write ` (2 in part)` for replicas of which some answer could not be read."""
    partial = fleet.coverage.partial
    return f" ({partial:,} in part)" if partial else ""


def _undeclared(findings: Iterable[Finding], fail_on: Severity | None) -> list[str]:
    """Say how many findings pass only because no router is declared."""
    if fail_on is None:
        return []
    passing = [each for each in findings if each.severity.rank > fail_on.rank]
    failing_behind = [{router for router, bad in each.severity_behind if bad.rank <= fail_on.rank} for each in passing]
    routers = sorted(set().union(*failing_behind), reverse=True)
    number = count(sum(map(bool, failing_behind)), "finding")
    return [f"router not declared: {number} would fail behind {' or '.join(routers)}"] if routers else []
