"""A fleet: all snapshots of one poll, with everything derived from them.

From top to bottom: `read_fleet` reads the snapshots, `assemble` compares and sums up, `inspected` evaluates the rules.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType

from dashboard.analysis.causes import Plan
from dashboard.analysis.kv_transfer import TransferVerdict, kv_transfer, transferring_pools
from dashboard.analysis.reuse import in_order, is_compared_alike, renewed, shared_engines
from dashboard.capacity.sums import PoolCapacity, capacity_of
from dashboard.compare import SharingCounts, SharingVerdict, compare_pool, count_sharing, sharing_verdict, sum_counts
from dashboard.compare.encoding import lookup_value
from dashboard.compare.prefix import CACHING_PATH
from dashboard.fleet import (
    CLUSTER,
    NO_LETTERS,
    STALE_SECONDS,
    Coverage,
    Document,
    Letters,
    PastTime,
    Pool,
    Replica,
    ReplicaState,
    RouterConfig,
    Snapshot,
    has_same_content,
    last_read,
    with_answers,
)
from dashboard.fleet.frames import Frames
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import NO_SIGHTINGS, Sightings
from dashboard.fleet.replies import FILE_SCHEME
from dashboard.fleet.traffic import Traffic, summed
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Finding, FindingLives, Inspection
from dashboard.rules.policy import FleetData, Policy, add_unconfirmed
from dashboard.rules.registry import Rule
from dashboard.rules.subject import NO
from dashboard.vllm.replica import read_document, read_replica, with_same_process

NO_CAPACITY = capacity_of(())
NO_LIVES = FindingLives()
FRESH_INTERVALS = 3  # a replica that was not read within three polls is stale; one that is only scraped: STALE_SECONDS


@dataclass(frozen=True)
class Fleet(FleetData):
    """One complete poll, immutable. `polled_at` is None before the first poll ended.

    `sharing`, `transfers` and `capacity` are by pool: the verdicts on prefix sharing and on KV transfer, where the pool
    transfers anything, and the KV cache; `total` is that of all replicas. `since` is the end of the first poll with the
    same content: pages without times are equal if `generation` and `since` are. `snapshot` is the id of the snapshot
    that it was opened from, `past` the time at which it was asked of the history. `discovery_errors` are sentences on
    sources of targets that cannot be read. `sightings` are from the history, `lives` of polls that followed each other.
    `letters` are those of cohorts by pool and document: before `assemble` the known ones, which it keeps, afterwards
    those of its cohorts. `scraped_at` is when Prometheus last scraped each replica that was not asked, in seconds since
    1970: see `read_at`. `unrecorded` says which changes the history lacks. `plan` is None until `plan_of` makes it.
    `counted` is what the engines of each replica counted between the last two reads, in the poll that read them.
    `cluster` is set where it is only a cluster of a fleet: see `analysis/parts.py`.
    """

    name: str
    generation: int
    polled_at: datetime | None
    sharing: Mapping[str, SharingVerdict] = field(default_factory=dict)
    transfers: Mapping[str, TransferVerdict] = field(default_factory=dict)
    capacity: Mapping[str, PoolCapacity] = field(default_factory=dict)
    total: PoolCapacity = NO_CAPACITY
    inspection: Inspection = field(default_factory=Inspection)
    since: datetime | None = None
    snapshot: str | None = None
    past: PastTime | None = None
    unrecorded: tuple[str, ...] = ()
    discovery_errors: tuple[str, ...] = ()
    sightings: Sightings = field(default=NO_SIGHTINGS, compare=False)
    lives: FindingLives = field(default=NO_LIVES, compare=False)
    letters: Letters = field(default_factory=lambda: NO_LETTERS, compare=False)
    scraped_at: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, compare=False)
    counted: Mapping[str, Traffic] = field(default_factory=dict, compare=False)
    cluster: str = ""

    def __repr__(self) -> str:
        """Return a short text: all fields are megabytes."""
        replicas, pools = len(self.replicas), len(self.pools)
        return f"<Fleet {self.name!r}, polled_at={self.polled_at}, replicas={replicas}, pools={pools}>"

    @cached_property
    def frames(self) -> Frames:
        findings = (*self.inspection.findings, *self.inspection.suppressed)
        return Frames(
            self.replicas,
            self.documents,
            self.pools,
            findings,
            self.sightings,
            self.scraped_at,
            self.traffic,
            self.without_cache,
        )

    @cached_property
    def without_cache(self) -> frozenset[str]:
        """The ids of the replicas whose prefix caching is off."""
        used = {each.document for each in self.replicas if each.document}
        off = {key for key in used if lookup_value(self.documents[key].settings, CACHING_PATH) == NO}
        return frozenset(each.id for each in self.replicas if each.document in off)

    @cached_property
    def affected(self) -> Mapping[str, Collection[str]]:
        """The replicas of each pool with a finding on prefixes, also a suppressed one, that not all of the pool have.

        What all have distinguishes none of them. The others are the unaffected: with them rates are compared.
        """
        found = [each for each in (*self.inspection.findings, *self.inspection.suppressed) if each.is_of_prefixes]
        return {pool.name: self.distinguished(pool, found) for pool in self.pools}

    def distinguished(self, pool: Pool, findings: Iterable[Finding]) -> Collection[str]:
        """Return the replicas of a pool with one of these findings, but for those that all of its fresh ones have."""
        fresh = {each for each in pool.replicas if self.by_id[each].fresh}
        found: set[str] = set()
        for each in findings:
            if pool.name in each.pools and not fresh.issubset(each.replicas):
                found.update(each.replicas)
        return found.intersection(pool.replicas)

    def read_at(self, replica: Replica) -> datetime | None:
        """Return when a replica was read or scraped last."""
        return last_read(replica, self.scraped_at)

    def as_read(self, replica: Replica) -> Replica:
        """Return the replica with the times of its last scrape."""
        at = self.read_at(replica)
        if at is None or at == replica.observed_at:
            return replica
        probes = tuple(replace(each, observed_at=at) for each in replica.probes)
        return with_answers(replica, probes, fresh=replica.fresh, observed_at=at)

    def uses_prefixes(self, pool: str) -> bool:
        """Return whether a router or a store uses shared prefixes of a pool, also an assumed one."""
        domain = self.inspection.domains.get(pool)
        return domain is None or domain.uses_prefixes

    @cached_property
    def sharing_counts(self) -> Mapping[str, SharingCounts]:
        """How many replicas of each pool share prefixes with it."""
        members = by_pool(self.replicas)
        return {
            name: count_sharing(verdict, members.get(name, ()), is_used=self.uses_prefixes(name))
            for name, verdict in self.sharing.items()
        }

    @cached_property
    def prefix_sharing(self) -> SharingCounts:
        """How many replicas of the fleet share prefixes with their pools."""
        return sum_counts(self.sharing_counts.values())

    @property
    def coverage(self) -> Coverage:
        states = Counter(replica.state for replica in self.replicas)
        counts = (states[each] for each in (ReplicaState.UP, ReplicaState.PARTIAL, ReplicaState.DOWN))
        return Coverage(len(self.replicas), *counts)

    @property
    def is_saved_answers(self) -> bool:
        """Return whether all answers come from files, so that the data's time is that of the import."""
        return bool(self.replicas) and all(each.id.startswith(FILE_SCHEME) for each in self.replicas)


