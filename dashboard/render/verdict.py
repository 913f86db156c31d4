"""Whether a checked fleet has passed: the exit code of `check`, and the sentence that explains it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, end_cut, joined, shortlist
from dashboard.rules.baseline import deviates_from_baseline
from dashboard.rules.catalogue import places
from dashboard.rules.findings import Finding, Outcome, OutcomeKind, Severity
from dashboard.views.excluded import LONGEST_REASON, is_locked, list_reasons, no_list_read
from dashboard.views.finding_text import answered, first_names, rules_by_severity, severity_counts
from dashboard.views.summary import SEVERITY_TERMS

PASSED, FOUND, UNREAD = 0, 1, 3  # 2 is wrong usage
BASELINE_RULE = deviates_from_baseline.id
LONGEST_NAME = 80  # characters


class Verdict(NamedTuple):
    """The exit code and its sentence; `too_little` says why coverage is too low. `baselines` are files.

    Any deviation from one of the baselines fails. `left_out` says which findings are left out because they are not new.
    """

    code: int
    sentence: str
    too_little: str = ""
    baselines: tuple[str, ...] = ()
    left_out: str = ""


def verdict_of(
    fleet: Fleet,
    fail_on: Severity | None,
    min_coverage: float,
    unread_lists: Sequence[str] = (),
    baselines: tuple[str, ...] = (),
    left_out: str = "",
) -> Verdict:
    """Return the verdict on a poll. `fail_on` None: findings never fail. `min_coverage` is in percent of all targets.

    `unread_lists` say why target lists could not be read: then the number of targets is unknown; `left_out` is that of
    the verdict. A deviation
    from one of the `baselines` fails, unless findings never do; so does a baseline that no replica was compared with.
    """
    failed = failing(fleet.inspection.findings, fail_on, baselines)
    short = "; ".join(filter(None, (_too_little(fleet, min_coverage, unread_lists), *unused(fleet, baselines))))
    level = _level(fail_on, baselines)
    if failed:
        code, parts = FOUND, [f"{_listed(failed)}; {level}", *([f"also {short}"] if short else [])]
    elif short:
        code, parts = UNREAD, [short, *([f"otherwise {_found(fleet, fail_on, left_out)}"] if fleet.replicas else [])]
    else:
        code, parts = PASSED, [f"{_found(fleet, fail_on, left_out)}; {answered(fleet)}{_partially(fleet)}; {level}"]
    raised = sorted({each.rule for each in fleet.inspection.outcomes if each.kind is OutcomeKind.ERROR})
    parts += incomplete(fleet, baselines)
    parts += [f"rule errors: {', '.join(raised)}"] if raised else []
    parts += _undeclared(fleet.inspection.findings, fail_on)
    parts += [count(len(fleet.inspection.notes), "configuration warning")] if fleet.inspection.notes else []
    return Verdict(code, f"exit {code}: {'; '.join(parts)}.", short, baselines, left_out)


def _partially(fleet: Fleet) -> str:
    """Return ` (2 partially: no valid API key)`."""
    number, locked = fleet.coverage.partial, any(map(is_locked, fleet.replicas))
    return f" ({number:,} partially{': no valid API key' if locked else ''})" if number else ""


def failing(findings: Iterable[Finding], fail_on: Severity | None, baselines: Collection[str] = ()) -> list[Finding]:
    """Return the findings at or above a level, and all deviations from these baselines; none where nothing fails."""
    if fail_on is None:
        return []
    return [
        finding
        for finding in findings
        if finding.severity.rank <= fail_on.rank
        or (finding.rule == BASELINE_RULE and any(each.holder in baselines for each in finding.evidence))
    ]


def _level(fail_on: Severity | None, baselines: Sequence[str]) -> str:
    """Return `--fail-on critical, and any deviation from --baseline chat.yaml`."""
    level = f"--fail-on {fail_on or 'never'}"
    if not baselines or fail_on is None:
        return level
    return (
        f"{level}, and any deviation from --baseline {first_names(end_cut(each, LONGEST_NAME) for each in baselines)}"
    )


def _outcomes(fleet: Fleet, file: str) -> list[Outcome]:
    """Return the outcomes of the pools that this baseline is for."""
    outcomes = (each for each in fleet.inspection.outcomes if each.rule == BASELINE_RULE)
    return [each for each in outcomes if (own := fleet.policy.baseline(each.subject)) is not None and own.file == file]


def unused(fleet: Fleet, baselines: Iterable[str]) -> list[str]:
    """Return the baselines that no replica was compared with, and why."""
    sentences = []
    for file in baselines:
        outcomes = _outcomes(fleet, file)
        if not any(each.is_evaluated for each in outcomes):
            why = outcomes[0].reason.rstrip(".") if outcomes else "it matches no pool"
            name, why = end_cut(file, LONGEST_NAME), end_cut(why, LONGEST_REASON)
            sentences.append(f"no replica was compared with {name} ({why})")
    return sentences


def incomplete(fleet: Fleet, baselines: Iterable[str]) -> list[str]:
    """Return how many replicas were not read, and how many report only a part of a baseline's settings."""
    return [
        sentence
        for file in baselines
        for each in _outcomes(fleet, file)
        if each.is_evaluated
        for sentence in _not_compared(each, end_cut(file, LONGEST_NAME))
    ]


