"""What a rule evaluates: a pool, a prefill/decode pair, or the whole fleet."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar

from dashboard.compare.encoding import is_comparable, lookup_setting, lookup_value
from dashboard.compare.equality import NOT_SET, MeaningOf
from dashboard.compare.prefix import canonical_digests
from dashboard.fleet import Baseline, Document, Engine, Pool, Replica, Setting, SettingValue, State
from dashboard.fleet.recent import NOTHING_RECENT, RecentEvents
from dashboard.rules.domain import Domain, ImpactContext
from dashboard.rules.findings import Rollout
from dashboard.vllm.versions import is_unsupported
from vllm_fleet_provider.shared.identity import EVENT_PARTS, is_partly_identity
from vllm_fleet_provider.shared.spelling import canonical_text

DigestsOf = Callable[[Sequence[Engine]], frozenset[str] | None]  # of compare/prefix.py

T = TypeVar("T")
_ID = attrgetter("id")

# What a rule can need besides settings: fields of a replica that may be empty.
PARTS = ("engines", "devices", "kv_cache_groups", "started_at", "adapters", "sources")
FINGERPRINT = "replicas.fingerprint"  # the digests of the block hashes that a replica's engines computed
Holders = dict[SettingValue, tuple[str, ...]]  # value -> ids of the replicas that report it


def group_by_value(values: Mapping[str, SettingValue]) -> Holders:
    """Turn replica -> value into value -> replicas, the most frequent first, then by value."""
    holders: dict[SettingValue, list[str]] = defaultdict(list)
    for replica, value in values.items():
        holders[value].append(replica)
    return _ordered(holders)


def _ordered(holders: Mapping[SettingValue, Sequence[str]]) -> Holders:
    order = sorted(holders, key=lambda each: (-len(holders[each]), _place(each)))
    return {each: tuple(sorted(holders[each])) for each in order}


def group_by_native(values: Mapping[str, Any]) -> Holders:
    """Turn replica -> native JSON into value -> replicas."""
    return group_by_value({replica: setting_value(value) for replica, value in values.items()})


def setting_value(value: Any) -> SettingValue:
    """Return native JSON as a setting's value; None as an option that is not set."""
    return NOT_SET if value is None else SettingValue(canonical_text(value), State.REPORTED)