def empty_fleet(name: str) -> Fleet:
    """Return the fleet before its first poll."""
    return Fleet(name, 0, None)


def read_fleet(
    name: str,
    snapshots: Sequence[Snapshot],
    *,
    polled_at: datetime,
    interval: timedelta,
    scraped_at: Mapping[str, float] = MappingProxyType({}),
    ignore: Sequence[str] = (),
    policy: Policy | None = None,
    generation: int = 1,
    before: Fleet | None = None,
    routers: tuple[RouterConfig, ...] = (),
) -> Fleet:
    """Return the replicas and documents of one poll as a fleet of which nothing is derived yet: see `assemble`.

    The poll ended at `polled_at`; `interval` is the time between two polls. `scraped_at` is when Prometheus scraped
    each target last, in seconds since 1970. Replicas of the fleet `before` with equal answers are reused.
    """
    since = polled_at - FRESH_INTERVALS * interval
    scraped_since = min(since, polled_at - timedelta(seconds=STALE_SECONDS))
    known = before.by_id if before else {}
    replicas: list[Replica] = []
    times: dict[str, float] = {}  # of the replicas that were not asked
    sources: dict[str, Snapshot] = {}  # by the document that it gives
    for snapshot in snapshots:
        key, fresh_since = snapshot.target.id, since
        if snapshot.is_scraped:
            fresh_since = scraped_since
            times[key] = scraped_at.get(key) or snapshot.observed_at.timestamp()
        replica = renewed(known.get(key), snapshot, fresh_since, times.get(key))
        replica = replica or read_replica(snapshot, fresh_since, shared_engines, times.get(key))
        replicas.append(replica)
        if replica.document:
            sources[replica.document] = snapshot
    fleet = Fleet(
        name,
        generation,
        polled_at,
        replicas=with_same_process(replicas),
        documents={key: read_document(sources[key]) for key in sorted(sources)},
        ignored=tuple(ignore),
        policy=policy or Policy(),
        routers=routers,
        scraped_at=times,
    )
    traffic: dict[str, Mapping[int, Traffic]] = {}
    counted: dict[str, Traffic] = {}
    for snapshot in snapshots:
        key, ranks, rose = snapshot.target.id, snapshot.traffic, snapshot.counted
        if key in fleet.without_cache:
            ranks, rose = ({rank: own.without_cache for rank, own in each.items()} for each in (ranks, rose))
        if ranks:
            traffic[key] = ranks
        if ranks and rose:
            counted[key] = summed(rose.values())
    return replace(fleet, traffic=traffic, counted=counted)


