"""A fleet: all snapshots of one poll, with everything derived from them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from dashboard.analysis.kv_transfer import TransferVerdict, kv_transfer, transferring_pools
from dashboard.capacity.engines import engines_of
from dashboard.capacity.sums import PoolCapacity, capacity_of
from dashboard.compare import Member, SharingVerdict, compare_pool, sharing_verdict
from dashboard.fleet import (
    CLUSTER,
    STALE_SECONDS,
    Coverage,
    Document,
    Engine,
    EngineReport,
    KVCacheGroup,
    PastTime,
    Pool,
    Replica,
    ReplicaState,
    Role,
    RouterConfig,
    Snapshot,
    State,
    has_same_content,
    last_read,
    with_answers,
)
from dashboard.fleet.frames import NO_FRAMES, Frames
from dashboard.fleet.recent import NOTHING_RECENT, RecentEvents
from dashboard.fleet.replies import FILE_SCHEME
from dashboard.fleet.sightings import NO_SIGHTINGS, Sightings
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Inspection
from dashboard.rules.policy import Policy
from dashboard.vllm.facts import Facts, facts_of, renew

NO_CAPACITY = capacity_of(())
FRESH_INTERVALS = 3  # a replica that was not read within three polls is stale; one that is only scraped: STALE_SECONDS


@dataclass(frozen=True, slots=True)
class Fleet:
    """One complete poll, immutable. `polled_at` is None before the first poll ended.

    `sharing`, `transfers` and `capacity` are by pool: the verdicts on prefix sharing and on KV transfer, where the pool
    transfers anything, and the KV cache; `total` is that of all replicas. `since` is the end of the first poll with the
    same content: pages without times are equal if `generation` and `since` are. `snapshot` is the id of the frozen
    snapshot that it was opened from, `past` the time at which it was asked of the history. `discovery_errors` are
    sentences on sources of targets that cannot be read. `routers` are what routers reported. `recent` is what the last
    polls saw, `sightings` are from the history. `scraped_at` is when Prometheus last scraped each replica that was not
    asked, in seconds since 1970: see `read_at`. `frames` are its dataframes.
    """

    name: str
    generation: int
    polled_at: datetime | None
    replicas: tuple[Replica, ...]
    documents: Mapping[str, Document]
    pools: tuple[Pool, ...]
    sharing: Mapping[str, SharingVerdict] = field(default_factory=dict)
    transfers: Mapping[str, TransferVerdict] = field(default_factory=dict)
    capacity: Mapping[str, PoolCapacity] = field(default_factory=dict)
    total: PoolCapacity = NO_CAPACITY
    ignored: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    inspection: Inspection = field(default_factory=Inspection)
    since: datetime | None = None
    snapshot: str | None = None
    past: PastTime | None = None
    discovery_errors: tuple[str, ...] = ()
    routers: tuple[RouterConfig, ...] = ()
    recent: RecentEvents = NOTHING_RECENT
    sightings: Sightings = field(default=NO_SIGHTINGS, compare=False)
    scraped_at: Mapping[str, float] = field(default_factory=dict)
    frames: Frames = field(default=NO_FRAMES, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the frames of a copy that has the same replicas, findings and times."""
        found = self.inspection
        parts = (self.replicas, self.documents, self.pools, found.findings, found.suppressed)
        object.__setattr__(self, "frames", self.frames.of(*parts, self.sightings, self.scraped_at))

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

    @property
    def coverage(self) -> Coverage:
        """Count the replicas by state."""
        states = Counter(replica.state for replica in self.replicas)
        counts = (states[each] for each in (ReplicaState.UP, ReplicaState.PARTIAL, ReplicaState.DOWN))
        return Coverage(len(self.replicas), *counts)

    @property
    def is_saved_answers(self) -> bool:
        """Return whether all answers come from files, so that the data's time is that of the import."""
        return bool(self.replicas) and all(each.id.startswith(FILE_SCHEME) for each in self.replicas)


