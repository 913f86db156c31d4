"""Runs rules over a fleet: every rule has one outcome per subject."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from dashboard.compare.baseline import agreed_paths
from dashboard.fleet import Document, Pool, Replica, Role, cohort_letters
from dashboard.fleet.formatting import count, first_of, uncapitalized
from dashboard.rules.baseline import unknown_paths
from dashboard.rules.domain import Basis, ImpactContext, assumed_router, domain_of
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Draft,
    Family,
    Finding,
    Inspection,
    NotEvaluated,
    Outcome,
    OutcomeKind,
    Rollout,
    Severity,
    Suppression,
)
from dashboard.rules.policy import Policy, RuleChange, suppress
from dashboard.rules.registry import Rule, Scope
from dashboard.rules.rollout import is_along, remedy_along, rollout_of
from dashboard.rules.subject import FINGERPRINT, PARTS, FleetSubject, PairSubject, PoolSubject, Subject

MAX_NEEDS = 12  # missing settings that a reason names before it counts the rest
REASON_LENGTH = 200  # characters of an exception
ID_DIGITS = 10


class _FleetData(NamedTuple):
    """The fleet's data that a finding needs."""

    replicas: Mapping[str, Replica]
    letters: Mapping[str, str]
    file: str  # the name of fleet.yaml


def inspect_fleet(
    rules: Sequence[Rule],
    pools: Sequence[Pool],
    replicas: Sequence[Replica],
    documents: Mapping[str, Document],
    policy: Policy,
    now: datetime,
    ignore: Sequence[str] = (),
    today: date | None = None,
) -> Inspection:
    """Run rules over a fleet. The order of rules, pools, replicas and documents does not matter.

    `now` decides which rollouts are in progress, `today` (default: the day of `now`) which suppressions expired.
    """
    subjects = _pool_subjects(pools, replicas, documents, policy, now, ignore)
    data = _FleetData({each.id: each for each in replicas}, cohort_letters(pools), policy.file)
    by_scope: dict[Scope, Sequence[Subject]] = {
        Scope.POOL: subjects,
        Scope.PAIR: list(_pairs(subjects)),
        Scope.FLEET: [FleetSubject(tuple(subjects), tuple(sorted(replicas, key=lambda each: each.id)))],
    }
    outcomes: list[Outcome] = []
    findings: list[Finding] = []
    for rule in rules:
        change = policy.rules.get(rule.id, RuleChange())
        for subject in by_scope[rule.scope]:
            outcome, found = _evaluate(rule, change, subject, data)
            outcomes.append(outcome)
            findings += found

    fleet_wide = {each.id for each in rules if each.scope is Scope.FLEET}

    def narrowed(finding: Finding, part: tuple[str, ...]) -> Finding:
        pools = _pools_of(part, data) if finding.rule in fleet_wide else finding.pools
        return replace(finding, pools=pools, replicas=part, cohorts=_cohorts(part, data))

    result = suppress(findings, policy.suppressions, today or now.date(), data.replicas, narrowed)
    return Inspection(
        findings=_worst_first(result.active, rules),
        suppressed=_worst_first(result.suppressed, rules),
        outcomes=tuple(sorted(outcomes, key=lambda each: (each.rule, each.subject))),
        domains={each.name: each.domain for each in subjects},
        rollouts={each.name: each.rollout for each in subjects if each.rollout is not None},
        notes=tuple(_notes(policy, result.unused, subjects)),
    )


def _pool_subjects(
    pools: Sequence[Pool],
    replicas: Iterable[Replica],
    documents: Mapping[str, Document],
    policy: Policy,
    now: datetime,
    ignore: Sequence[str],
) -> list[PoolSubject]:
    known = {each.id: each for each in replicas}
    subjects = []
    for pool in sorted(pools, key=lambda each: each.name):
        members = tuple(known[each] for each in sorted(pool.replicas))
        keys = {each.document for each in members if each.document is not None}
        settings = [documents[each].settings for each in sorted(keys)]
        domain = domain_of(policy.declared(pool.name), [each.role for each in members], settings)
        subject = PoolSubject(pool, domain, members, documents, tuple(ignore), baseline=policy.baseline(pool.name))
        subjects.append(replace(subject, rollout=rollout_of(pool.name, subject.members, now)))
    return subjects


def _pairs(subjects: Sequence[PoolSubject]) -> Iterator[PairSubject]:
    """Pair each prefill pool with the decode pools of its model: by name without the role, else by served model."""
    disaggregated = [each for each in subjects if each.domain.disaggregated]
    decoding = [each for each in disaggregated if each.pool.role is Role.DECODE]
    for prefill in (each for each in disaggregated if each.pool.role is Role.PREFILL):
        stem = prefill.name.removesuffix("/prefill")
        named = [each for each in decoding if each.name.removesuffix("/decode") == stem]
        served = [each for each in decoding if _serves(each) & _serves(prefill)]
        yield from (PairSubject(prefill, decode) for decode in named or served)


