"""The metrics of this program, read at each scrape. Every label has a bounded number of values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

from dashboard import __version__, service
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, ReplicaState
from dashboard.fleet.formatting import end_cut
from dashboard.rules.findings import OutcomeKind
from dashboard.views.capacity_data import total

MAX_POOLS = 100  # with series of their own; served models make pools, so their number has no limit
OTHER_POOLS = "other"
NO_POOL = ""  # of replicas that were never read
STATES = (ReplicaState.UP, ReplicaState.PARTIAL, ReplicaState.DOWN)


def metrics_text() -> bytes:
    """Return the metrics in Prometheus text format."""
    return generate_latest(_registry)


class _Metrics:
    """Reads the values at each scrape."""

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
        if (reload := service.reload_status()) is not None:  # names as Prometheus has for its own file
            text = "Whether the last reload of the configuration was successful."
            yield _gauge("config_last_reload_successful", text, not reload.mistakes)
            text = "Time of the last successful reload."
            yield _gauge("config_last_reload_success_timestamp_seconds", text, reload.loaded_at.timestamp())
        yield _gauge("data_age_limit_seconds", "Age at which /healthz is 503.", service.age_limit_seconds())
        if fleet.polled_at is not None:
            label = _pool_label(fleet)
            yield from _pool_metrics(fleet, label)
            yield from _finding_metrics(fleet, label)
            age = (service.now() - fleet.polled_at).total_seconds()
            yield _gauge("data_age_seconds", "Age of the last complete poll.", age)


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vllm_fleet_{name}", documentation, value=value)


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vllm_fleet_{name}", documentation, labels=labels)


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


def _pool_label(fleet: Fleet) -> Callable[[str | None], str]:
    """Return the label of a pool. The first pools by name have series of their own, so that series persist."""
    own = {pool.name: end_cut(pool.name) for pool in fleet.pools[:MAX_POOLS]}
    return lambda pool: own.get(pool, OTHER_POOLS) if pool else NO_POOL


def _pool_metrics(fleet: Fleet, label: Callable[[str | None], str]) -> Iterable[Metric]:
    """Count the replicas and tokens of each pool. Of pools that share a series, cohorts are those of the worst."""
    cohorts = _family("pool_cohorts", "Cohorts of a pool: sets of replicas with identical settings.", "pool")
    rollouts = _family("pool_rollout", "Whether a rollout is in progress in a pool.", "pool")
    is_rollout = fleet.inspection.rollouts.__contains__
    by_badness = sorted(fleet.pools, key=lambda pool: (not is_rollout(pool.name), len(pool.cohorts)))
    for name, pool in sorted({label(pool.name): pool for pool in by_badness}.items()):
        cohorts.add_metric([name], len(pool.cohorts))
        rollouts.add_metric([name], is_rollout(pool.name))
    yield cohorts
    yield rollouts
    members: dict[str, list[Replica]] = defaultdict(list)
    for replica in fleet.replicas:
        members[label(replica.pool)].append(replica)
    replicas = _family("pool_replicas", "Replicas of a pool by state.", "pool", "state")
    tokens = _family("pool_kv_cache_tokens", "KV cache of a pool's fresh replicas in tokens.", "pool", "basis")
    for name, own in sorted(members.items()):
        states = Counter(replica.state for replica in own)
        for state in STATES:
            replicas.add_metric([name, state], states[state])
        if (capacity := total(own)).tokens is not None:
            tokens.add_metric([name, capacity.basis], capacity.tokens)
    yield replicas
    yield tokens


def _finding_metrics(fleet: Fleet, label: Callable[[str | None], str]) -> Iterable[Metric]:
    counts: Counter[tuple[str, str, str]] = Counter()
    oldest: dict[tuple[str, str], float] = {}
    since, now = service.findings_since(), service.now()
    for finding in fleet.inspection.findings:
        seen = since.get(finding.fingerprint, now).timestamp()
        for pool in finding.pools or (None,):
            severity, name = str(finding.severity), label(pool)
            counts[severity, finding.rule, name] += 1
            oldest[severity, name] = min(seen, oldest.get((severity, name), seen))
    findings = _family("findings", "Findings.", "severity", "rule", "pool")
    for labels, number in sorted(counts.items()):
        findings.add_metric(labels, number)
    yield findings
    text = "Time since which the oldest of the present findings is there, by the history or this process."
    first = _family("oldest_finding_timestamp_seconds", text, "severity", "pool")
    for pair, seen in sorted(oldest.items()):
        first.add_metric(pair, seen)
    yield first
    yield _gauge("findings_suppressed", "Suppressed findings.", len(fleet.inspection.suppressed))
    kinds = Counter(outcome.kind for outcome in fleet.inspection.outcomes)
    outcomes = _family("rules", "Outcomes of rules, one per rule and pool.", "outcome")
    for kind in OutcomeKind:
        outcomes.add_metric([kind.replace(" ", "_")], kinds[kind])
    yield outcomes


_registry = CollectorRegistry()
_registry.register(_Metrics())
