"""Runs rules over a fleet: every rule has one outcome per subject."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import date, datetime

from dashboard.compare.baseline import agreed_paths
from dashboard.fleet import FactName, Role, facts_of_pool, has_same_content
from dashboard.fleet.formatting import MOST, count, shortlist, uncapitalized
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Rollout, Symptom
from dashboard.rules.baseline import unknown_paths
from dashboard.rules.domain import CERTAIN, ImpactContext, domain_of
from dashboard.rules.effect.symptoms import OF_TRAFFIC, PoolTraffic
from dashboard.rules.findings import (
    Confidence,
    Draft,
    Evaluation,
    Family,
    Finding,
    Inspection,
    Outcome,
    OutcomeKind,
    Severity,
    SubjectKey,
    Suppression,
    UnevaluatedReplicas,
)
from dashboard.rules.policy import (
    FleetData,
    Policy,
    RuleChange,
    matches_any,
    suppress,
    unused_note,
    unused_suppressions,
    worst_first,
)
from dashboard.rules.registry import Rule, Scope
from dashboard.rules.rollout import is_along, remedy_along, rollout_of
from dashboard.rules.subject import FINGERPRINT, PARTS, FleetSubject, PairSubject, PoolSubject, Subject

REASON_LENGTH = 200  # characters of an exception
ID_DIGITS = 10
CHANGING = (FINGERPRINT, OF_TRAFFIC)  # beginnings of paths
OF_KV_CACHE = frozenset({Family.ROUTING, Family.STORES, Family.CAPACITY})


def inspect_fleet(
    rules: Sequence[Rule],
    fleet: FleetData,
    now: datetime,
    today: date | None = None,
    before: Mapping[SubjectKey, Evaluation] | None = None,
) -> Inspection:
    """Run rules over a fleet. The order of rules, pools, replicas and documents does not matter.

    `now` decides which rollouts are in progress, `today` (default: the day of `now`) which suppressions expired.
    `before` is what the same rules found with the same policy: unchanged pools and pairs are not evaluated again.
    """
    subjects = _pool_subjects(fleet, now)
    evaluated = _run(rules, subjects, fleet, before or {})
    outcomes = [outcome for each in evaluated.values() for outcome in each.outcomes]
    findings = [finding for each in evaluated.values() for finding in each.findings]
    active, suppressed = suppress(findings, fleet, rules, today or now.date())
    return Inspection(
        findings=worst_first(active, rules),
        suppressed=worst_first(suppressed, rules),
        outcomes=tuple(sorted(outcomes, key=lambda each: (each.rule, each.subject))),
        domains={each.name: each.domain for each in subjects},
        rollouts={each.name: each.rollout for each in subjects if each.rollout is not None},
        notes=tuple(_notes(fleet.policy, unused_suppressions(findings, fleet), subjects)),
        evaluated=evaluated,
    )


def _pool_subjects(fleet: FleetData, now: datetime) -> list[PoolSubject]:
    policy, documents, subjects = fleet.policy, fleet.documents, []
    for pool in sorted(fleet.pools, key=lambda each: each.name):
        members = tuple(fleet.by_id[key] for key in sorted(pool.replicas))
        keys = {member.document for member in members if member.document is not None}
        settings = [documents[key].settings for key in sorted(keys)]
        facts = tuple(facts_of_pool(fleet.routers, pool.name))
        domain = domain_of(policy.declared(pool.name), [member.role for member in members], settings, facts)
        own = fleet.recent.of_pool(pool.name, pool.replicas)
        baseline = policy.baseline(pool.name)
        subject = PoolSubject(pool, domain, members, documents, fleet.ignored, baseline=baseline, recent=own)
        rollout, is_stalled = rollout_of(pool.name, subject.members, now, own.rollouts.get(pool.name))
        if rollout:
            subject = replace(subject, stalled=rollout) if is_stalled else replace(subject, rollout=rollout)
        subjects.append(subject)
    return subjects


def _pairs(subjects: Sequence[PoolSubject]) -> Iterator[PairSubject]:
    """Pair each prefill pool with the decode pools of its cluster and model: by name, else by served model."""
    disaggregated = [each for each in subjects if each.domain.disaggregated]
    decoding = [each for each in disaggregated if each.pool.role is Role.DECODE]
    for prefill in (each for each in disaggregated if each.pool.role is Role.PREFILL):
        stem = prefill.name.removesuffix("/prefill")
        near = [each for each in decoding if each.pool.cluster == prefill.pool.cluster]
        named = [each for each in near if each.name.removesuffix("/decode") == stem]
        served = [each for each in near if each.served_model_names & prefill.served_model_names]
        yield from (PairSubject(prefill, decode) for decode in named or served)


def _run(
    rules: Sequence[Rule],
    subjects: Sequence[PoolSubject],
    fleet: FleetData,
    before: Mapping[SubjectKey, Evaluation],
) -> Mapping[SubjectKey, Evaluation]:
    everything = tuple(sorted(fleet.replicas, key=lambda each: each.id))
    by_scope: Mapping[Scope, Sequence[Subject]] = {
        Scope.POOL: subjects,
        Scope.PAIR: list(_pairs(subjects)),
        Scope.FLEET: [FleetSubject(tuple(subjects), everything, routers=fleet.routers)],
    }
    evaluated: dict[SubjectKey, Evaluation] = {}

    def run(scope: Scope, same_scope: Sequence[Subject]) -> None:
        own = [rule for rule in rules if rule.scope is scope]
        for each in same_scope if own else ():
            evaluated[scope, each.name] = _run_on(each, own, fleet, before.get((scope, each.name)))

    for scope, same_scope in by_scope.items():
        run(scope, same_scope)
    found = [finding for each in evaluated.values() for finding in each.findings]
    run(Scope.TRAFFIC, _with_traffic(subjects, fleet, found))  # last: it reads what the others found
    return evaluated


def _with_traffic(subjects: Sequence[PoolSubject], fleet: FleetData, findings: Iterable[Finding]) -> list[PoolSubject]:
    """Return the pools for rules on traffic."""
    by_pool = grouped((pool, finding) for finding in findings for pool in finding.pools)
    shown: dict[str | None, dict[str, dict[str, Symptom]]] = defaultdict(lambda: defaultdict(dict))
    for measure, every in fleet.recent.symptoms.items():
        for key, symptom in every.items():
            place = fleet.by_id[key].pool if key in fleet.by_id else key
            shown[place][measure][key] = symptom
    pools = []
    for each in subjects:
        own = copy(each)  # it reads the same replicas
        usual = fleet.usual.get(each.name)
        coverage = PoolTraffic(each.members, fleet.traffic, fleet.traffic_window, usual).coverage
        own.traffic = coverage._replace(is_past=fleet.recorded_traffic is not None)
        own.usual = usual.document if usual else None
        own.symptoms = shown[each.name]
        own.findings = tuple(by_pool.get(each.name, ()))
        pools.append(own)
    return pools


def _run_on(subject: Subject, rules: Sequence[Rule], fleet: FleetData, known: Evaluation | None) -> Evaluation:
    """Evaluate rules on a subject, unless nothing that they use of it changed. Most use no start of a replica."""
    inputs, replicas = subject.inputs, subject.all_replicas
    kept: dict[str, Outcome] = {}
    if known is not None and known.inputs == inputs and has_same_content(known.replicas, replicas, but_starts=True):
        subject.reads.update(known.reads)  # rules on the fleet read it again
        if has_same_content(known.replicas, replicas):
            return known._replace(replicas=replicas)
        reading = {rule.id for rule in rules if rule.reads_starts or rule.scope is Scope.TRAFFIC}
        kept = {each.rule: each for each in known.outcomes if each.rule not in reading}
    outcomes, findings = [], [each for each in known.findings if each.rule in kept] if known else []
    everywhere = subject.contexts, subject.known_contexts
    with_cache = _with_kv_cache(subject) if isinstance(subject, PoolSubject) else subject
    for rule in rules:
        if rule.id in kept:
            outcomes.append(kept[rule.id])
            continue
        part = with_cache if rule.family in OF_KV_CACHE else subject
        change = fleet.policy.rules.get(rule.id, RuleChange())
        contexts, known_contexts = everywhere
        if rule.spares_own_keys and isinstance(subject, PoolSubject) and subject.domain.read(FactName.OWN_KEYS):
            contexts, known_contexts = contexts - {ImpactContext.KV_EVENTS}, known_contexts - {ImpactContext.KV_EVENTS}
        worst = rule.severity_in(contexts, known_contexts)
        reason = _inapplicable(rule, change, part, fleet.policy.file)
        if worst is None or reason:
            reason = reason or f"Only for {' or '.join(rule.severity)}."
            outcomes.append(_outcome(rule, part, OutcomeKind.NOT_APPLICABLE, reason=reason))
            continue
        outcome, drafts = _evaluate(rule, change, part)
        outcomes.append(outcome)
        numbers = _unknown(drafts, rule, outcome, part)
        findings += [
            _finding(each, rule, outcome, number, worst, change.severity, part, fleet)
            for each, number in zip(drafts, numbers, strict=True)
        ]
    return Evaluation(inputs, replicas, tuple(outcomes), tuple(findings), subject.reads)


def _with_kv_cache(pool: PoolSubject) -> PoolSubject:
    """Return the pool without encoders: they run no language model, so they have no KV cache."""
    kept = tuple(each for each in pool.all_replicas if each.role is not Role.ENCODER)
    return pool if len(kept) == len(pool.all_replicas) else replace(pool, all_replicas=kept)


def _outcome(rule: Rule, subject: Subject, kind: OutcomeKind, reason: str = "", unknown: int = 0) -> Outcome:
    total = len(subject.all_replicas)
    return Outcome(rule.id, subject.name, subject.pools, kind, 0, reason, unknown, total, subject.unread)


def _evaluate(rule: Rule, change: RuleChange, subject: Subject) -> tuple[Outcome, list[Draft]]:
    needs = _needs(rule, subject)
    reported = [each for each in needs if subject.reporting(each)] if rule.needs_any else []
    unknown = subject.missing(reported or needs)
    if (missing := _missing(rule, needs, subject)) is not None:
        return _outcome(rule, subject, OutcomeKind.SKIPPED, missing, unknown), []
    try:
        results = list(rule.check(subject, **{**rule.parameters, **change.parameters}))
    except Exception as error:  # noqa: BLE001  an error in one rule must not stop the others
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH]
        return _outcome(rule, subject, OutcomeKind.ERROR, reason, unknown), []
    gaps = [each for each in results if isinstance(each, UnevaluatedReplicas)]
    drafts = [each for each in results if isinstance(each, Draft)]
    total = len(subject.all_replicas)
    unknown = max([unknown, *(min(total, subject.unread + len(each.replicas)) for each in gaps if each.replicas)])
    if drafts:
        return _outcome(rule, subject, OutcomeKind.FAILED, unknown=unknown)._replace(findings=len(drafts)), drafts
    ended = next((each for each in gaps if each.reason), None)
    if ended is None:
        return _outcome(rule, subject, OutcomeKind.PASSED, unknown=unknown), []
    kind = OutcomeKind.SKIPPED if ended.replicas else OutcomeKind.NOT_APPLICABLE
    return _outcome(rule, subject, kind, ended.reason, unknown), []


def _inapplicable(rule: Rule, change: RuleChange, subject: Subject, file: str) -> str | None:
    """Return why a rule does not apply, independent of the domain; None where it does."""
    if not change.enabled:
        return f"Disabled in {file}."
    if (number := len(subject.all_replicas)) < rule.least:
        return f"{'One' if number else 'No'} replica: nothing to compare."
    if rule.needs_baseline and isinstance(subject, PoolSubject) and subject.baseline is None:
        return f"No baseline for this pool in {file}."
    if rule.expects and isinstance(subject, PoolSubject) and getattr(subject.domain.expects, rule.expects) is None:
        return f"expects.{rule.expects} is not set in {file}."
    domain = subject.domain if isinstance(subject, PoolSubject) else None
    if rule.facts and domain is not None and not any(map(domain.fact, rule.facts)):
        names = shortlist(rule.facts, MOST)
        reports = f"reports {names}" if domain.facts else f"is read (option routers in {file})"
        return f"No router of this pool {reports}."
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
    return f"{shortlist(needs, MOST)}: reported by {reporting:,} of {count(total, 'replica')}."


def _finding(
    draft: Draft,
    rule: Rule,
    outcome: Outcome,
    unknown: int,
    worst: tuple[ImpactContext, Severity],
    override: Severity | None,
    subject: Subject,
    fleet: FleetData,
) -> Finding:
    """Complete a draft. An assumption limits its severity to warning, unless the operator set that.

    A difference along a rollout is one step milder.
    """
    context, severity = worst[0], draft.severity or worst[1]
    why, assumptions = rule.page.why.get(context, ""), draft.assumptions
    if context not in subject.known_contexts and (draft.severity is None or draft.why is None):
        assumptions = tuple(dict.fromkeys((*assumptions, *_router_assumptions(subject, context))))
        why = f"If the router is {context}: {uncapitalized(why)}"
    confidence = Confidence.ASSUMED if assumptions else draft.confidence
    severity = override or (severity.assumed if confidence is Confidence.ASSUMED else severity)
    rollout = _rollout_of(draft, subject)
    severity = severity if rollout is None else severity.milder
    is_fixed = draft.severity is not None or override is not None
    replicas = tuple(sorted(set(draft.replicas)))
    return Finding(
        replicas,
        draft.text,
        draft.evidence,
        draft.remedy if rollout is None else remedy_along(rollout, draft),
        confidence=confidence,
        severity=severity,
        why=draft.why or why,
        assumptions=assumptions,
        explained_by=draft.explained_by,
        id=_id(outcome, draft),
        rule=rule.id,
        subject=subject.name,
        pools=subject.pools or fleet.pools_of(replicas),
        cohorts=fleet.cohorts_of(replicas),
        unknown=unknown,
        total=outcome.total,
        is_rollout=rollout is not None,
        context=None if draft.why else context,
        severity_behind=() if is_fixed else _severity_behind(rule, severity, subject, is_rollout=rollout is not None),
    )


def _router_assumptions(subject: Subject, context: ImpactContext) -> Iterable[str]:
    domains = [subject.domain] if isinstance(subject, PoolSubject) else [each.domain for each in subject.subjects]
    return dict.fromkeys(text for each in domains if each.router.value == context.value for text in each.assumptions)


def _severity_behind(
    rule: Rule, severity: Severity, subject: Subject, *, is_rollout: bool
) -> tuple[tuple[ImpactContext, Severity], ...]:
    """Return the routers behind which a finding would be worse; empty where the pool's router is known for sure."""
    if not isinstance(subject, PoolSubject) or subject.domain.router_basis in CERTAIN:
        return ()
    known = [(each, rule.severity.get(each, severity)) for each in (ImpactContext.PREFIX_HASH, ImpactContext.KV_EVENTS)]
    behind = [(router, other.milder if is_rollout else other) for router, other in known]
    return tuple((router, other) for router, other in behind if other.rank < severity.rank)