def _serves(subject: PoolSubject) -> set[str]:
    return {name for each in subject.members for name in each.served_model_names}


def _evaluate(rule: Rule, change: RuleChange, subject: Subject, data: _FleetData) -> tuple[Outcome, list[Finding]]:
    """Return the outcome and the findings of one rule on one subject."""
    worst = rule.severity_in(subject.contexts, subject.known_contexts)
    whole = Outcome(rule.id, subject.name, subject.pools, OutcomeKind.PASSED, total=len(subject.all_replicas))
    reason = _inapplicable(rule, change, subject, data.file)
    if worst is None or reason:
        reason = reason or f"Only for {' or '.join(rule.severity)}."
        return whole._replace(kind=OutcomeKind.NOT_APPLICABLE, reason=reason), []
    needs = _needs(rule, subject)
    whole = whole._replace(unknown=subject.missing(needs))
    if (missing := _missing(rule, needs, subject)) is not None:
        return whole._replace(kind=OutcomeKind.SKIPPED, reason=missing), []
    try:
        results = list(rule.check(subject, **{**rule.parameters, **change.parameters}))
    except Exception as error:  # noqa: BLE001  an error in one rule must not stop the others
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH]
        return whole._replace(kind=OutcomeKind.ERROR, reason=reason), []
    unknown = [each for each in results if isinstance(each, NotEvaluated)]
    whole = whole._replace(unknown=max([whole.unknown, *(len(each.replicas) for each in unknown)]))
    drafts = [each for each in results if isinstance(each, Draft)]
    found = [_finding(draft, rule, whole, worst, change.severity, subject, data) for draft in drafts]
    if found:
        return whole._replace(kind=OutcomeKind.FAILED, findings=len(found)), found
    reason = next((each.reason for each in unknown if each.reason), "")
    return whole._replace(kind=OutcomeKind.SKIPPED if reason else OutcomeKind.PASSED, reason=reason), []


def _inapplicable(rule: Rule, change: RuleChange, subject: Subject, file: str) -> str | None:
    """Return why a rule does not apply, independent of the domain; None where it does."""
    if not change.enabled:
        return f"Disabled in {file}."
    if len(subject.all_replicas) < rule.least:
        return "One replica: nothing to compare."
    if rule.needs_baseline and isinstance(subject, PoolSubject) and subject.baseline is None:
        return f"No baseline for this pool in {file}."
    if rule.expects and isinstance(subject, PoolSubject) and getattr(subject.domain.expects, rule.expects) is None:
        return f"expects.{rule.expects} is not set in {file}."
    return None


def _needs(rule: Rule, subject: Subject) -> Sequence[str]:
    """Return what a rule needs: for a baseline rule the compared settings of the pool's baseline."""
    if not rule.needs_baseline or not isinstance(subject, PoolSubject) or subject.baseline is None:
        return rule.needs
    return [path for path in agreed_paths(subject.baseline) if not subject.is_ignored(path)]


def _missing(rule: Rule, needs: Sequence[str], subject: Subject) -> str | None:
    """Return what is missing to evaluate a rule; None where nothing is."""
    if rule.needs_baseline and not needs:
        return "All settings of the baseline are ignored."
    reporting = max(map(subject.reporting, needs), default=rule.least)
    if reporting >= rule.least:
        return None
    total = len(subject.all_replicas)
    return f"{first_of(needs, MAX_NEEDS)}: reported by {reporting:,} of {count(total, 'replica')}."


def _finding(
    draft: Draft,
    rule: Rule,
    outcome: Outcome,
    worst: tuple[ImpactContext, Severity],
    override: Severity | None,
    subject: Subject,
    data: _FleetData,
) -> Finding:
    """Return a draft as a finding. An assumption limits its severity to warning, unless the operator set that.

    A difference along a rollout is one step milder.
    """
    context, severity = worst[0], draft.severity or worst[1]
    why = rule.page.why.get(context, "")
    assumptions = draft.assumptions
    if context not in subject.known_contexts and (draft.severity is None or draft.why is None):
        assumptions = (*assumptions, assumed_router(context))
        why = f"If the router is {context}: {uncapitalized(why)}"
    confidence = Confidence.ASSUMED if assumptions else draft.confidence
    if confidence is Confidence.ASSUMED:
        severity = severity.assumed
    severity = override or severity
    rollout = _rollout_of(draft, subject) if isinstance(subject, PoolSubject) else None
    is_fixed = draft.severity is not None or override is not None
    behind = () if is_fixed else _severity_behind(rule, severity, subject)
    if rollout is not None:
        severity, behind = severity.milder, tuple((router, other.milder) for router, other in behind)
    replicas = tuple(sorted(set(draft.replicas)))
    pools = subject.pools or _pools_of(replicas, data)
    return Finding(
        id=_id(outcome, draft),
        rule=outcome.rule,
        severity=severity,
        confidence=confidence,
        subject=subject.name,
        pools=pools,
        replicas=replicas,
        cohorts=_cohorts(replicas, data),
        text=draft.text,
        why=draft.why or why,
        remedy=draft.remedy if rollout is None else remedy_along(rollout, draft),
        evidence=draft.evidence,
        unknown=_unknown(draft, rule, outcome, subject),
        total=outcome.total,
        is_rollout=rollout is not None,
        assumptions=assumptions,
        context=None if draft.why else context,
        severity_behind=tuple((router, other) for router, other in behind if other.rank < severity.rank),
    )