def empty_fleet(name: str) -> Fleet:
    """Return the fleet before its first poll."""
    return Fleet(name, 0, None, (), {}, ())


def build_fleet(
    name: str,
    snapshots: Sequence[Snapshot],
    *,
    polled_at: datetime,
    interval: timedelta,
    ignore: Sequence[str] = (),
    policy: Policy | None = None,
    generation: int = 1,
    before: Fleet | None = None,
    routers: tuple[RouterConfig, ...] = (),
    observe: Callable[[Fleet, datetime], RecentEvents] = lambda _fleet, _at: NOTHING_RECENT,
) -> Fleet:
    """Derive the fleet of one poll. `polled_at` is when the poll ended; `interval` the time between polls.

    What the fleet `before` derived from equal input is reused: the result is the same without it. `observe` gets the
    fleet before the rules are evaluated, and returns what happened lately.
    """
    since = polled_at - FRESH_INTERVALS * interval
    scraped_since = min(since, polled_at - timedelta(seconds=STALE_SECONDS))
    known = {each.id: each for each in before.replicas} if before else {}
    engines = _Engines()
    replicas = []
    with_document: dict[str, Snapshot] = {}
    scraped_at: dict[str, float] = {}
    for snapshot in snapshots:
        target = snapshot.target
        if snapshot.is_scraped and target.scraped:
            scraped_at[target.id] = target.scraped.last_at(target.id)
        earlier, fresh_since = known.get(target.id), scraped_since if snapshot.is_scraped else since
        replica = renew(earlier, snapshot, fresh_since) if earlier else None
        if replica is None:
            facts = facts_of(snapshot, fresh_since)
            replica = replace(facts.replica, engines=engines.of(facts))
        replicas.append(replica)
        if replica.document:
            with_document[replica.document] = snapshot
    found = (facts_of(with_document[key], since).document for key in sorted(with_document))
    documents = {each.id: each for each in found if each}
    same = _same_process(replicas)
    replicas = [
        each if each.same_process == same.get(each.id, ()) else replace(each, same_process=same.get(each.id, ()))
        for each in replicas
    ]
    fleet = assembled(
        name, replicas, documents, polled_at=polled_at, ignore=ignore, generation=generation, before=before
    )
    fleet = replace(fleet, policy=policy or Policy(), routers=routers, scraped_at=scraped_at)
    fleet = replace(fleet, recent=observe(fleet, polled_at))
    if before is not None and _has_same_findings(fleet, before):
        return replace(fleet, inspection=before.inspection, transfers=before.transfers)
    return inspected(fleet, polled_at, before=before)


def _has_same_findings(fleet: Fleet, before: Fleet) -> bool:
    """Return whether rules would find the same: nothing changed, and no suppression or rollout can have expired."""
    if before.polled_at is None or fleet.polled_at is None or before.inspection.rollouts or fleet.recent.rollouts:
        return False
    same_day = before.polled_at.date() == fleet.polled_at.date()
    same_options = all(
        getattr(before, name) == getattr(fleet, name) for name in ("policy", "ignored", "routers", "recent")
    )
    return same_day and same_options and has_same_content(fleet.replicas, before.replicas)


def assembled(
    name: str,
    replicas: Iterable[Replica],
    documents: Mapping[str, Document],
    *,
    polled_at: datetime | None,
    ignore: Sequence[str] = (),
    generation: int = 1,
    before: Fleet | None = None,
) -> Fleet:
    """Put replicas into pools, compare these, decide which share prefixes, and sum up their KV cache.

    No rule is evaluated yet. What the fleet `before` derived from equal replicas is reused.
    """
    ordered = _ordered(replicas, before)
    known = before or empty_fleet(name)
    members, earlier = _by_pool(ordered), _by_pool(known.replicas)
    pools = _pools(members, documents, ignore, known, earlier)
    is_same = has_same_content(ordered, known.replicas)
    same = {each for each, own in members.items() if is_same or has_same_content(own, earlier[each])}
    if known.ignored != tuple(ignore):
        same = set()
    sharing, capacity = {}, {}
    for pool in pools:
        key, own = pool.name, members[pool.name]
        if key in same:
            sharing[key], capacity[key] = known.sharing[key], known.capacity[key]
        else:
            sharing[key] = sharing_verdict(pool, {each.id: each for each in own}, documents)
            capacity[key] = capacity_of(own, key)
    return Fleet(
        name,
        generation,
        polled_at,
        tuple(ordered),
        documents,
        pools,
        sharing=sharing,
        capacity=capacity,
        total=known.total if is_same else capacity_of(ordered),
        ignored=tuple(ignore),
        since=polled_at,
    )


