"""The metrics of this program, read at each scrape. Every label has a bounded number of values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dashboard import __version__, service
from dashboard.access import audit
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import Effect, avoidable_tokens, effects_of_prefixes
from dashboard.capacity.sums import capacity_of
from dashboard.compare import sum_counts
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.grouping import grouped
from dashboard.fleet.traffic import MINUTE
from dashboard.rules.findings import OutcomeKind
from dashboard.store.opening import HistoryStatus

MAX_POOLS = 100  # with series of their own; served models make pools, so their number has no limit
NEW_POOLS = 10  # names an hour, after those of the first poll
NAME_ENDS = timedelta(hours=1)  # without a poll that has the name
MAX_COHORTS = 10  # of a pool with series of their own: the largest
OTHER_POOLS = OTHER_COHORTS = "other"
NO_POOL = ""  # of replicas that were never read
POOL = ("cluster", "pool")  # labels: the pool's is its key, `cluster/name`
STATES = (ReplicaState.UP, ReplicaState.PARTIAL, ReplicaState.DOWN)


class FleetMetrics(Collector):
    """The metrics, with the pools that have series of their own.

    A replica that renames its model makes a new pool at each restart. So the first MAX_POOLS have series; later at most
    NEW_POOLS an hour. A name ends once no poll has had it for an hour.
    """

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._admitted: dict[str, datetime] = {}  # within the last hour, without those of the first poll

    def text(self) -> bytes:
        return generate_latest(self)

    def label(self, names: Sequence[str], now: datetime) -> Callable[[str | None], str]:
        """Return the label of a pool, given the names of all pools of the newest poll in their order."""
        is_first = not self._seen
        present = set(names)
        self._seen = {
            name: now if name in present else seen
            for name, seen in self._seen.items()
            if name in present or now - seen < NAME_ENDS
        }
        self._admitted = {name: at for name, at in self._admitted.items() if now - at < NAME_ENDS}
        for name in names:
            has_room = len(self._seen) < MAX_POOLS and (is_first or len(self._admitted) < NEW_POOLS)
            if name not in self._seen and has_room:
                self._seen[name] = now
                if not is_first:
                    self._admitted[name] = now
        own = {name: end_cut(name) for name in names if name in self._seen}
        return lambda pool: own.get(pool, OTHER_POOLS) if pool else NO_POOL

    def collect(self) -> Iterable[Metric]:
        progress, fleet = service.progress(), service.current()
        info = _family("info", "Name of the fleet and version of this program.", "fleet", "version")
        info.add_metric([end_cut(fleet.name), __version__], 1)
        yield info
        yield CounterMetricFamily("vllm_fleet_polls", "Completed polls.", value=progress.polls)
        yield CounterMetricFamily(
            "vllm_fleet_poll_errors", "Polls aborted by an internal error.", value=progress.failures
        )
        yield SummaryMetricFamily(
            "vllm_fleet_poll_duration_seconds",
            "Duration of polls, from discovery to the evaluated fleet.",
            count_value=progress.polls,
            sum_value=progress.seconds_sum,
        )
        replicas = _family("replicas", "Replicas by state.", "state")
        for state in STATES:
            replicas.add_metric([state], getattr(fleet.coverage, state))
        yield replicas
        yield _gauge("discovery_errors", "Sources of targets that cannot be read.", len(fleet.discovery_errors))
        stale = sum(each.target_stale for each in fleet.replicas)
        yield _gauge("stale_targets", "Targets kept from a source that cannot be read.", stale)
        yield _gauge("pools", "Pools.", len(fleet.pools))
        yield from _source_metrics()
        yield from _notification_metrics()
        if (reload := service.reload_status()) is not None:  # names as Prometheus has for its own file
            text = "Whether the last reload of the configuration was successful."
            yield _gauge("config_last_reload_successful", text, not reload.mistakes)
            text = "Time of the last successful reload."
            yield _gauge("config_last_reload_success_timestamp_seconds", text, reload.loaded_at.timestamp())
        refused = CounterMetricFamily("vllm_fleet_access_refused", "Refused requests and actions.", labels=["reason"])
        for reason, number in sorted(audit.refusals.counts.items()):
            refused.add_metric([reason], number)
        yield refused
        yield _gauge("data_age_limit_seconds", "Age at which /healthz is 503.", service.age_limit_seconds())
        if (history := service.history_status()) is not None:
            yield from _history_metrics(history)
        if fleet.polled_at is not None:
            label = self.label([pool.name for pool in fleet.pools], service.now())
            clusters = _clusters(fleet, label)
            yield from _pool_metrics(fleet, label, clusters)
            yield from _traffic_metrics(fleet, label, clusters)
            yield from _finding_metrics(fleet, label, clusters)
            age = (service.now() - fleet.polled_at).total_seconds()
            yield _gauge("data_age_seconds", "Age of the last complete poll.", age)


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vllm_fleet_{name}", documentation, value=value)


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vllm_fleet_{name}", documentation, labels=labels)


def _history_metrics(status: HistoryStatus) -> Iterable[Metric]:
    text = "Whether this instance shows the polls of another one, and polls nothing."
    yield _gauge("history_follower", text, status.follows)
    text = "Polls that were not recorded in the history."
    yield CounterMetricFamily("vllm_fleet_history_failures", text, value=status.failures)
    if status.size_bytes is not None:
        yield _gauge("history_size_bytes", "Size of the database of history and snapshots.", status.size_bytes)
    if status.recorded_at is not None:
        text = "Time of the last poll in the history."
        yield _gauge("history_last_recorded_timestamp_seconds", text, status.recorded_at.timestamp())


def _source_metrics() -> Iterable[Metric]:
    up = _family("source_up", "Whether a source could be read at the last poll.", "source")
    targets = _family("source_targets", "Targets of a source.", "source")
    succeeded = _family("source_last_success_timestamp_seconds", "Time when a source was last read.", "source")
    by_name = {end_cut(each.name): each for each in service.sources()}  # a file may be in two entries
    for source, status in by_name.items():
        up.add_metric([source], status.failure is None)
        targets.add_metric([source], len(status.targets))
        if status.succeeded_at is not None:
            succeeded.add_metric([source], status.succeeded_at.timestamp())
    yield up
    yield targets
    yield succeeded


def _notification_metrics() -> Iterable[Metric]:
    """Count by kind of receiver: URLs are secrets."""
    label = "receiver_kind"
    name = "vllm_fleet_notifications"
    sent = CounterMetricFamily(name, "Notifications sent, by outcome.", labels=[label, "outcome"])
    for (kind, outcome), number in sorted(service.notification_outcomes().items()):
        sent.add_metric([kind, outcome], number)
    text = "Notifications that wait for a receiver."
    pending = GaugeMetricFamily("vllm_fleet_notifications_pending", text, labels=[label])
    text = "Time when a receiver of this kind last accepted a notification."
    succeeded = GaugeMetricFamily(f"{name}_last_success_timestamp_seconds", text, labels=[label])
    receivers = service.receivers()
    for kind in sorted({each.kind for each in receivers}):
        own = [each for each in receivers if each.kind == kind]
        if waiting := [each.pending for each in own if each.pending is not None]:
            pending.add_metric([kind], sum(waiting))
        if times := [each.succeeded_at for each in own if each.succeeded_at]:
            succeeded.add_metric([kind], max(times).timestamp())
    yield from (sent, pending, succeeded)


def _clusters(fleet: Fleet, label: Callable[[str | None], str]) -> Mapping[str, str]:
    """Return the cluster of each series of a pool; those that pools share, and those of no pool, have none."""
    clusters = {label(pool.name): end_cut(pool.cluster) for pool in fleet.pools}
    return clusters | {OTHER_POOLS: "", NO_POOL: ""}


def _pool_metrics(fleet: Fleet, label: Callable[[str | None], str], clusters: Mapping[str, str]) -> Iterable[Metric]:
    """Count the replicas and tokens of each pool. Of pools that share a series, cohorts are those of the worst."""
    cohorts = _family("pool_cohorts", "Cohorts of a pool: sets of replicas with identical settings.", *POOL)
    rollouts = _family("pool_rollout", "Whether a rollout is in progress in a pool.", *POOL)
    is_rollout = fleet.inspection.rollouts.__contains__
    by_badness = sorted(fleet.pools, key=lambda pool: (not is_rollout(pool.name), len(pool.cohorts)))
    for name, pool in sorted({label(pool.name): pool for pool in by_badness}.items()):
        cohorts.add_metric([clusters[name], name], len(pool.cohorts))
        rollouts.add_metric([clusters[name], name], is_rollout(pool.name))
    yield cohorts
    yield rollouts
    text = "Replicas of a pool that answered, by whether they share prefixes with it."
    sharing = _family("pool_prefix_sharing_replicas", text, *POOL, "state")
    by_series = grouped((label(pool_name), counts) for pool_name, counts in fleet.sharing_counts.items())
    for name, every in sorted(by_series.items()):
        for state, number in sum_counts(every)._asdict().items():
            sharing.add_metric([clusters[name], name, state], number)
    yield sharing
    members = grouped((label(replica.pool), replica) for replica in fleet.replicas)
    replicas = _family("pool_replicas", "Replicas of a pool by state.", *POOL, "state")
    tokens = _family("pool_kv_cache_tokens", "KV cache of a pool's fresh replicas in tokens.", *POOL, "basis")
    for name, own in sorted(members.items()):
        states = Counter(replica.state for replica in own)
        for state in STATES:
            replicas.add_metric([clusters[name], name, state], states[state])
        if (held := capacity_of(own)).tokens.value is not None:
            tokens.add_metric([clusters[name], name, held.basis], held.tokens.value)
    yield replicas
    yield tokens


def _traffic_metrics(fleet: Fleet, label: Callable[[str | None], str], clusters: Mapping[str, str]) -> Iterable[Metric]:
    """Return the hit ratio of each cohort with enough traffic. Cohorts beyond MAX_COHORTS of a pool are one.

    So are those of all pools that share a series.
    """
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    effects: dict[str, list[Effect]] = defaultdict(list)
    for pool in fleet.pools:
        name = label(pool.name)
        for place, cohort in enumerate(pool.cohorts):
            is_other = name == OTHER_POOLS or place >= MAX_COHORTS
            members[name, OTHER_COHORTS if is_other else cohort.letter] += cohort.replicas
    for effect in effects_of_prefixes(fleet):
        effects[label(effect.pool)].append(effect)
    text = "Tokens of prompts of a cohort that its prefix caches had, of those that were looked up in the window."
    ratio = _family("pool_prefix_hit_ratio", text, *POOL, "cohort")
    text = "Tokens of prompts of a cohort that were looked up in prefix caches, for weighted sums of hit ratios."
    queried = _family("pool_prefix_queried_tokens_per_second", text, *POOL, "cohort")
    for (name, letter), replicas in sorted(members.items()):
        traffic = fleet.traffic_of(replicas)
        if traffic.hit_rate is not None and traffic.queries is not None:
            ratio.add_metric([clusters[name], name, letter], traffic.hit_rate)
            queried.add_metric([clusters[name], name, letter], traffic.queries / traffic.seconds)
    yield from (ratio, queried)
    text = "Estimate: tokens of prompts computed that the hit ratio of the pool's unaffected replicas had avoided."
    avoidable = _family("pool_avoidable_tokens_per_second", text, *POOL)
    for name, every in sorted(effects.items()):
        if (tokens := avoidable_tokens(every)) is not None:
            avoidable.add_metric([clusters[name], name], tokens / MINUTE)
    yield avoidable


def _finding_metrics(fleet: Fleet, label: Callable[[str | None], str], clusters: Mapping[str, str]) -> Iterable[Metric]:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    oldest: dict[tuple[str, str, str], float] = {}
    now = service.now()
    for finding in fleet.inspection.findings:
        life = fleet.lives.lives.get(finding.fingerprint)
        seen = (life.sighting.since if life else now).timestamp()
        for pool in finding.pools or (None,):
            severity, name = str(finding.severity), label(pool)
            counts[severity, finding.rule, clusters[name], name] += 1
            key = severity, clusters[name], name
            oldest[key] = min(seen, oldest.get(key, seen))
    findings = _family("findings", "Findings.", "severity", "rule", *POOL)
    for labels, number in sorted(counts.items()):
        findings.add_metric(labels, number)
    yield findings
    text = "Time since which the oldest of the present findings is there, by the history or this process."
    first = _family("oldest_finding_timestamp_seconds", text, "severity", *POOL)
    for key, seen in sorted(oldest.items()):
        first.add_metric(key, seen)
    yield first
    yield _gauge("findings_suppressed", "Suppressed findings.", len(fleet.inspection.suppressed))
    kinds = Counter(outcome.kind for outcome in fleet.inspection.outcomes)
    outcomes = _family("rules", "Outcomes of rules, one per rule and pool.", "outcome")
    for kind in OutcomeKind:
        outcomes.add_metric([kind.replace(" ", "_")], kinds[kind])
    yield outcomes