def _unknown(drafts: Iterable[Draft], rule: Rule, outcome: Outcome, subject: Subject) -> list[int]:
    """Count the replicas that do not report the settings of each draft; without settings, those of the rule's needs.

    Fingerprints count only where the rule needs them: elsewhere they are additional evidence.
    """
    other = PARTS if FINGERPRINT in rule.needs else (*PARTS, FINGERPRINT)
    numbers: dict[tuple[str, ...], int] = {}  # drafts of one rule are mostly on the same settings
    found = []
    for draft in drafts:
        paths = tuple(dict.fromkeys(each.path for each in draft.evidence if each.path not in other))
        if paths not in numbers:
            reported = [path for path in paths if subject.reporting(path)]
            numbers[paths] = subject.missing(reported) if reported else outcome.unknown
        found.append(numbers[paths])
    return found


def _rollout_of(draft: Draft, subject: Subject) -> Rollout | None:
    """Return the pool's rollout where a draft's settings differ along it."""
    if not isinstance(subject, PoolSubject) or subject.rollout is None:
        return None
    settings = (subject.values(path) for path in {each.path for each in draft.evidence})
    return subject.rollout if is_along(settings, subject.rollout, subject.members) else None


def _id(outcome: Outcome, draft: Draft) -> str:
    """Return an id that is the same in every poll while rule, subject and values, or without values replicas, are."""
    measured = dict.fromkeys(each.path for each in draft.evidence if each.path.startswith(OF_TRAFFIC))
    what = repr(own_values(draft) or [*measured, *sorted(draft.replicas)])
    return hashlib.sha256(repr((outcome.rule, outcome.subject, what)).encode()).hexdigest()[:ID_DIGITS]


def own_values(draft: Draft) -> list[tuple[str, str]]:
    """Return the paths and values that the id of a finding is made of.

    Fingerprints are left out: with a random hash seed they change at every restart. So is what traffic showed.
    """
    own = (each for each in draft.evidence if not each.is_reference and not each.path.startswith(CHANGING))
    return sorted((each.path, each.value) for each in own)


def _notes(policy: Policy, unused: Sequence[Suppression], subjects: Sequence[PoolSubject]) -> Iterator[str]:
    pools = [each.name for each in subjects]
    for each in unused:
        yield unused_note(each, policy)
    for glob in policy.pools:
        if not matches_any(glob, pools):
            how = "correct or remove it"
            if matches_any(f"*/{glob}", pools):
                how = f"write '*/{glob}' for the pools of all clusters"
            yield f"pools.{glob} in {policy.file} matches no pool; {how}."
    for baseline in policy.baselines:
        if not matches_any(baseline.pool, pools):
            yield f"pool {baseline.pool} in {baseline.file} matches no pool; correct it or remove the baseline."
        yield from unknown_paths(baseline, [each for each in subjects if each.baseline is baseline])