def _ordered(replicas: Iterable[Replica], before: Fleet | None) -> list[Replica]:
    """Sort replicas by pool and name. In the order of the fleet before, most of them are sorted already."""
    if before is not None:
        left = {each.id: each for each in replicas}
        earlier = [left.pop(each.id) for each in before.replicas if each.id in left]
        replicas = (*earlier, *left.values())
    return sorted(replicas, key=lambda each: (each.pool is None, each.pool or "", each.name, each.id))


def only_pool(fleet: Fleet, name: str) -> Fleet:
    """Return one pool as a fleet, without findings that span pools.

    Its notes are those of the whole fleet: they are on options that match nothing in it.
    """
    replicas = tuple(replica for replica in fleet.replicas if replica.pool == name)
    used = {replica.document for replica in replicas}
    documents = {key: document for key, document in fleet.documents.items() if key in used}
    pools = tuple(pool for pool in fleet.pools if pool.name == name)
    part = replace(
        fleet,
        replicas=replicas,
        documents=documents,
        pools=pools,
        sharing={pool.name: fleet.sharing[pool.name] for pool in pools},
        capacity={pool.name: fleet.capacity[pool.name] for pool in pools},
        total=capacity_of(replicas),
    )
    if fleet.polled_at is None:
        return part
    part = inspected(part, fleet.polled_at, before=fleet)
    return replace(part, inspection=replace(part.inspection, notes=fleet.inspection.notes))


def only_replicas(fleet: Fleet, ids: Collection[str], name: str) -> Fleet:
    """Return some replicas of any pools as a fleet with one pool, with their findings. Unknown ids are left out."""
    replicas = [replace(each, pool=name) for each in fleet.replicas if each.id in ids]
    used = {each.document for each in replicas}
    documents = {key: document for key, document in fleet.documents.items() if key in used}
    part = assembled(fleet.name, replicas, documents, polled_at=fleet.polled_at, ignore=fleet.ignored)
    found = [
        replace(each, pools=(name,)) for each in fleet.inspection.findings if not set(each.replicas).isdisjoint(ids)
    ]
    return replace(part, snapshot=fleet.snapshot, past=fleet.past, inspection=Inspection(findings=tuple(found)))


def inspected(fleet: Fleet, at: datetime, today: date | None = None, before: Fleet | None = None) -> Fleet:
    """Return the fleet with the findings of all rules, and with the verdicts on KV transfer, which depend on them.

    `at` decides whether a rollout is still in progress, `today` which suppressions are expired: by default the day of
    `at`. What the fleet `before` found in equal pools is reused: the result is the same without it.
    """
    same_policy = before is not None and before.policy == fleet.policy
    known = before.inspection.evaluated if before is not None and same_policy else {}
    inspection = inspect_fleet(
        ALL_RULES,
        fleet.pools,
        fleet.replicas,
        fleet.documents,
        fleet.policy,
        at,
        fleet.ignored,
        today,
        known,
        fleet.routers,
        fleet.recent,
    )
    return replace(fleet, inspection=inspection, transfers=_transfers(fleet, inspection, before))