def _severity_behind(rule: Rule, severity: Severity, subject: Subject) -> tuple[tuple[ImpactContext, Severity], ...]:
    """Return the severity of a rule behind other routers; empty where the pool's router is declared."""
    if not isinstance(subject, PoolSubject) or subject.domain.router_basis is Basis.DECLARED:
        return ()
    return tuple(
        (router, rule.severity.get(router, severity)) for router in (ImpactContext.PREFIX_HASH, ImpactContext.KV_EVENTS)
    )


def _unknown(draft: Draft, rule: Rule, outcome: Outcome, subject: Subject) -> int:
    """Count the replicas that do not report the settings of a draft; without settings, those of the rule's needs.

    Fingerprints count only where the rule needs them: elsewhere they are additional evidence.
    """
    other = PARTS if FINGERPRINT in rule.needs else (*PARTS, FINGERPRINT)
    paths = dict.fromkeys(each.path for each in draft.evidence if each.path not in other)
    reported = [path for path in paths if subject.reporting(path)]
    return subject.missing(reported) if reported else outcome.unknown


def _rollout_of(draft: Draft, subject: PoolSubject) -> Rollout | None:
    """Return the pool's rollout where a draft's settings differ along it."""
    settings = (subject.values(path) for path in {each.path for each in draft.evidence})
    rollout = subject.rollout
    return rollout if rollout is not None and is_along(settings, rollout, subject.members) else None


def _id(outcome: Outcome, draft: Draft) -> str:
    """Return an id that is the same in every poll while rule, subject and values are.

    Fingerprints are left out: with a random hash seed they change at every restart.
    """
    own = (each for each in draft.evidence if not each.is_reference and each.path != FINGERPRINT)
    values = sorted((each.path, each.value) for each in own)
    what = repr(values) if values else repr(sorted(draft.replicas))
    return hashlib.sha256(repr((outcome.rule, outcome.subject, what)).encode()).hexdigest()[:ID_DIGITS]


def _pools_of(replicas: Sequence[str], data: _FleetData) -> tuple[str, ...]:
    return tuple(sorted({pool for each in replicas if (pool := data.replicas[each].pool)}))


def _cohorts(replicas: Sequence[str], data: _FleetData) -> tuple[CohortShare, ...]:
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in replicas:
        members[data.replicas[each].pool or "", data.letters.get(each, "")].append(each)
    return tuple(CohortShare(pool, letter, tuple(members[pool, letter])) for pool, letter in sorted(members))


def _worst_first(findings: Iterable[Finding], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    place = {rule.id: list(Family).index(rule.family) for rule in rules}

    def key(each: Finding) -> tuple[object, ...]:
        worst = (each.severity.rank, each.is_rollout, place[each.rule])
        return (*worst, each.rule, each.subject, each.id, each.replicas)

    return tuple(sorted(findings, key=key))


def _notes(policy: Policy, unused: Sequence[Suppression], subjects: Sequence[PoolSubject]) -> Iterator[str]:
    pools = [each.name for each in subjects]
    for each in unused:
        entry = f"suppress[{each.number - 1}] in {policy.file} ({each.rule}, {each.owner})"
        yield f"{entry} matches no finding; remove it."
    for glob in policy.pools:
        if not any(pool == glob or fnmatchcase(pool, glob) for pool in pools):
            yield f"pools.{glob} in {policy.file} matches no pool; correct or remove it."
    for baseline in policy.baselines:
        if not any(pool == baseline.pool or fnmatchcase(pool, baseline.pool) for pool in pools):
            yield f"pool {baseline.pool} in {baseline.file} matches no pool; correct it or remove the baseline."
        yield from unknown_paths(baseline, [each for each in subjects if each.baseline is baseline])
