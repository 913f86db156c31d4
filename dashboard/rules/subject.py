"""What a rule sees: the replicas of a pool and what they tell, a prefill/decode pair, or the whole fleet."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.compare.prefix import canonical_digests
from dashboard.fleet import Baseline, Document, Engine, Pool, Replica, ReplicaState, Setting, SettingValue
from dashboard.rules.domain import Domain, ImpactContext
from dashboard.rules.findings import Rollout
from dashboard.vllm.versions import is_unsupported

# What a value means for a comparison, given the rest of what the same document tells.
Meaning = Callable[[SettingValue, Mapping[str, Setting]], SettingValue]
Digests = Callable[[Sequence[Engine]], frozenset[str] | None]  # of compare/prefix.py

T = TypeVar("T")

# What can be needed beside settings: parts of a replica that may be empty.
PARTS = ("engines", "devices", "kv_cache_groups", "started_at", "adapters", "sources")
FINGERPRINT = "replicas.fingerprint"  # and what a replica's engines computed of their block hashes
Holders = dict[SettingValue, tuple[str, ...]]  # value -> ids of the replicas that tell it, in the pool's order


class _Tellers(NamedTuple):
    """Who tells a need: documents where that decides it, else replicas; and how many replicas that are."""

    need: str
    keys: frozenset[str]
    number: int
    by_document: bool

    def is_owed(self, version: str | None) -> bool:
        """Tell whether a replica of this version may have it."""
        return not is_unsupported(version, self.need)

    def lacked(self, document: str, holders: Sequence[str]) -> Iterable[str]:
        """Return those holders of a document that do not tell it."""
        if self.by_document:
            return () if document in self.keys else holders
        return () if self.keys.issuperset(holders) else set(holders) - self.keys


@dataclass(frozen=True, slots=True)
class PoolSubject:
    """One pool as rules see it.

    `members` are the replicas that are judged: those that are fresh, and when none is, all that were ever read.
    `all_replicas` has the others too. A value that is absent, unsupported, redacted or unknown is never told.
    `baseline` is what the pool should look like, as fleet.yaml names it.
    """

    pool: Pool
    domain: Domain
    all_replicas: tuple[Replica, ...]
    documents: Mapping[str, Document]
    ignore: tuple[str, ...] = ()
    rollout: Rollout | None = None
    baseline: Baseline | None = None
    members: tuple[Replica, ...] = field(init=False)
    # What many rules ask for is derived once. A subject lives as long as one fleet is judged.
    _told: dict[str, Holders] = field(init=False, default_factory=dict)
    _identifying: set[str] = field(init=False, default_factory=set)  # paths that the identity of any member holds
    _identities: dict[str, dict[str, Any]] = field(init=False, default_factory=dict)
    _tellers: dict[str, _Tellers] = field(init=False, default_factory=dict)
    _unread: dict[str | None, int] = field(init=False, default_factory=dict)  # replicas not judged, by version
    _by_document: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _digests: dict[Digests, dict[str, frozenset[str]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Decide who is judged."""
        read = [each for each in self.all_replicas if each.document is not None]
        members = tuple(each for each in read if each.fresh) or tuple(read)
        object.__setattr__(self, "members", members)
        known = {each.id for each in members}
        self._unread.update(Counter(each.version for each in self.all_replicas if each.id not in known))
        self._identifying.update(*(each.identity for each in members))
        held: dict[str, list[str]] = defaultdict(list)
        for member in members:
            held[str(member.document)].append(member.id)
        self._by_document.update({key: tuple(ids) for key, ids in held.items()})

    @property
    def name(self) -> str:
        """Return the pool's name, by which outcomes know the subject."""
        return self.pool.name

    @property
    def pools(self) -> tuple[str, ...]:
        """Return the names of the pools that it is about."""
        return (self.pool.name,)

    @property
    def facets(self) -> frozenset[ImpactContext]:
        """Return why a difference can hurt here."""
        return self.domain.facets

    @property
    def known_facets(self) -> frozenset[ImpactContext]:
        """Return those of them that are not assumed."""
        return self.domain.known_facets

    def is_ignored(self, path: str) -> bool:
        """Tell whether fleet.yaml leaves a path out of all comparing."""
        return any(fnmatchcase(path, glob) for glob in self.ignore)

    def values(self, path: str, meaning: Meaning | None = None) -> Holders:
        """Return every value of a setting that is told, with who tells it; the most frequent first, then by value.

        `meaning` may turn a value into the one it stands for, such as `auto` into what it resolves to.
        """
        if meaning is not None:
            return self._values(path, meaning)
        if path not in self._told:
            self._told[path] = self._values(path, None)
        return self._told[path]

    def value(self, replica: str, path: str) -> Any:
        """Return what one replica tells of a setting as native JSON; None also where it tells nothing."""
        held = (told for told, ids in self.values(path).items() if replica in ids)
        return next((json.loads(told.value) for told in held), None)

    def settings(self, replica: Replica) -> Mapping[str, Setting]:
        """Return all comparable settings of a member."""
        return self.documents[str(replica.document)].settings

    def of_documents(self, read: Callable[[Mapping[str, Setting]], T]) -> dict[str, T]:
        """Return per member what is read of its document; each document is read once, however many hold it."""
        known = {key: read(self.documents[key].settings) for key in self._by_document}
        return {member.id: known[str(member.document)] for member in self.members}

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per member what it tells of a setting that identifies it, or of one that is compared, as native JSON.

        The whole value: a model's folder, an event endpoint's host. Members that tell nothing are left out.
        """
        if path not in self._identities:
            settings = self._whole(path)
            known = {key: setting for key, setting in settings if setting is not None and is_comparable(setting.state)}
            native = {text: json.loads(text) for text in {setting.value for setting in known.values()}}
            self._identities[path] = {key: native[setting.value] for key, setting in known.items()}
        return self._identities[path]

    def _whole(self, path: str) -> Iterable[tuple[str, Setting | None]]:
        """Return what each member tells; where no identity holds the path, its documents do for all who hold them."""
        compared = {key: lookup_setting(self.documents[key].settings, path) for key in self._by_document}
        if path in self._identifying:
            return ((each.id, each.identity.get(path) or compared[str(each.document)]) for each in self.members)
        told = ((key, setting) for key, setting in compared.items() if setting is not None)
        return ((each, setting) for key, setting in told for each in self._by_document[key])

    def engines(self) -> Iterator[tuple[Replica, Engine]]:
        """Yield the engines of the members, each process once, with its replica."""
        for member in self.members:
            if not member.is_second_address:
                yield from ((member, engine) for engine in member.engines)

    def fingerprints(self, read: Digests = canonical_digests) -> Mapping[str, frozenset[str]]:
        """Return per member the digests of its engines' block hashes, whatever their block length; one if they agree.

        Who does not tell those of all its engines is left out. `read` may be `digests`: those at their block length.
        """
        if read not in self._digests:
            told = ((member.id, read(member.engines)) for member in self.members)
            self._digests[read] = {replica: digests for replica, digests in told if digests is not None}
        return self._digests[read]

    def telling(self, need: str) -> int:
        """Count the members that tell a need: a path of a setting, one of PARTS, or FINGERPRINT."""
        return self._told_by(need).number

    def lacking(self, needs: Sequence[str]) -> int:
        """Count the replicas, down ones included, that do not tell one of these needs though their version may have it.

        Needs that nobody tells are left out, unless nobody tells any.
        """
        tellers = [told for need in needs if (told := self._told_by(need)).number] or [*map(self._told_by, needs)]
        silent: set[str] = set()
        for key, ids in self._by_document.items():
            for told in tellers:
                if told.is_owed(self.documents[key].version):
                    silent.update(told.lacked(key, ids))
        unread = (held for version, held in self._unread.items() if any(told.is_owed(version) for told in tellers))
        return len(silent) + sum(unread)

    def _told_by(self, need: str) -> _Tellers:
        if need not in self._tellers:
            self._tellers[need] = self._tellers_of(need)
        return self._tellers[need]

    def _tellers_of(self, need: str) -> _Tellers:
        if need in PARTS or need == FINGERPRINT:
            part = self.fingerprints() if need == FINGERPRINT else {m.id for m in self.members if getattr(m, need)}
            having = frozenset(part)
            return _Tellers(need, having, len(having), by_document=False)
        if held := self.values(need):
            keys = frozenset(key for key in self._by_document if _tells(self.documents[key], need))
            return _Tellers(need, keys, sum(map(len, held.values())), by_document=True)
        told = self.identity(need)
        return _Tellers(need, frozenset(told), len(told), by_document=not told)

    def _values(self, path: str, meaning: Meaning | None) -> Holders:
        holders: dict[SettingValue, list[str]] = defaultdict(list)
        for key, ids in self._by_document.items():
            settings = self.documents[key].settings
            setting = lookup_setting(settings, path)
            if setting is not None and is_comparable(setting.state):
                told = SettingValue(setting.value, setting.state)
                holders[meaning(told, settings) if meaning else told].extend(ids)
        order = sorted(holders, key=lambda told: (-len(holders[told]), _place(told)))
        return {told: tuple(sorted(holders[told])) for told in order}


@dataclass(frozen=True, slots=True)
class PairSubject:
    """The prefill and the decode pool of one model."""

    prefill: PoolSubject
    decode: PoolSubject

    @property
    def name(self) -> str:
        """Return both pools' names."""
        return f"{self.prefill.name} + {self.decode.name}"

    @property
    def pools(self) -> tuple[str, ...]:
        """Return the names of the pools that it is about."""
        return (self.prefill.name, self.decode.name)

    @property
    def facets(self) -> frozenset[ImpactContext]:
        """Return why a difference can hurt here."""
        return self.prefill.facets | self.decode.facets

    @property
    def known_facets(self) -> frozenset[ImpactContext]:
        """Return those that are known of either pool."""
        return self.prefill.known_facets | self.decode.known_facets

    @property
    def sides(self) -> tuple[PoolSubject, PoolSubject]:
        """Return both pools: prefill, decode."""
        return (self.prefill, self.decode)

    @property
    def all_replicas(self) -> tuple[Replica, ...]:
        """Return the replicas of both pools."""
        return self.prefill.all_replicas + self.decode.all_replicas

    def is_ignored(self, path: str) -> bool:
        """Tell whether fleet.yaml leaves a path out of all comparing."""
        return self.prefill.is_ignored(path)

    def telling(self, need: str) -> int:
        """Count the members that tell a need: none unless somebody on each side does."""
        told = [side.telling(need) for side in self.sides]
        return sum(told) if all(told) else 0

    def lacking(self, needs: Sequence[str]) -> int:
        """Count the replicas of both pools that do not tell one of these needs though they might."""
        return self.prefill.lacking(needs) + self.decode.lacking(needs)