def _transfers(fleet: Fleet, inspection: Inspection, before: Fleet | None) -> Mapping[str, TransferVerdict]:
    """Decide which pools can transfer KV cache, except those where nothing changed, nor in their partners."""
    known = transferring_pools(before.inspection) if before else {}
    members, earlier = _by_pool(fleet.replicas), _by_pool(before.replicas if before else ())
    verdicts = {}
    for pool, partners in transferring_pools(inspection).items():
        own, then = ([each for name in sorted(partners) for each in side[name]] for side in (members, earlier))
        if before and known.get(pool) == partners and has_same_content(own, then):
            verdict = before.transfers.get(pool)
        else:
            verdict = kv_transfer(own, fleet.documents)
        if verdict is not None:
            verdicts[pool] = verdict
    return verdicts


class _Engines:
    """Capacity by its input, which many replicas share: computed once per poll."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Engine, ...]] = {}

    def of(self, facts: Facts) -> tuple[Engine, ...]:
        """Return the capacity of a replica's engines."""
        return self._of(facts.document, facts.reports, facts.replica.kv_cache_groups)

    def _of(
        self, document: Document | None, reports: tuple[EngineReport, ...], groups: tuple[KVCacheGroup, ...]
    ) -> tuple[Engine, ...]:
        key = (document.id if document else None, reports, groups)
        if key not in self._known:
            bare = tuple(report._replace(fingerprint=None) for report in reports)
            if bare == reports:
                self._known[key] = engines_of(reports, groups, document.settings if document else {})
            else:  # capacity does not depend on fingerprints
                pairs = zip(self._of(document, bare, groups), reports, strict=True)
                self._known[key] = tuple(engine._replace(fingerprint=report.fingerprint) for engine, report in pairs)
        return self._known[key]


def _same_process(replicas: Iterable[Replica]) -> Mapping[str, tuple[str, ...]]:
    """Return, per replica, the other addresses with its `instance_id`: one process behind several addresses."""
    addresses: dict[str, list[str]] = defaultdict(list)
    for replica in replicas:
        instance = replica.identity.get("instance_id")
        if instance is not None and instance.state is State.REPORTED and instance.value != '""':
            addresses[instance.value].append(replica.id)
    return {
        address: tuple(other for other in sharing if other != address)
        for sharing in addresses.values()
        if len(sharing) > 1
        for address in sharing
    }


def _pools(
    members: Mapping[str, Sequence[Replica]],
    documents: Mapping[str, Document],
    ignore: Sequence[str],
    before: Fleet,
    earlier: Mapping[str, Sequence[Replica]],
) -> tuple[Pool, ...]:
    """Compare every pool, except those whose members have the same documents as `earlier`."""
    known = {pool.name: pool for pool in before.pools} if before.ignored == tuple(ignore) else {}
    pools = []
    for name, own in members.items():
        role, pool = _role(own), known.get(name)
        clusters = {replica.labels.get(CLUSTER, "") for replica in own}
        cluster = clusters.pop() if len(clusters) == 1 else ""
        if pool is None or pool.role != role or pool.cluster != cluster or not _are_alike(own, earlier[name]):
            compared = [Member(each.id, each.document, each.fresh, len(each.identity)) for each in own]
            pool = replace(compare_pool(name, role, compared, documents, ignore), cluster=cluster)
        pools.append(pool)
    return tuple(pools)


def _by_pool(replicas: Iterable[Replica]) -> Mapping[str, list[Replica]]:
    pools: dict[str, list[Replica]] = defaultdict(list)
    for replica in replicas:
        if replica.pool is not None:
            pools[replica.pool].append(replica)
    return pools


def _are_alike(replicas: Sequence[Replica], before: Sequence[Replica]) -> bool:
    """Return whether all that comparing needs of a pool's replicas is equal: see Member."""
    return len(replicas) == len(before) and all(
        now is then
        or (
            now.id == then.id
            and now.document == then.document
            and now.fresh == then.fresh
            and len(now.identity) == len(then.identity)
        )
        for now, then in zip(replicas, before, strict=True)
    )


def _role(pool: Iterable[Replica]) -> Role:
    """Return the role that most replicas of a pool have; on a tie the first by name."""
    counts = Counter(replica.role for replica in pool)
    return min(counts, key=lambda role: (-counts[role], role))
