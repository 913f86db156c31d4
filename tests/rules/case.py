"""Cases of rules in YAML: a small fleet and the expected outcome of one rule. cases/README.md explains the fields."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from dashboard.analysis.symptoms import SymptomWatch
from dashboard.config.baselines import read_baseline
from dashboard.fleet import (
    Baseline,
    Basis,
    Contradiction,
    Device,
    Document,
    Engine,
    EngineFingerprint,
    FactName,
    Failure,
    FailureKind,
    KVCacheGroup,
    Replica,
    ReplicaState,
    Role,
    RouterConfig,
    RouterFact,
    RouterKind,
    Setting,
    Source,
    State,
)
from dashboard.fleet.history import NOTHING_RECENT, Alternation, RecentEvents, Recurrence, SeenRollout, UsualTraffic
from dashboard.fleet.traffic import Traffic
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy, Store, domain_of
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.rules.policy import FleetData, Policy, RuleChange
from dashboard.rules.registry import Rule
from dashboard.rules.subject import FleetSubject, PairSubject, PoolSubject
from tests import builders
from vllm_fleet_provider.shared.spelling import canonical_text

FOLDER = Path(__file__).parent / "cases"
VERSION = "0.32.0"  # of replicas without a version
# The outcome that a case expects is the first of these.
ORDER = (
    OutcomeKind.FAILED,
    OutcomeKind.ERROR,
    OutcomeKind.PASSED,
    OutcomeKind.SKIPPED,
    OutcomeKind.NOT_APPLICABLE,
)


@dataclass(frozen=True)
class Case:
    """One case of one rule."""

    rule: str
    name: str
    fleet: list[dict[str, Any]]
    expect: OutcomeKind
    findings: list[dict[str, Any]] = field(default_factory=list)
    domain: dict[str, dict[str, Any]] = field(default_factory=dict)
    routers: list[dict[str, Any]] = field(default_factory=list)
    recent: dict[str, Any] | None = None
    traffic: dict[str, Any] = field(default_factory=dict)
    window: float = 900
    usual: dict[str, Any] | None = None
    also: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    ignore: list[str] = field(default_factory=list)
    baseline: str = ""
    reason: str = ""
    unknown: int | None = None

    def inspected(self, rule: Rule) -> Inspection:
        """Inspect the case's fleet by one rule; the others only give it their findings."""
        found = self.inspected_as(*built(self.fleet), [rule, *(BY_ID[each] for each in self.also)])
        return replace(
            found,
            findings=tuple(each for each in found.findings if each.rule == rule.id),
            outcomes=tuple(each for each in found.outcomes if each.rule == rule.id),
        )

    def inspected_as(
        self,
        replicas: Sequence[Replica],
        documents: Iterable[Document],
        rules: Sequence[Rule] = ALL_RULES,
        before: Inspection | None = None,
    ) -> Inspection:
        """Inspect a fleet with the domain, routers and other options of the case."""
        policy = Policy(
            pools={pool: declared(options) for pool, options in self.domain.items()},
            rules={self.rule: RuleChange(parameters=self.parameters)},
            baselines=tuple(_baselines(self.baseline)),
        )
        routers = tuple(_routers(self.routers))
        traffic = _traffic(self.traffic, replicas)
        return inspected(
            replicas,
            documents,
            rules,
            policy,
            tuple(self.ignore),
            routers,
            _recent(self.recent),
            traffic,
            self.window if traffic else 0,
            _usual(self.usual),
            before,
        )


def inspected(
    replicas: Sequence[Replica],
    documents: Iterable[Document],
    rules: Sequence[Rule] = ALL_RULES,
    policy: Policy | None = None,
    ignore: tuple[str, ...] = (),
    routers: tuple[RouterConfig, ...] = (),
    recent: RecentEvents = NOTHING_RECENT,
    traffic: Mapping[str, Mapping[int, Traffic]] = MappingProxyType({}),
    window: float = 0,
    usual: UsualTraffic | None = None,
    before: Inspection | None = None,
) -> Inspection:
    """Inspect these replicas, by all rules or some; with what their traffic shows at once."""
    known = {each.id: each for each in documents}
    fleet = FleetData(
        replicas=tuple(replicas),
        documents=known,
        pools=builders.compared(replicas, known, ignore),
        ignored=ignore,
        policy=policy or Policy(),
        routers=routers,
        recent=recent,
        traffic=traffic,
        traffic_window=window,
        usual={"chat": usual} if usual else {},
    )
    symptoms = SymptomWatch().add_poll(fleet, builders.NOW)
    if symptoms:
        fleet = replace(fleet, recent=replace(recent, symptoms=symptoms))
    return inspect_fleet(rules, fleet, builders.NOW, before=before.evaluated if before else None)


def cases() -> Iterator[Case]:
    """Read all cases, by rule."""
    for rule in sorted({rule_of(file) for file in FOLDER.glob("*.yaml")}):
        yield from cases_of(rule)


def rule_of(file: Path) -> str:
    """Return the rule of a file of cases: RT-06 of RT-06.fingerprints.yaml."""
    return file.stem.partition(".")[0]