def assemble(read: Fleet, at: datetime, *, before: Fleet | None = None, rules: Sequence[Rule] = ALL_RULES) -> Fleet:
    """Return a fleet with all that follows from its replicas, documents and options: pools, verdicts, findings.

    `at` is the time of its data. What the fleet `before` derived from equal input is reused: the result is the same
    without it.
    """
    known = before or empty_fleet(read.name)
    replicas = in_order(read.replicas, known.replicas)
    is_same = has_same_content(replicas, known.replicas)
    is_restarted = is_same or has_same_content(replicas, known.replicas, but_starts=True)  # at most
    members, members_before = by_pool(replicas), by_pool(known.replicas)
    pools_before = {pool.name: pool for pool in known.pools if known.ignored == read.ignored}
    pools, sharing, capacity = [], {}, {}
    for name, own in members.items():
        pool, letters = pools_before.get(name), read.letters.get(name, {})
        if pool is not None and any(letters.get(each.document) != each.letter for each in pool.cohorts):
            pool = None
        if pool is not None and (is_restarted or has_same_content(own, members_before[name], but_starts=True)):
            sharing[name], capacity[name] = known.sharing[name], known.capacity[name]
        else:
            if pool is None or not is_compared_alike(own, members_before[name]):
                pool = _compared(name, own, read.documents, read.ignored, letters)
            sharing[name] = sharing_verdict(pool, {each.id: each for each in own}, read.documents)
            capacity[name] = capacity_of(own, name)
        pools.append(pool)
    fleet = replace(
        read,
        polled_at=at,
        since=at,
        replicas=replicas,
        pools=tuple(pools),
        sharing=sharing,
        capacity=capacity,
        total=known.total if is_restarted else capacity_of(replicas),
        letters={pool.name: {each.document: each.letter for each in pool.cohorts} for pool in pools},
    )
    if is_same and fleet.letters == known.letters and _has_same_findings(fleet, known):
        return replace(fleet, inspection=known.inspection, transfers=known.transfers)
    return inspected(fleet, at, before=before, rules=rules)


def by_pool(replicas: Iterable[Replica]) -> Mapping[str, list[Replica]]:
    return grouped((each.pool, each) for each in replicas if each.pool is not None)