@dataclass(frozen=True, slots=True)
class PoolSubject:
    """One pool as rules see it.

    `members` are the replicas that are evaluated: the fresh ones, and where none is fresh, all that were ever read.
    `all_replicas` includes the others. A value that is absent, unsupported, redacted or unknown is not reported.
    `stalled` is a rollout that stands still, in place of `rollout`.
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
    members: tuple[Replica, ...] = field(init=False)
    # Caches: many rules ask for the same, and a subject exists as long as one fleet is evaluated.
    _values: dict[str, Holders] = field(init=False, default_factory=dict)
    _identities: dict[str, dict[str, Any]] = field(init=False, default_factory=dict)
    _needs: dict[str, tuple[int, frozenset[str]]] = field(init=False, default_factory=dict)
    _by_version: dict[str | None, frozenset[str]] = field(init=False, default_factory=dict)
    _by_document: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _digests: dict[DigestsOf, dict[str, frozenset[str]]] = field(init=False, default_factory=dict)
    _sorted: dict[tuple[str, ...], tuple[str, ...]] = field(init=False, default_factory=dict)
    _engines: list[tuple[Replica, Engine]] = field(init=False, default_factory=list)
    _copies: set[str] = field(init=False, default_factory=set)  # members with the settings of another replica
    # Document, identity and members of those that answer alike; with and without `_copies`.
    _alike: dict[bool, list[tuple[str, Mapping[str, Setting], list[str]]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Decide which replicas are evaluated."""
        read = [each for each in self.all_replicas if each.document is not None]
        members = tuple(each for each in read if each.fresh) or tuple(read)
        object.__setattr__(self, "members", members)
        documents: dict[str, list[str]] = defaultdict(list)
        for member in members:
            documents[str(member.document)].append(member.id)
        self._by_document.update({key: tuple(ids) for key, ids in documents.items()})
        self._copies.update(each.id for each in members if each.same_digest_as)
        versions: dict[str | None, set[str]] = defaultdict(set)
        for key, ids in documents.items():
            versions[self.documents[key].version].update(ids)
        if len(members) < len(self.all_replicas):
            known = {each.id for each in members}
            for replica in self.all_replicas:
                if replica.id not in known:
                    versions[replica.version].add(replica.id)
        self._by_version.update({version: frozenset(ids) for version, ids in versions.items()})

    @property
    def inputs(self) -> tuple[object, ...]:
        """Return what rules use of the pool besides its replicas. Equal ids of documents have equal settings."""
        return self.pool, self.domain, self.ignore, self.rollout, self.baseline, self.recent, self.stalled

    @property
    def name(self) -> str:
        """Return the pool's name."""
        return self.pool.name

    @property
    def pools(self) -> tuple[str, ...]:
        """Return the names of the pools that it covers."""
        return (self.pool.name,)

    @property
    def unread(self) -> int:
        """Return how many replicas are not evaluated."""
        return len(self.all_replicas) - len(self.members)

    @property
    def contexts(self) -> frozenset[ImpactContext]:
        return self.domain.contexts

    @property
    def known_contexts(self) -> frozenset[ImpactContext]:
        """Return those that are not assumed."""
        return self.domain.known_contexts

    @property
    def served_model_names(self) -> set[str]:
        """Return the model names that any member serves."""
        return {name for each in self.members for name in each.served_model_names}

    def is_ignored(self, path: str) -> bool:
        """Return whether fleet.yaml excludes a path from comparison."""
        return any(fnmatchcase(path, glob) for glob in self.ignore)

    def only(self, replicas: Collection[str]) -> "PoolSubject":
        """Return the pool with these members alone."""
        wanted = frozenset(replicas)
        kept = tuple(member for member in self.members if member.id in wanted)
        return self if len(kept) == len(self.members) else replace(self, all_replicas=kept)

    def without(self, replicas: Collection[str]) -> "PoolSubject":
        """Return the pool without these members."""
        return self.only({member.id for member in self.members}.difference(replicas)) if replicas else self

    def values(self, path: str, meaning: MeaningOf | None = None) -> Holders:
        """Return every reported value of a setting with its replicas; the most frequent first, then by value.

        `meaning` replaces a value by its equivalent, such as `auto` by what it resolves to.
        """
        if meaning is not None:
            return self._grouped(path, meaning)
        if path not in self._values:
            self._values[path] = self._grouped(path, None)
        return self._values[path]

    def value(self, replica: str, path: str) -> Any:
        """Return what one replica reports of a setting as native JSON; None also where it reports nothing."""
        values = (value for value, ids in self.values(path).items() if replica in ids)
        return next((json.loads(each.value) for each in values), None)

    def settings(self, replica: Replica) -> Mapping[str, Setting]:
        """Return all comparable settings of a member."""
        return self.documents[str(replica.document)].settings

    def of_documents(self, read: Callable[[Mapping[str, Setting]], T]) -> dict[str, T]:
        """Return per member what is read of its document; each document is read once."""
        found: dict[str, T] = {}
        for key, ids in self._by_document.items():
            found |= dict.fromkeys(ids, read(self.documents[key].settings))
        return found

    def conclude(self, conclude: Callable[[Mapping[str, Setting]], SettingValue | None]) -> Holders:
        """Group members by what is concluded from their settings; None is left out."""
        concluded: dict[SettingValue, list[str]] = defaultdict(list)
        for key in self._by_document:
            if (value := conclude(self.documents[key].settings)) is not None:
                concluded[value].append(key)
        holders = {value: self._with(tuple(keys)) for value, keys in concluded.items()}
        order = holders if len(holders) < 2 else sorted(holders, key=lambda each: (-len(holders[each]), _place(each)))  # noqa: PLR2004
        return {each: holders[each] for each in order}

    def _with(self, documents: tuple[str, ...]) -> tuple[str, ...]:
        """Return the members with one of some documents, sorted. Most settings have the same documents."""
        if documents not in self._sorted:
            self._sorted[documents] = tuple(sorted(each for key in documents for each in self._by_document[key]))
        return self._sorted[documents]

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per member the whole value of an identity setting, or of a compared one, as native JSON.

        Members that report nothing are left out.
        """
        if path not in self._identities:
            found: dict[str, Any] = {}
            parsed: dict[str, Any] = {}  # most members report one value
            for setting, ids in self._whole(path):
                if setting is not None and is_comparable(setting.state):
                    if setting.value not in parsed:
                        parsed[setting.value] = json.loads(setting.value)
                    found |= dict.fromkeys(ids, parsed[setting.value])
            self._identities[path] = found
        return self._identities[path]

    def _whole(self, path: str) -> Iterator[tuple[Setting | None, Iterable[str]]]:
        """Yield what members report.

        Of settings that are identity in part, members with the settings of another replica report nothing.
        """
        compared = {key: lookup_setting(self.documents[key].settings, path) for key in self._by_document}
        with_copies = not is_partly_identity(path) or not self._copies  # digests cover their comparable part
        alike = self._members_alike(with_copies=with_copies)
        if with_copies and not any(path in identity for _, identity, _ in alike):
            yield from ((compared[key], ids) for key, ids in self._by_document.items())
        else:
            yield from ((identity.get(path) or compared[key], ids) for key, identity, ids in alike)

    def _members_alike(self, *, with_copies: bool) -> Sequence[tuple[str, Mapping[str, Setting], list[str]]]:
        """Return document, identity and ids of the members that share both objects: those that answer alike do."""
        if with_copies not in self._alike:
            found: dict[tuple[str, int], tuple[str, Mapping[str, Setting], list[str]]] = {}
            for member in self.members:
                if with_copies or member.id not in self._copies:
                    key, identity = str(member.document), member.identity
                    found.setdefault((key, id(identity)), (key, identity, []))[2].append(member.id)
            self._alike[with_copies] = list(found.values())
        return self._alike[with_copies]

    def engines(self) -> Sequence[tuple[Replica, Engine]]:
        """Return the engines of the members with their replicas, each process once."""
        if not self._engines:
            self._engines.extend(
                (member, engine) for member in self.members if not member.is_second_address for engine in member.engines
            )
        return self._engines

    def fingerprints(self, read: DigestsOf = canonical_digests) -> Mapping[str, frozenset[str]]:
        """Return per member the digests of its engines' block hashes, independent of block length; one if they agree.

        Members of which an engine reports none are left out. With `read=digests`: the digests at their block length.
        """
        if read not in self._digests:
            alike: dict[int, tuple[Sequence[Engine], list[str]]] = {}
            for member in self.members:
                alike.setdefault(id(member.engines), (member.engines, []))[1].append(member.id)
            found: dict[str, frozenset[str]] = {}
            for engines, ids in alike.values():
                if (digests := read(engines)) is not None:
                    found |= dict.fromkeys(ids, digests)
            self._digests[read] = found
        return self._digests[read]

    def reporting(self, need: str) -> int:
        """Count the members that report a need: a setting's path, one of PARTS, or FINGERPRINT."""
        return self._reporters_and_silent(need)[0]

    def missing(self, needs: Sequence[str]) -> int:
        """Count the replicas, unreachable ones included, that do not report one of these needs though they could."""
        return len(frozenset().union(*(self._reporters_and_silent(need)[1] for need in needs)))

    def _reporters_and_silent(self, need: str) -> tuple[int, frozenset[str]]:
        """Return how many members report a need, and which replicas do not though their version has it."""
        if need not in self._needs:
            if self._is_reported_by_all(need):
                self._needs[need] = len(self.all_replicas), frozenset()
                return self._needs[need]
            reporters = self._reporters(need)
            versions = [ids for version, ids in self._by_version.items() if not is_unsupported(version, need)]
            self._needs[need] = len(reporters), frozenset().union(*versions) - reporters
        return self._needs[need]

    def _is_reported_by_all(self, need: str) -> bool:
        """Return whether documents show that every replica reports a setting: the usual case, and a cheap one."""
        return need not in EVENT_PARTS and sum(map(len, self.values(need).values())) == len(self.all_replicas)

    def _reporters(self, need: str) -> frozenset[str]:
        if need == FINGERPRINT:
            return frozenset(self.fingerprints())
        if need in PARTS:
            return frozenset(map(_ID, compress(self.members, map(attrgetter(need), self.members))))
        found = frozenset().union(*self.values(need).values()) or frozenset(self.identity(need))
        return found - self._copies if need in EVENT_PARTS else found

    def _grouped(self, path: str, meaning: MeaningOf | None) -> Holders:
        def read(settings: Mapping[str, Setting]) -> SettingValue | None:
            value = lookup_value(settings, path)
            return meaning(value, settings) if meaning is not None and value is not None else value

        return self.conclude(read)