def _not_compared(outcome: Outcome, file: str) -> Iterator[str]:
    replicas = f"of {count(outcome.total, 'replica')} in {end_cut(outcome.subject, LONGEST_NAME)}"
    if lost := min(outcome.unread, outcome.unknown):
        yield f"{lost:,} {replicas} not read, not compared with {file}"
    if outcome.silent:
        yield f"{outcome.silent:,} {replicas} compared with {file} in part"


def _listed(failed: Sequence[Finding]) -> str:
    """Return `3 critical findings (RT-01 in chat, RT-05 x2 in chat) and 1 warning (CO-02 in chat)`: all their rules."""
    parts = []
    for severity, named, others in rules_by_severity(failed):
        names = [text for alike in named for text in _named(alike)] + others
        number = sum(each.severity is severity for each in failed)
        parts.append(f"{count(number, SEVERITY_TERMS[severity])} ({', '.join(names)})")
    return joined(parts)


def _named(alike: Sequence[Finding]) -> Iterator[str]:
    """Yield `RT-01 x2 in chat` for findings of one rule; those whose suppression expired apart."""
    by_end: dict[str, list[Finding]] = defaultdict(list)
    for each in alike:
        by_end[f", suppression expired on {each.expired.until}" if each.expired else ""].append(each)
    for expired, own in by_end.items():
        number = f" x{len(own):,}" if len(own) > 1 else ""
        where = dict.fromkeys(end_cut(place, LONGEST_NAME) for each in own for place in places(each))
        yield f"{own[0].rule}{number} in {shortlist(where)}{expired}"


def _found(fleet: Fleet, fail_on: Severity | None, left_out: str) -> str:
    found = fleet.inspection.findings
    if not found:
        return "no new findings" if left_out else "no findings"
    return f"{f'no findings at or above {fail_on}' if fail_on else 'findings never fail'} ({severity_counts(found)})"


def _too_little(fleet: Fleet, min_coverage: float, unread_lists: Sequence[str]) -> str:
    counts = fleet.coverage
    if counts.targets == 0:
        nothing = no_list_read(unread_lists) if unread_lists else "no targets"
        return f"{nothing}, nothing was checked"
    if unread_lists and min_coverage > 0:
        return f"{count(len(unread_lists), 'target list')} could not be read ({list_reasons(unread_lists)})"
    locked = [  # settings behind an API key that were not read from a replica with equal digests either
        each
        for each in fleet.replicas
        if each.state is ReplicaState.PARTIAL and is_locked(each) and each.same_digest_as is None
    ]
    if (counts.answered - len(locked)) * 100 >= min_coverage * counts.targets:
        return ""
    down = [each for each in fleet.replicas if each.state is ReplicaState.DOWN]
    without = f", {len(locked):,} of them without a valid API key" if locked else ""
    reasons = "; ".join(
        f"{reason}: {first_names(end_cut(each.name, LONGEST_NAME) for each in replicas)}"
        for reason, replicas in (("unreachable", down), ("no valid API key", locked))
        if replicas
    )
    return f"only {answered(fleet)}{without}, below --min-coverage {min_coverage:g}% ({reasons})"


def _undeclared(findings: Iterable[Finding], fail_on: Severity | None) -> list[str]:
    """Return how many findings pass only because no router is declared."""
    if fail_on is None:
        return []
    passing = [each for each in findings if each.severity.rank > fail_on.rank]
    failing_behind = [
        {router for router, worse in each.severity_behind if worse.rank <= fail_on.rank} for each in passing
    ]
    routers = sorted(set().union(*failing_behind), reverse=True)
    number = count(sum(map(bool, failing_behind)), "finding")
    return [f"router not declared: {number} would fail behind {' or '.join(routers)}"] if routers else []
