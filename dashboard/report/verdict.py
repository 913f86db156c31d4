"""Whether a checked fleet has passed: the exit code of `check`, and one sentence that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dashboard.models import ReplicaState
from dashboard.report.finding_words import answered, counted, named, places
from dashboard.report.parts import coverage
from dashboard.report.table import plain
from dashboard.rules.findings import OutcomeKind, Severity
from dashboard.wording import count, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dashboard.fleet import Fleet
    from dashboard.rules.findings import Finding

PASSED, FOUND, UNREAD = 0, 1, 3  # 2 is wrong usage
NOUNS = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning", Severity.INFO: "info finding"}
MOST_NAMED = 5  # of one severity that the sentence names
LONGEST_NAME = 80  # characters
LONGEST_REASON = 200  # characters


class Verdict(NamedTuple):
    """The exit code and why; `too_little` says apart from it that too few answered."""

    code: int
    sentence: str
    too_little: str = ""


def verdict_of(
    fleet: Fleet, fail_on: Severity | None, min_coverage: float, unread_lists: Sequence[str] = ()
) -> Verdict:
    """Judge a poll. `fail_on` None: never; `min_coverage` in percent of all targets, answered are up and partial.

    `unread_lists` says of each list of targets that could not be read why: then nobody knows how many there are.
    """
    bad = failing(fleet.inspection.findings, fail_on)
    short = _too_little(fleet, min_coverage, unread_lists)
    level = f"--fail-on {fail_on or 'never'}"
    if bad:
        parts = [f"{_listed(bad)}; {level}", *([f"also, {short}"] if short else [])]
        code = FOUND
    elif short:
        read = [f"apart from that, {_found(fleet, fail_on)}"] if fleet.replicas else []
        parts, code = [short, *read], UNREAD
    else:
        parts, code = [f"{_found(fleet, fail_on)}; {answered(fleet)}; {level}"], PASSED
    return Verdict(code, f"exit {code}: {'; '.join([*parts, *_raised(fleet)])}.", short)


def failing(findings: Iterable[Finding], fail_on: Severity | None) -> list[Finding]:
    """Return the findings at or above a level; none where nothing fails."""
    return [each for each in findings if fail_on is not None and each.severity.rank <= fail_on.rank]


def _listed(bad: Sequence[Finding]) -> str:
    """Write `2 critical findings (RT-01 in chat, RT-05 in chat) and 1 warning (CO-02 in chat)`."""
    parts = []
    for severity, noun in NOUNS.items():
        same = [each for each in bad if each.severity is severity]
        if same:
            names = list(dict.fromkeys(name for each in same for name in _names(each)))
            rest = [f"{len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
            parts.append(f"{count(len(same), noun)} ({', '.join([*names[:MOST_NAMED], *rest])})")
    return joined(parts)


def _names(finding: Finding) -> list[str]:
    """Write `RT-01 in chat`; of a rule on the whole fleet once for each pool."""
    ended = f", whose suppression ended on {finding.expired.until}" if finding.expired else ""
    return [f"{finding.rule} in {plain(place, LONGEST_NAME)}{ended}" for place in places(finding)]


def _found(fleet: Fleet, fail_on: Severity | None) -> str:
    found = fleet.inspection.findings
    if not found:
        return "no finding"
    where = f"no finding at or above {fail_on}" if fail_on else "findings do not count"
    return f"{where} ({counted(found)})"


def _too_little(fleet: Fleet, min_coverage: float, unread_lists: Sequence[str]) -> str:
    counts = coverage(fleet)
    if counts.targets == 0:
        return "there was no target to ask, and a fleet that did not answer has not passed"
    if unread_lists and min_coverage > 0:
        why = named(plain(each.rstrip("."), LONGEST_REASON) for each in unread_lists)
        return f"{count(len(unread_lists), 'list of targets', 'lists of targets')} could not be read ({why})"
    if (counts.up + counts.partial) * 100 >= min_coverage * counts.targets:
        return ""
    lost = named(plain(each.name, LONGEST_NAME) for each in fleet.replicas if each.state is ReplicaState.DOWN)
    return f"only {answered(fleet)}, and --min-coverage is {min_coverage:g} % (not read: {lost})"


def _raised(fleet: Fleet) -> list[str]:
    rules = {each.rule for each in fleet.inspection.outcomes if each.kind is OutcomeKind.ERROR}
    return [f"not judged, for the rule itself raised an error: {', '.join(sorted(rules))}"] if rules else []