@dataclass(frozen=True, slots=True)
class FleetSubject:
    """All pools, and the replicas without a pool because they were never read.

    `pools` is empty: a finding belongs to the pools of its replicas.
    """

    subjects: tuple[PoolSubject, ...]
    all_replicas: tuple[Replica, ...]
    name: str = "fleet"
    pools: tuple[str, ...] = ()
    _without_pool: int = field(init=False)
    _identities: dict[str, dict[str, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Count the replicas without a pool: many rules ask."""
        object.__setattr__(self, "_without_pool", sum(each.pool is None for each in self.all_replicas))

    @property
    def inputs(self) -> tuple[object, ...]:
        """Return what rules use of the pools besides their replicas."""
        return tuple(each.inputs for each in self.subjects)

    @property
    def unread(self) -> int:
        """Return how many replicas are not evaluated."""
        return len(self.all_replicas) - sum(len(each.members) for each in self.subjects)

    @property
    def contexts(self) -> frozenset[ImpactContext]:
        """Return the impact contexts of any pool."""
        return frozenset({ImpactContext.MODEL}).union(*(each.contexts for each in self.subjects))

    @property
    def known_contexts(self) -> frozenset[ImpactContext]:
        """Return those that are known of any pool."""
        return frozenset({ImpactContext.MODEL}).union(*(each.known_contexts for each in self.subjects))

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per replica of any pool the whole value of an identity setting, as native JSON."""
        if path not in self._identities:
            found = self._identities[path] = {}
            for each in self.subjects:
                found |= each.identity(path)
        return self._identities[path]

    def reporting(self, need: str) -> int:
        """Count the replicas that report a need."""
        return sum(each.reporting(need) for each in self.subjects)

    def missing(self, needs: Sequence[str]) -> int:
        """Count the replicas that do not report one of these needs though they could; those without a pool included."""
        return self._without_pool + sum(each.missing(needs) for each in self.subjects)


class PairSubject(FleetSubject):
    """The prefill and the decode pool of one model."""

    def __init__(self, prefill: PoolSubject, decode: PoolSubject) -> None:
        """Name it by both pools."""
        pools = (prefill.name, decode.name)
        super().__init__((prefill, decode), prefill.all_replicas + decode.all_replicas, " + ".join(pools), pools)

    @property
    def prefill(self) -> PoolSubject:
        return self.subjects[0]

    @property
    def decode(self) -> PoolSubject:
        return self.subjects[1]

    @property
    def sides(self) -> tuple[PoolSubject, ...]:
        """Return both pools: prefill, decode."""
        return self.subjects

    def is_ignored(self, path: str) -> bool:
        """Return whether fleet.yaml excludes a path from comparison."""
        return self.prefill.is_ignored(path)

    def reporting(self, need: str) -> int:
        """Count the members that report a need; 0 unless both sides have one."""
        numbers = [side.reporting(need) for side in self.sides]
        return sum(numbers) if all(numbers) else 0


Subject = PoolSubject | FleetSubject


def _place(value: SettingValue) -> tuple[bool, float, SettingValue]:
    """Return the key that sorts numbers by size, before all other values."""
    try:
        number = float(value.value)
    except ValueError:
        return True, 0.0, value
    return False, number, value