def _compared(
    name: str,
    replicas: Sequence[Replica],
    documents: Mapping[str, Document],
    ignored: Sequence[str],
    letters: Mapping[str, str] = MappingProxyType({}),
) -> Pool:
    roles = Counter(each.role for each in replicas)
    role = min(roles, key=lambda each: (-roles[each], each))  # of most replicas; on a tie the first by name
    clusters = {each.labels.get(CLUSTER, "") for each in replicas}
    pool = compare_pool(name, role, replicas, documents, ignored, letters)
    return replace(pool, cluster=clusters.pop() if len(clusters) == 1 else "")


def _has_same_findings(fleet: Fleet, before: Fleet) -> bool:
    """Return whether rules find the same in equal replicas: no suppression or rollout can have expired, either."""
    if before.polled_at is None or fleet.polled_at is None or before.inspection.rollouts or fleet.recent.rollouts:
        return False
    same_day = before.polled_at.date() == fleet.polled_at.date()
    names = ("policy", "ignored", "routers", "recent", "traffic", "traffic_window", "usual", "inspection.unconfirmed")
    return same_day and all(attrgetter(name)(before) == attrgetter(name)(fleet) for name in names)


def inspected(
    fleet: Fleet,
    at: datetime,
    today: date | None = None,
    before: Fleet | None = None,
    rules: Sequence[Rule] = ALL_RULES,
) -> Fleet:
    """Return the fleet with the findings of the rules, and with the verdicts on KV transfer, which depend on them.

    `at` decides whether a rollout is still in progress, `today` which suppressions are expired: by default the day of
    `at`. Findings of the fleet that are unconfirmed stay. What the fleet `before` found in equal pools is reused: the
    result is the same without it.
    """
    policies = [replace(each.policy, suppressions=()) for each in (fleet, before) if each is not None]
    known = before.inspection.evaluated if before is not None and policies[0] == policies[1] else {}
    inspection = inspect_fleet(rules, fleet, at, today, known)
    transfers = _transfers(fleet, inspection, before)
    inspection = add_unconfirmed(inspection, fleet.inspection.unconfirmed, fleet, rules, today or at.date())
    return replace(fleet, inspection=inspection, transfers=transfers, plan=None)


def _transfers(fleet: Fleet, inspection: Inspection, before: Fleet | None) -> Mapping[str, TransferVerdict]:
    """Decide which pools can transfer KV cache, except those where nothing changed, nor in their partners."""
    known = transferring_pools(before.inspection) if before else {}
    members, earlier = by_pool(fleet.replicas), by_pool(before.replicas if before else ())
    verdicts = {}
    for pool, partners in transferring_pools(inspection).items():
        own, then = ([each for name in sorted(partners) for each in side[name]] for side in (members, earlier))
        if before and known.get(pool) == partners and has_same_content(own, then, but_starts=True):
            verdict = before.transfers.get(pool)
        else:
            verdict = kv_transfer(own, fleet.documents)
        if verdict is not None:
            verdicts[pool] = verdict
    return verdicts


def only_replicas(fleet: Fleet, ids: Collection[str], name: str) -> Fleet:
    """Return some replicas of any pools as a fleet with one pool, with their findings. Unknown ids are left out."""
    replicas = in_order([replace(each, pool=name) for each in fleet.replicas if each.id in ids], ())
    used = {each.document for each in replicas}
    documents = {key: document for key, document in fleet.documents.items() if key in used}
    pool, capacity = _compared(name, replicas, documents, fleet.ignored), capacity_of(replicas, name)
    found = [
        replace(each, pools=(name,)) for each in fleet.inspection.findings if not set(each.replicas).isdisjoint(ids)
    ]
    return Fleet(
        fleet.name,
        fleet.generation,
        fleet.polled_at,
        replicas=replicas,
        documents=documents,
        pools=(pool,),
        sharing={name: sharing_verdict(pool, {each.id: each for each in replicas}, documents)},
        capacity={name: capacity},
        total=capacity,
        ignored=fleet.ignored,
        traffic=fleet.traffic,
        inspection=Inspection(findings=tuple(found)),
        since=fleet.polled_at,
        snapshot=fleet.snapshot,
        past=fleet.past,
    )
