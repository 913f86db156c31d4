"""What a rule evaluates: a pool, a prefill/decode pair, or the whole fleet."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from packaging.version import Version

from dashboard.compare.encoding import NULL, codes_of, is_comparable, lookup_setting, lookup_value
from dashboard.compare.equality import NOT_SET, MeaningOf
from dashboard.compare.hashes import Digests, Hashes, digests
from dashboard.compare.holders import Holders, by_frequency, group_by_value
from dashboard.compare.prefix import CACHING_PATH
from dashboard.fleet import Baseline, Document, Engine, KVCacheGroup, Pool, Replica, Setting, SettingValue, State
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import NOTHING_COUNTED, NOTHING_RECENT, RecentEvents, Rollout, Symptom, TrafficCoverage
from dashboard.fleet.routers import RouterConfig
from dashboard.rules.connector_options import Connector, connectors, native
from dashboard.rules.domain import EVENTS, NO_PUBLISHER, PUBLISHER, Domain, ImpactContext
from dashboard.rules.findings import Evidence, Finding
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.versions import VERSION, build, is_unsupported
from vllm_fleet_provider.shared.identity import EVENT_PARTS, is_partly_identity
from vllm_fleet_provider.shared.spelling import canonical_text

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_ID = attrgetter("id")

# What a rule can need besides settings: fields of a replica that may be empty.
PARTS = ("engines", "devices", "kv_cache_groups", "started_at", "adapters", "sources")
YES, NO = SettingValue("true", State.REPORTED), SettingValue("false", State.REPORTED)
_OLDEST = Version("0.dev0")  # in place of an invalid version
FINGERPRINT = "replicas.fingerprint"  # the digests of the block hashes that a replica's engines computed


def group_by_native(values: Mapping[str, Any]) -> Holders:
    return group_by_value({replica: setting_value(value) for replica, value in values.items()})


def setting_value(value: Any) -> SettingValue:
    """Return native JSON as a setting's value; None as an option that is not set."""
    return NOT_SET if value is None else SettingValue(canonical_text(value), State.REPORTED)


