"""What would change if replicas restarted with other settings. Nothing is ever applied."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.changes.comparison import ENGINES, RAN, finding_changes
from dashboard.analysis.whatif.after import (
    SERVED_NAMES,
    PoolRestart,
    RankForecast,
    engines_after,
    forecast_ranks,
    replica_after,
)
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Document, Engine, Replica, Setting, State
from dashboard.fleet.history import RecentEvents, SeenRollout
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.connector_options import connectors, native
from dashboard.rules.disaggregation.roles import model_names
from dashboard.rules.findings import Finding
from dashboard.rules.identity.addresses import DP_SIZE, LOCAL_SIZE
from dashboard.rules.registry import Rule
from dashboard.rules.stores.connectors import MOONCAKE
from dashboard.rules.subject import FINGERPRINT
from dashboard.vllm.replica import ENCODER_ROLE

ADAPTERS = "adapters"
# Prefixes of evidence paths: what a running engine measured or loaded is lost with its process.
MEASURED = (ENGINES, "kv_cache_groups", ADAPTERS)
# Evidence that a restart does not change.
STAYING = ("devices", "replicas.")
# Beginnings of settings that decide which pools are a pair, and that rules on the whole fleet read. Of Mooncake's store
# and of encoders they read more.
SPANNING = (
    "kv_transfer_config",
    "ec_transfer_config",
    "kv_events_config",
    "parallel_config.data_parallel",
    "env.VLLM_NIXL_SIDE_CHANNEL",
    "env.VLLM_P2P_SIDE_CHANNEL",
    "instance_id",
)
ONE_RANK = {(DP_SIZE, "1"), (LOCAL_SIZE, "1")}  # the same as nothing
ROUTE = "/"  # prefix of a route that answered: follows from settings, where these are reported


def change_of_tokens(forecasts: Mapping[str, Iterable[RankForecast]], before: Fleet) -> tuple[int, int]:
    """Return the least and the most change of the tokens of a fleet, on ranks that are known on both sides."""
    least = most = 0
    for replica, ranks in forecasts.items():
        adding = {engine.dp_rank for engine in before.by_id[replica].adding_engines}
        for rank in ranks:
            if rank.before is None or rank.least is None or rank.most is None or rank.dp_rank not in adding:
                continue
            least += rank.least - rank.before
            most += rank.most - rank.before
    return least, most


def restarted_fleet(fleet: Fleet, restarts: Iterable[PoolRestart], rules: Sequence[Rule] = ALL_RULES) -> Fleet:
    """Return the fleet after restarts in some pools, with what these rules find."""
    restarted: dict[str, Replica] = {}
    engines: dict[object, tuple[Engine, ...]] = {}  # equal ones are one object: what follows from it is found once
    known = dict(fleet.documents)
    for restart in restarts:
        ranks = forecast_ranks(restart, fleet.documents)
        known |= {each.id: each for each in restart.documents.values()}
        for each in restart.restarting:
            document, changes = restart.documents[each.id], restart.changes[each.id]
            own = ranks[each.id]
            key = (each.engines, document.id, own)
            if key not in engines:
                engines[key] = engines_after(each.engines, own, document.settings)
            restarted[each.id] = replica_after(each, document, changes, engines[key])
    if fleet.polled_at is None or not restarted:
        return fleet
    replicas = [restarted.get(each.id, each) for each in fleet.replicas]
    documents = {key: known[key] for key in sorted({each.document for each in replicas if each.document})}
    after = Fleet(
        fleet.name,
        fleet.generation,
        fleet.polled_at,
        replicas=tuple(replicas),
        documents=documents,
        ignored=fleet.ignored,
        policy=fleet.policy,
        routers=fleet.routers,
        recent=_recent(fleet, restarted.values(), replicas),
        letters=fleet.letters,
        inspection=fleet.inspection,  # what it cannot see stays
    )
    return assemble(after, fleet.polled_at, before=fleet, rules=rules)


def concerns_other_pools(fleet: Fleet, restarts: Iterable[PoolRestart]) -> bool:
    """Return whether restarts can change what is found on other pools, or on several together."""
    own: set[tuple[str, str]] = set()  # models of their pools
    for restart in restarts:
        known = {**fleet.documents, **{each.id: each for each in restart.documents.values()}}
        both = {(str(each.document), restart.documents[each.id].id) for each in restart.restarting}
        both |= {(each.document, each.document) for each in restart.staying if each.document}
        sides = [(known[then].settings, known[now].settings) for then, now in both]
        paths = {change.path for changes in restart.changes.values() for change in changes}
        if SERVED_NAMES in paths or any(each.startswith(SPANNING) for each in paths) or any(starmap(_spans, sides)):
            return True
        if any(_spanning(then) != _spanning(now) for then, now in sides):  # roles may be unknown afterwards
            own |= _models_of(fleet, {str(restart.restarting[0].pool)})
    apart = {name for name, domain in fleet.inspection.domains.items() if domain.disaggregated}
    return bool(own) and not own.isdisjoint(_models_of(fleet, apart))


def _models_of(fleet: Fleet, pools: Collection[str]) -> set[tuple[str, str]]:
    found = (
        model_names(each, map(fleet.by_id.__getitem__, each.replicas)) for each in fleet.pools if each.name in pools
    )
    return set().union(*found)


def _spanning(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    return {path: each for path, each in settings.items() if path.startswith(SPANNING)}


def _spans(then: Mapping[str, Setting], now: Mapping[str, Setting]) -> bool:
    """Return whether a value changes that rules on the whole fleet read, or a replica has what they read more of."""
    if native(then, ENCODER_ROLE) is not None or any(each.name == MOONCAKE for each in connectors(then)):
        return True
    used = [
        {(path, each.value) for path, each in _spanning(side).items() if each.state is State.REPORTED} - ONE_RANK
        for side in (then, now)
    ]
    return used[0] != used[1]


def _recent(fleet: Fleet, restarted: Iterable[Replica], after: Iterable[Replica]) -> RecentEvents:
    """Return what happened lately, with the rollouts that go on: some are seen by start times, unknown afterwards."""
    rollouts = dict(fleet.recent.rollouts)
    versions: dict[str | None, set[str | None]] = defaultdict(set)
    for replica in after:
        versions[replica.pool].add(replica.version)
    changed = {each.pool for each in restarted}
    for pool, own in fleet.inspection.rollouts.items():
        if pool not in changed:
            continue
        rollouts.pop(pool, None)
        if versions[pool] >= {own.old, own.new}:
            rollouts[pool] = SeenRollout(own.old, own.new, own.began, own.last)
    return replace(fleet.recent, rollouts=rollouts)


def known_effect(
    before: Fleet, after: Fleet, restarted: Collection[str], proposing: Collection[str]
) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """Return the findings that end with a restart, new ones, and those of which only the restart tells.

    What a finding of a replica rests on can be lost with its process; one of which only less is known stays. A finding
    on measured values that its own remedy ends does end (its id is `proposing`), although they are not known before
    the restart: its rule was evaluated on settings. One that no rule can see after the change is open. Suppressed ones
    are left out, and what traffic shows: no change predicts it.
    """
    changes = finding_changes(before, after)
    sides = {each: (before.by_id[each], after.by_id[each]) for each in restarted}
    documents = {**before.documents, **after.documents}
    new = [each.finding for each in changes.new if not each.is_suppressed and not each.finding.is_effect]
    ended: list[Finding] = []
    unknown: list[Finding] = []
    for gone in changes.no_longer_found:
        finding = gone.finding
        if gone.is_suppressed or finding.is_effect:
            continue
        same = next((each for each in new if _is_restated(finding, each)), None)
        if same is not None:
            new.remove(same)
        elif (finding.id in proposing and gone.outcome in RAN) or not _is_lost_on_any(finding, sides, documents):
            ended.append(finding)
        else:
            unknown.append(finding)
    return ended, new, unknown


def _is_restated(one: Finding, other: Finding) -> bool:
    """Return whether both are one finding of which less is known: on the same replicas or some of them."""
    rows = [{(each.path, each.value) for each in side.evidence if not each.is_reference} for side in (one, other)]
    is_same_rule = (one.rule, one.subject) == (other.rule, other.subject)
    return is_same_rule and set(other.replicas) <= set(one.replicas) and not rows[0].isdisjoint(rows[1])


def _is_lost_on_any(
    finding: Finding, sides: Mapping[str, tuple[Replica, Replica]], documents: Mapping[str, Document]
) -> bool:
    """Return whether some evidence of a finding is not known afterwards, on a restarted replica: before and after.

    Fingerprints count only if the rule needs them.
    """
    paths: dict[str, list[str]] = defaultdict(list)
    for evidence in finding.evidence:
        if evidence.path != FINGERPRINT or FINGERPRINT in BY_ID[finding.rule].needs:
            for replica in sides.keys() & evidence.replicas:
                paths[replica].append(evidence.path)
    return any(_is_lost(own, *sides[replica], documents) for replica, own in paths.items())


def _is_lost(paths: Sequence[str], before: Replica, after: Replica, documents: Mapping[str, Document]) -> bool:
    if not {each.path for each in before.contradictions}.isdisjoint(paths):
        return True
    then, now = (documents[str(each.document)].settings for each in (before, after))
    tokens = [[(each.kv_cache_size_tokens, each.basis) for each in side.engines] for side in (before, after)]
    others = [path for path in paths if not path.startswith(ROUTE)]
    if len(others) < len(paths) and all(lookup_value(then, each) == lookup_value(now, each) for each in others):
        return True  # the route still answers, unless a setting that opens it changed
    for path in others:
        if path == FINGERPRINT or path.startswith(MEASURED):
            if not path.startswith(ENGINES) or tokens[0] != tokens[1]:
                return True
        elif not path.startswith(STAYING) and path not in after.identity and lookup_value(now, path) is None:
            return True
    return False