@cache  # several modules read them at collection
def cases_of(rule: str) -> tuple[Case, ...]:
    """Read the cases of one rule; none without a file."""
    files = [file for file in sorted(FOLDER.glob("*.yaml")) if rule_of(file) == rule]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    entries = [each for file in files for each in yaml.load(file.read_text(), loader)]  # noqa: S506  both are safe
    return tuple(Case(**{**each, "rule": rule, "expect": OutcomeKind(each["expect"])}) for each in entries)


def main_outcome(inspection: Inspection) -> Outcome:
    """Return the outcome that a case expects: a failure if there is one."""
    return min(inspection.outcomes, key=lambda each: ORDER.index(each.kind))


def declared(options: Mapping[str, Any]) -> PoolDeclaration:
    """Read the options of a pool, as in fleet.yaml."""
    expects = dict(options.get("expects", {}))
    if "seed_policy" in expects:
        expects["seed_policy"] = SeedPolicy(expects["seed_policy"])
    return PoolDeclaration(
        router=Router(options["router"]) if "router" in options else None,
        kv_store=Store(options["kv_store"]) if "kv_store" in options else None,
        disaggregated=options.get("disaggregated"),
        expects=Expectations(**expects),
    )


def _routers(entries: Iterable[Mapping[str, Any]]) -> Iterator[RouterConfig]:
    """Read the routers of a case: the facts of each are at its name."""
    for number, entry in enumerate(entries, 1):
        name = entry.get("name", f"http://router-{number}:9090")
        facts = (
            RouterFact(FactName(key), canonical_text(value), name, builders.NOW)
            for key, value in entry["facts"].items()
        )
        yield RouterConfig(name, RouterKind(entry.get("kind", "llm-d")), tuple(entry.get("pools", ["*"])), tuple(facts))


def _recent(fields: Mapping[str, Any] | None) -> RecentEvents:
    """Read what the last polls of a case saw: numbers of starts, values by path, rollouts in hours before."""
    if fields is None:
        return NOTHING_RECENT

    def times(number: int) -> tuple[datetime, ...]:
        return tuple(builders.NOW - timedelta(minutes=10 * each) for each in reversed(range(number)))

    return RecentEvents(
        since=builders.NOW - timedelta(days=1),
        starts={builders.replica(name).id: times(number) for name, number in fields.get("starts", {}).items()},
        alternations={
            builders.replica(name).id: tuple(
                Alternation(path, returns, tuple(map(canonical_text, values)))
                for path, (returns, values) in found.items()
            )
            for name, found in fields.get("alternations", {}).items()
        },
        rollouts={
            pool: SeenRollout(old, new, *(builders.NOW - timedelta(hours=each) for each in hours))
            for pool, (old, new, *hours) in fields.get("rollouts", {}).items()
        },
        recurrences={
            rule: Recurrence(rule, ("chat",), {each and builders.replica(each).id: times(number) for each in replicas})
            for rule, (number, replicas) in fields.get("recurrences", {}).items()
        },
    )


def _traffic(entries: Mapping[str, Any], replicas: Iterable[Replica]) -> Mapping[str, Mapping[int, Traffic]]:
    """Read the traffic of the replicas that a glob matches, the last one; of several engines a list."""
    found = {}
    for replica in replicas:
        own = [each for glob, each in entries.items() if fnmatchcase(replica.name, glob)]
        if own and own[-1] is not None:
            engines = own[-1] if isinstance(own[-1], list) else own[-1:]
            found[replica.id] = {rank: Traffic(**{"seconds": 900, **each}) for rank, each in enumerate(engines)}
    return found


def _usual(fields: Mapping[str, Any] | None) -> UsualTraffic | None:
    """Read the traffic of the last day, with the settings that got most of it."""
    if fields is None:
        return None
    traffic = dict(fields)
    settings = traffic.pop("settings", None)
    return UsualTraffic(Traffic(**traffic), settings and builders.document(settings, base={}))


def _baselines(text: str) -> Iterator[Baseline]:
    """Read the baseline of a case; empty: none."""
    if text:
        baseline, mistakes = read_baseline(text.encode(), "baselines/chat.yaml")
        assert baseline, mistakes
        yield baseline


def built(fleet: Iterable[dict[str, Any]]) -> tuple[list[Replica], list[Document]]:
    """Build the replicas of a case, numbered per pool: chat-1, chat-2."""
    replicas: list[Replica] = []
    documents: list[Document] = []
    numbers: Counter[str | None] = Counter()
    for entry in fleet:
        fields = dict(entry)
        pool = fields.pop("pool", "chat")
        for _ in range(fields.pop("replicas", 1)):
            numbers[pool] += 1
            replica, document = _replica(f"{str(pool).replace('/', '-')}-{numbers[pool]}", pool, fields)
            replicas.append(replica)
            documents += [document] if document else []
    return replicas, documents