@dataclass(frozen=True, slots=True)
class FleetSubject:
    """All pools, and the replicas that belong to none because they were never read."""

    subjects: tuple[PoolSubject, ...]
    all_replicas: tuple[Replica, ...]
    name: str = "fleet"

    @property
    def pools(self) -> tuple[str, ...]:
        """Return no name: a finding is about the pools of its replicas."""
        return ()

    @property
    def facets(self) -> frozenset[ImpactContext]:
        """Return every reason that holds in any pool."""
        return frozenset({ImpactContext.MODEL}).union(*(each.facets for each in self.subjects))

    @property
    def known_facets(self) -> frozenset[ImpactContext]:
        """Return those that are known of any pool."""
        return frozenset({ImpactContext.MODEL}).union(*(each.known_facets for each in self.subjects))

    @property
    def unread(self) -> tuple[Replica, ...]:
        """Return the replicas of which no current answer is known."""
        return tuple(each for each in self.all_replicas if each.state is ReplicaState.DOWN or not each.fresh)

    def identity(self, path: str) -> Mapping[str, Any]:
        """Return per replica of any pool what it tells of a setting that identifies it, as native JSON."""
        return {replica: value for each in self.subjects for replica, value in each.identity(path).items()}

    def telling(self, need: str) -> int:
        """Count the replicas that tell a need."""
        return sum(each.telling(need) for each in self.subjects)

    def lacking(self, needs: Sequence[str]) -> int:
        """Count the replicas that do not tell one of these needs though they might; who has no pool tells none."""
        homeless = sum(each.pool is None for each in self.all_replicas)
        return homeless + sum(each.lacking(needs) for each in self.subjects)


Subject = PoolSubject | PairSubject | FleetSubject


def _place(told: SettingValue) -> tuple[bool, float, SettingValue]:
    """Order numbers by size, and what is none after them."""
    try:
        number = float(told.value)
    except ValueError:
        return True, 0.0, told
    return False, number, told


def _tells(document: Document, path: str) -> bool:
    setting = lookup_setting(document.settings, path)
    return setting is not None and is_comparable(setting.state)