def publication(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return whether a replica publishes KV events: they are enabled and have a publisher."""
    if value.state is State.NULL:
        return NO
    return NO if value == YES and native(settings, PUBLISHER) == NO_PUBLISHER else value


@dataclass(slots=True, eq=False)
class PoolSubject:
    """One pool as rules see it.

    `members` are the replicas that are evaluated: the fresh ones, and where none is fresh, all that were ever read.
    `all_replicas` includes the others. A value that is absent, unsupported, redacted or unknown is not reported.
    `copies` are members with the settings of another replica: their digests are equal. `stalled` is a rollout that
    stands still, in place of `rollout`. For rules on traffic only: `traffic`, `symptoms` by measure and replica, and
    the `findings` of all other rules; `usual` are the settings with most traffic in the last day.
    """

    pool: Pool
    domain: Domain
    all_replicas: tuple[Replica, ...]
    documents: Mapping[str, Document]
    ignore: tuple[str, ...] = ()
    rollout: Rollout | None = None
    baseline: Baseline | None = None
    recent: RecentEvents = NOTHING_RECENT
    stalled: Rollout | None = None
    traffic: TrafficCoverage = NOTHING_COUNTED
    symptoms: Mapping[str, Mapping[str, Symptom]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    usual: Document | None = None
    members: tuple[Replica, ...] = field(init=False)
    copies: frozenset[str] = field(init=False)
    _ids: tuple[str, ...] = field(init=False)  # of the members, sorted
    _rows: NDArray[np.int64] = field(init=False)  # by `_ids`: the row of the member's document in the pool's table
    _by_document: dict[str, tuple[str, ...]] = field(init=False)
    _by_version: dict[str | None, frozenset[str]] = field(init=False)
    _identity_paths: frozenset[str] = field(init=False)  # of any member
    reads: dict[tuple[str, Hashable], Any] = field(init=False)  # so far: by method and argument

    def __post_init__(self) -> None:
        read = [each for each in self.all_replicas if each.document is not None]
        members = tuple(each for each in read if each.fresh) or tuple(read)
        by_document = grouped((str(member.document), member.id) for member in members)
        versions: dict[str | None, set[str]] = defaultdict(set)
        for key, ids in by_document.items():
            versions[self.documents[key].version].update(ids)
        known = {each.id: str(each.document) for each in members}
        for replica in self.all_replicas:
            if replica.id not in known:
                versions[replica.version].add(replica.id)
        row_of = {key: row for row, key in enumerate(self.pool.documents)}
        self.members, self._ids = members, tuple(sorted(known))
        self._rows = np.array([row_of[known[each]] for each in self._ids], dtype=np.int64)
        self._by_document = {key: tuple(held) for key, held in by_document.items()}
        self._by_version = {version: frozenset(held) for version, held in versions.items()}
        self._identity_paths = frozenset().union(*(each.identity for each in members))
        self.reads = {}
        self.copies = frozenset(each.id for each in members if each.same_digest_as)

    @property
    def inputs(self) -> tuple[object, ...]:
        """Return what rules use of the pool besides its replicas. Equal ids of documents have equal settings."""
        settings = (self.pool, self.domain, self.ignore, self.rollout, self.baseline, self.recent, self.stalled)
        return (*settings, self.traffic, self.symptoms, self.findings, self.usual)

    @property
    def name(self) -> str:
        return self.pool.name

    @property
    def pools(self) -> tuple[str, ...]:
        return (self.pool.name,)

    @property
    def unread(self) -> int:
        return len(self.all_replicas) - len(self.members)

    @property
    def contexts(self) -> frozenset[ImpactContext]:
        return self.domain.contexts

    @property
    def known_contexts(self) -> frozenset[ImpactContext]:
        return self.domain.known_contexts

    @property
    def served_model_names(self) -> set[str]:
        return {name for each in self.members for name in each.served_model_names}

    def is_ignored(self, path: str) -> bool:
        return any(fnmatchcase(path, glob) for glob in self.ignore)

    def only(self, replicas: Collection[str]) -> "PoolSubject":
        wanted = frozenset(replicas)
        kept = tuple(member for member in self.members if member.id in wanted)
        return self if len(kept) == len(self.members) else replace(self, all_replicas=kept)

    def without(self, replicas: Collection[str]) -> "PoolSubject":
        return self.only({member.id for member in self.members}.difference(replicas)) if replicas else self

    @property
    def caching(self) -> "PoolSubject":
        """Return the pool without the replicas that report prefix caching as off: they hash no blocks."""
        return self.without(self.values(CACHING_PATH).get(NO, ()))

    @property
    def publishing(self) -> "PoolSubject":
        """Return the replicas that report that they publish KV events."""
        return self.only(self.values(EVENTS, publication).get(YES, ()))

    @property
    def most_used_version(self) -> SettingValue:
        """Return the version of most members, of equally frequent ones the newest. At least one must be reported."""
        running = self.values(VERSION)
        return max(running, key=lambda value: (len(running[value]), build(str(json.loads(value.value))) or _OLDEST))

    @property
    def first_engine_groups(self) -> Mapping[str, tuple[KVCacheGroup, ...]]:
        """Return by replica the KV cache groups of its first engine; replicas without any are left out."""
        return {
            member.id: tuple(group for group in member.kv_cache_groups if group.dp_rank == first)
            for member in self.members
            if (first := min((group.dp_rank for group in member.kv_cache_groups), default=None)) is not None
        }

    def evidence(
        self, paths: Iterable[str], replicas: Collection[str] | None = None, reference: Collection[str] = ()
    ) -> tuple[Evidence, ...]:
        """Return what these replicas, or all, report of settings, one row a value; then what the reference does."""
        odd = frozenset(self._ids if replicas is None else replicas)
        return tuple(
            Evidence(path, *value, part, is_reference=is_reference)
            for path in paths
            for wanted, is_reference in ((odd, False), (frozenset(reference), True))
            for value, ids in self.values(path).items()
            if (part := tuple(each for each in ids if each in wanted))
        )

    def values(self, path: str, meaning: MeaningOf | None = None) -> Holders:
        """Return every reported value of a setting with its replicas; the most frequent first, then by value.

        `meaning` replaces a value by its equivalent, such as `auto` by what it resolves to.
        """
        if meaning is None and path != LOOKAHEAD:
            values = self.pool.table.values
            codes = codes_of(self.pool.table, path).tolist()
            return self._holders([values[code] if code >= NULL else None for code in codes])
        found = []
        for key in self.pool.documents:
            settings = self.documents[key].settings
            value = lookup_value(settings, path)
            found.append(meaning(value, settings) if meaning is not None and value is not None else value)
        return self._holders(found)

    def settings(self, replica: Replica) -> Mapping[str, Setting]:
        return self.documents[str(replica.document)].settings

    def of_documents(self, read: Callable[[Mapping[str, Setting]], T]) -> dict[str, T]:
        """Return per member what is read of its document; each document is read once."""
        found: dict[str, T] = {}
        for key, ids in self._by_document.items():
            found |= dict.fromkeys(ids, read(self.documents[key].settings))
        return found

    @property
    def connectors(self) -> Mapping[str, tuple[Connector, ...]]:
        return self._once(self.of_documents, connectors)

    def conclude(self, conclude: Callable[[Mapping[str, Setting]], SettingValue | None]) -> Holders:
        """Group members by what is concluded from their settings; None is left out."""
        return self._holders([conclude(self.documents[key].settings) for key in self.pool.documents])

    def _holders(self, values: Sequence[SettingValue | None]) -> Holders:
        """Return the members with each value of a document; `values` are by row."""
        rows: dict[SettingValue, list[int]] = defaultdict(list)
        for row, value in enumerate(values):
            if value is not None:
                rows[value].append(row)
        if len(rows) == 1 and None not in values:
            return dict.fromkeys(rows, self._ids) if self._ids else {}
        found = {}
        for value, own in rows.items():
            has_value = np.zeros(len(values), dtype=bool)
            has_value[own] = True
            if ids := tuple(compress(self._ids, has_value[self._rows].tolist())):
                found[value] = ids
        return {value: found[value] for value in by_frequency(found)}

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per member the whole value of an identity setting, or of a compared one, as native JSON.

        Members that report nothing are left out.
        """
        return self._once(self._read_identity, path)

    def _once(self, read: Callable[[K], T], what: K) -> T:
        """Return what a method returns: `needs` of rules and the rules read the same."""
        key = read.__name__, what
        if key not in self.reads:
            self.reads[key] = read(what)
        return cast(T, self.reads[key])

    def _read_identity(self, path: str) -> Mapping[str, Any]:
        # Digests cover the comparable part only: a member with the settings of another replica reports no whole value.
        copies = self.copies if is_partly_identity(path) else ()
        found: dict[str, Any] = {}
        if path not in self._identity_paths:
            for value, ids in self.values(path).items():
                found |= dict.fromkeys(ids, json.loads(value.value))
            return {replica: value for replica, value in found.items() if replica not in copies} if copies else found
        compared = {key: lookup_setting(self.documents[key].settings, path) for key in self._by_document}
        parsed: dict[str, Any] = {}  # most members report one value
        for member in self.members:
            setting = member.identity.get(path) or compared[str(member.document)]
            if setting is not None and is_comparable(setting.state) and member.id not in copies:
                if setting.value not in parsed:
                    parsed[setting.value] = json.loads(setting.value)
                found[member.id] = parsed[setting.value]
        return found

    def engines(self) -> Sequence[tuple[Replica, Engine]]:
        """Return the engines of the members with their replicas, each process once."""
        counted = (member for member in self.members if not member.is_second_address)
        return [(member, engine) for member in counted for engine in member.engines]

    def fingerprints(self, kind: Literal["engine", "canonical"] = "canonical") -> Hashes:
        """Return per member the digests of its engines' block hashes, independent of block length; one if they agree.

        Members of which an engine reports none are left out. With `engine`: the digests at their block length.
        """
        known: dict[int, Digests | None] = {}  # members with equal engines share them
        found: dict[str, Digests] = {}
        for member in self.members:
            key = id(member.engines)
            if key not in known:
                known[key] = digests(member.engines, kind)
            if (own := known[key]) is not None:
                found[member.id] = own
        return found

    def reporting(self, need: str) -> int:
        """Count the members that report a need: a setting's path, one of PARTS, or FINGERPRINT."""
        return len(self._once(self._read_reporters, need))

    def missing(self, needs: Sequence[str]) -> int:
        """Count the replicas, unreachable ones included, that do not report one of these needs though they could."""
        silent: set[str] = set()
        for need in needs:
            reporters = self._once(self._read_reporters, need)
            if len(reporters) < len(self.all_replicas):
                for version, ids in self._by_version.items():
                    if not is_unsupported(version, need):
                        silent |= ids.difference(reporters)
        return len(silent)

    def _read_reporters(self, need: str) -> Collection[str]:
        if need == FINGERPRINT:
            return self.fingerprints().keys()
        if need in PARTS:
            return frozenset(map(_ID, compress(self.members, map(attrgetter(need), self.members))))
        groups = list(self.values(need).values())
        if need not in EVENT_PARTS and sum(map(len, groups)) == len(self._ids):  # the usual case
            return self._ids
        found = frozenset().union(*groups) or frozenset(self.identity(need))
        return found - self.copies if need in EVENT_PARTS else found


@dataclass(frozen=True)
class FleetSubject:
    """All pools, and the replicas without a pool because they were never read.

    `pools` is empty: a finding belongs to the pools of its replicas.
    """

    subjects: tuple[PoolSubject, ...]
    all_replicas: tuple[Replica, ...]
    name: str = "fleet"
    pools: tuple[str, ...] = ()
    reads: dict[tuple[str, Hashable], Any] = field(default_factory=dict)
    routers: tuple[RouterConfig, ...] = ()

    @property
    def inputs(self) -> tuple[object, ...]:
        """Return what rules use of the fleet besides its replicas."""
        return (self.routers, *(each.inputs for each in self.subjects))

    @property
    def unread(self) -> int:
        return len(self.all_replicas) - sum(len(each.members) for each in self.subjects)

    @cached_property
    def by_id(self) -> Mapping[str, Replica]:
        return {each.id: each for each in self.all_replicas}

    @cached_property
    def contexts(self) -> frozenset[ImpactContext]:
        return frozenset({ImpactContext.MODEL}).union(*(each.contexts for each in self.subjects))

    @cached_property
    def known_contexts(self) -> frozenset[ImpactContext]:
        return frozenset({ImpactContext.MODEL}).union(*(each.known_contexts for each in self.subjects))

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per replica of any pool the whole value of an identity setting, as native JSON."""
        return {replica: value for each in self.subjects for replica, value in each.identity(path).items()}

    def reporting(self, need: str) -> int:
        return sum(each.reporting(need) for each in self.subjects)

    def missing(self, needs: Sequence[str]) -> int:
        """Count the replicas that do not report one of these needs though they could; those without a pool included."""
        without_pool = sum(each.pool is None for each in self.all_replicas)
        return without_pool + sum(each.missing(needs) for each in self.subjects)


class PairSubject(FleetSubject):
    """The prefill and the decode pool of one model."""

    def __init__(self, prefill: PoolSubject, decode: PoolSubject) -> None:
        pools = (prefill.name, decode.name)
        super().__init__((prefill, decode), prefill.all_replicas + decode.all_replicas, " + ".join(pools), pools)

    @property
    def prefill(self) -> PoolSubject:
        return self.subjects[0]

    @property
    def decode(self) -> PoolSubject:
        return self.subjects[1]

    def is_ignored(self, path: str) -> bool:
        return self.prefill.is_ignored(path)

    def reporting(self, need: str) -> int:
        """Count the members that report a need; 0 unless both sides have one."""
        numbers = [side.reporting(need) for side in self.subjects]
        return sum(numbers) if all(numbers) else 0


Subject = PoolSubject | FleetSubject