def pool(
    *entries: dict[str, Any], ignore: Iterable[str] = (), declared: PoolDeclaration | None = None, name: str = "chat"
) -> PoolSubject:
    """A pool of replicas `chat-1`, `chat-2` and so on."""
    replicas, documents = built([{**entry, "pool": name} for entry in entries])
    fleet = builders.fleet(replicas, documents, ignore=tuple(ignore))
    domain = domain_of(
        declared or PoolDeclaration(), [each.role for each in replicas], [each.settings for each in documents]
    )
    return PoolSubject(fleet.pools[0], domain, tuple(replicas), fleet.documents, tuple(ignore))


def pair(
    prefill: Iterable[dict[str, Any]], decode: Iterable[dict[str, Any]], ignore: Iterable[str] = ()
) -> PairSubject:
    """The pools `chat/prefill` and `chat/decode`."""
    sides = (
        pool(*({"role": role, **entry} for entry in entries), ignore=ignore, name=f"chat/{role}")
        for role, entries in (("prefill", prefill), ("decode", decode))
    )
    return PairSubject(*sides)


def whole(*subjects: PoolSubject) -> FleetSubject:
    """A fleet of some pools."""
    return FleetSubject(subjects, tuple(replica for each in subjects for replica in each.all_replicas))


def _replica(name: str, pool: str | None, fields: Mapping[str, Any]) -> tuple[Replica, Document | None]:
    more: dict[str, Any] = {}
    for key, value in fields.items():
        if key != "settings":
            more |= _READERS[key](value)
    if more.get("state") is ReplicaState.DOWN and "settings" not in fields:
        del more["state"]
        failure = more.pop("failure", None)
        reason = {"kind": failure.kind, "detail": failure.detail} if failure else {}
        return builders.down(name, pool=pool, **reason, **more), None
    settings = {path: _setting(value) for path, value in {"version": VERSION, **fields.get("settings", {})}.items()}
    document = builders.document(settings, base={})
    return builders.replica(name, pool=pool, document=document, **more), document


def _setting(value: Any) -> Setting:
    """Read a value; `{state: redacted}` is a state without one."""
    if isinstance(value, dict) and value.keys() == {"state"}:
        return builders.setting(None, State(value["state"]))
    return builders.setting(value)


def _engine(fields: Mapping[str, Any]) -> Engine:
    given = dict(fields)
    basis = Basis(given.pop("basis", Basis.REPORTED))
    return builders.engine(given.pop("tokens", 1_200_000), basis=basis, **given)


def _hashes(digests: list[Any]) -> dict[str, Any]:
    """Read engines by digest: a text, `{canonical, engine}`, or null where prefix caching is off."""
    fingerprints = []
    for each in digests:
        digest = {"canonical": each, "engine": each} if isinstance(each, str) else each
        fingerprints.append(EngineFingerprint(**(digest or {"reason": "Prefix caching is off."})))
    return {"engines": builders.hashing(*fingerprints)}


def _group(fields: Mapping[str, Any]) -> KVCacheGroup:
    usual = {"dp_rank": 0, "group_id": 0, "spec_type": "FullAttentionSpec", "block_size": 16, "layers": 32}
    return KVCacheGroup(**{**usual, "page_size_bytes": 65536, **fields})


def _contradiction(fields: Mapping[str, Any]) -> Contradiction:
    sources = fields.get("sources", (Source.SERVER_INFO, Source.METRICS))
    kept, other = (
        builders.setting(fields[side], source=Source(source))
        for side, source in zip(("kept", "other"), sources, strict=True)
    )
    return Contradiction(fields["path"], kept, other)


def _device(values: dict[str, Any]) -> Device:
    memory = {"memory": builders.memory(**values["memory"])} if "memory" in values else {}
    return Device(**{"dp_rank": 0, "rank": 0, **values, **memory})


_READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "role": lambda value: {"role": Role(value)},
    "labels": lambda value: {"labels": value},
    "identity": lambda value: {"identity": {path: _setting(each) for path, each in value.items()}},
    "engines": lambda value: {"engines": tuple(map(_engine, value))},
    "hashes": _hashes,
    "devices": lambda value: {"devices": tuple(map(_device, value))},
    "groups": lambda value: {"kv_cache_groups": tuple(map(_group, value))},
    "started_hours_ago": lambda value: {"started_at": None if value is None else builders.NOW - timedelta(hours=value)},
    "state": lambda value: {"state": ReplicaState(value)},
    "fresh": lambda value: {"fresh": value},
    "failure": lambda value: {"failure": Failure(FailureKind(value["kind"]), value["detail"])},
    "served": lambda value: {"served_model_names": tuple(value)},
    "adapters": lambda value: {"adapters": value if isinstance(value, dict) else dict.fromkeys(value)},
    "sources": lambda value: {"sources": tuple(map(Source, value))},
    "probes": lambda value: {
        "probes": tuple(builders.probe(each["path"], source=Source(each["source"])) for each in value)
    },
    "contradictions": lambda value: {"contradictions": tuple(map(_contradiction, value))},
    "same_process": lambda value: {"same_process": tuple(value)},
}
