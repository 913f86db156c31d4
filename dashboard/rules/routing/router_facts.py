"""RT-19 to RT-22: what routers report of themselves, against fleet.yaml and against the replicas."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from dashboard.fleet import FactName, Replica, RouterFact, Setting, Source, State
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import join_texts, value
from dashboard.rules import remedy
from dashboard.rules.connector_options import connectors, native
from dashboard.rules.domain import EVENTS, OFFLOADING, Domain, tiers_of
from dashboard.rules.findings import Draft, Evidence, Remedy, Snippet
from dashboard.rules.identity.addresses import ENDPOINT
from dashboard.rules.registry import rule
from dashboard.rules.routing.events import PORT, WILDCARD
from dashboard.rules.routing.prefix_caching import SIZE
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject
from vllm_fleet_provider.shared.spelling import canonical_text

FLEET_YAML = "fleet.yaml"
# Names that are one value of a configuration: two routers of a pool, or two sources of one router, have to agree.
CONFIGURED = (
    *(FactName.ROUTING, FactName.KV_STORE, FactName.BLOCK_SIZE, FactName.OWN_KEYS),
    *(FactName.KEY_ALGORITHM, FactName.KEY_SEED, FactName.EVENT_PORT, FactName.PODS_PER_KEY),
    *(FactName.BLOCKS_PER_REPLICA, FactName.CHUNK_SIZE),
)
DECLARED = {FactName.ROUTING: "router", FactName.KV_STORE: "kv_store"}  # options of a pool
GLOBAL_SOCKET = "local-subscriber"  # llm-d: replicas connect to the router, which cannot name them
RANK = "-rank-"  # llm-d names an endpoint POD-rank-IDX (pkg/epp/datastore)


@rule("RT-19", least=1, facts=CONFIGURED)
def router_reports_other_values(pool: PoolSubject) -> Iterator[Draft]:
    """Routers report other values than fleet.yaml declares, or their sources disagree.

    What a router reports replaces what is declared, in every rule. Of two sources the first in the options counts.
    """
    for name in CONFIGURED:
        found = {each.value: each for each in reversed(pool.domain.facts) if each.name is name}
        declared = _declared(pool.domain, name)
        rows = [_row(each) for each in reversed(found.values())]
        if declared is not None and canonical_text(declared) not in found and found:
            rows.append(Evidence(f"router.{name}", canonical_text(declared), State.REPORTED, holder=FLEET_YAML))
        if len(rows) < 2:  # noqa: PLR2004  values that differ
            continue
        values = (write(value(_shown(each.value)), f" in {each.holder}") for each in rows)
        yield Draft(
            tuple(each.id for each in pool.all_replicas),
            write(value(name), " is ", join_texts(values, " and "), "."),
            tuple(rows),
            Remedy(
                "Correct the declaration in fleet.yaml, or the router; restart a router whose ConfigMap changed.",
                tuple(_declaration(pool, name, rows[0].value)),
            ),
        )


def _declaration(pool: PoolSubject, name: FactName, text: str) -> Iterator[Snippet]:
    """Yield what declares the first value, where an option of the pool can."""
    if name is FactName.BLOCK_SIZE:
        yield remedy.declaration(pool.name, "expects:", f"block_size: {text}")
    elif name in DECLARED:
        yield remedy.declaration(pool.name, f"{DECLARED[name]}: {_shown(text)}")


def _declared(domain: Domain, name: FactName) -> Any:
    """Return what fleet.yaml declares in place of a fact; None where nothing."""
    if name is FactName.BLOCK_SIZE:
        return domain.declared.expects.block_size
    return getattr(domain.declared, DECLARED[name]) if name in DECLARED else None


def _row(fact: RouterFact, *, is_reference: bool = False) -> Evidence:
    return Evidence(f"router.{fact.name}", fact.value, State.REPORTED, holder=fact.source, is_reference=is_reference)


def _reported(pool: PoolSubject, *names: FactName) -> Iterator[Evidence]:
    """Yield what the router reports, as the reference."""
    yield from (_row(fact, is_reference=True) for name in names if (fact := pool.domain.fact(name)))


def _shown(text: str) -> str:
    loaded = json.loads(text)
    return loaded if isinstance(loaded, str) else text


@rule("RT-20", least=1, facts=(FactName.READY, FactName.ENDPOINTS))
def router_misses_replicas(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of the pool are unknown to the router.

    Its endpoints are compared by address, or by the pod's name. A pool of which it knows no replica is evaluated only
    where it knows none at all: it may belong to another router.
    """
    known, ready = pool.domain.read(FactName.ENDPOINTS) or [], pool.domain.read(FactName.READY)
    members = [each for each in pool.members if each.fresh and "not_ready" not in each.labels]
    missing = [each.id for each in members if not is_listed(each, known)]
    knows_none = ready == 0 and not known
    if not missing or (len(missing) == len(members) and not knows_none):
        return
    yield Draft(
        tuple(missing),
        write("The router does not know ", f"{len(missing):,} of {count(len(members), 'ready replica')}."),
        tuple(_reported(pool, FactName.READY, FactName.ENDPOINTS)),
        Remedy("Give these pods the labels that the router selects, or add their addresses to its endpoints."),
    )


def is_listed(replica: Replica, endpoints: list[str]) -> bool:
    """Return whether a router lists a replica: by URL, by host and port, or by the name of its pod."""
    address = replica.id.partition("://")[2].partition("/")[0]
    pod = replica.labels.get("pod", "")
    for endpoint in endpoints:
        own = endpoint.partition("://")[2].rstrip("/") or endpoint
        name = own.rpartition("/")[2]
        if own in {replica.id, address} or (pod and (name == pod or name.startswith(f"{pod}{RANK}"))):
            return True
    return False


@rule("RT-21", least=1, facts=(FactName.PODS_PER_KEY,))
def router_index_too_small(pool: PoolSubject) -> Iterator[Draft]:
    """Indexes of the router keep fewer entries for a block than the pool has.

    llm-d keeps `podCacheSize` entries for each block: one for each DP rank and tier of the cache (GPU, CPU, storage).
    """
    most = pool.domain.read(FactName.PODS_PER_KEY)
    tiers = max(pool.of_documents(_tiers).values(), default=1)
    endpoints = sum(max(len(each.engines), 1) for each in pool.members if not each.is_second_address)
    needed = endpoints * tiers
    if needed <= most:
        return
    rows = pool.evidence((SIZE,)) if tiers > 1 else ()
    yield Draft(
        tuple(each.id for each in pool.members),
        write(
            "The router keeps ",
            value(f"{most:,}"),
            f" entries for a block; {count(endpoints, 'endpoint')} with {count(tiers, 'tier')} need ",
            value(f"{needed:,}"),
            ".",
        ),
        (*rows, *_reported(pool, FactName.PODS_PER_KEY)),
        Remedy(
            f"Raise podCacheSize of the router to {needed:,} or more.",
            (
                Snippet(
                    "yaml",
                    f"indexerConfig:\n  kvBlockIndexConfig:\n    inMemoryConfig:\n      podCacheSize: {needed}",
                ),
            ),
        ),
    )


def _tiers(settings: Mapping[str, Setting]) -> int:
    """Return the tiers of a replica's cache: GPU, CPU memory where it offloads, and those below."""
    found = connectors(settings)
    below = [tier for each in found if each.name == OFFLOADING for tier in tiers_of(each)]
    offloads = bool(below) or native(settings, SIZE) is not None or any(each.name == OFFLOADING for each in found)
    return 1 + offloads + len(below)


@rule("RT-22", needs=(EVENTS,), least=1, facts=(FactName.SUBSCRIBED, FactName.EVENT_PORT))
def events_not_subscribed(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish KV events that the router does not read.

    The router's subscribers are compared with the replicas that publish, by the name of the pod; without such names
    only a router without any subscriber is reported. The configured port is compared where the replica binds it
    (`tcp://*:5557`); not one of `/kv_event_sources`, to which vLLM has added the data-parallel rank.
    """
    senders = pool.publishing
    if not senders.members or pool.is_ignored(EVENTS):
        return
    total, names = pool.domain.read(FactName.SUBSCRIBED), pool.domain.read(FactName.SUBSCRIBERS) or []
    missing = [each.id for each in senders.members if not is_listed(each, names)]
    has_names = total == len(names) and GLOBAL_SOCKET not in names and len(missing) < len(senders.members)
    if total == 0 or (has_names and missing):
        odd = senders.only(missing)
        text = write(
            f"The router reads no KV events of {len(missing):,} of {len(senders.members):,} replicas that publish them."
        )
        rows = (*odd.evidence((EVENTS,)), *_reported(pool, FactName.SUBSCRIBED))
        yield Draft(
            tuple(missing),
            text,
            rows,
            Remedy("Add the router's producer of prefixes as an extractor of its data layer."),
        )
    port = pool.domain.read(FactName.EVENT_PORT)
    others = {each: own for each, own in _bound_ports(senders).items() if port and own != port}
    for own, several in groupby(sorted(others, key=lambda each: (others[each], each)), key=others.__getitem__):
        replicas = tuple(several)
        yield Draft(
            replicas,
            write(
                "KV events are published at port ", value(str(own)), "; the router reads port ", value(str(port)), "."
            ),
            (*senders.evidence((ENDPOINT,), replicas), *_reported(pool, FactName.EVENT_PORT)),
            Remedy(
                f"Set socketPort of the router to {own}, or publish at port {port} and restart these replicas.",
                (Snippet("yaml", f"kvEventsConfig:\n  podDiscoveryConfig:\n    socketPort: {own}"),),
            ),
        )


def _bound_ports(pool: PoolSubject) -> dict[str, int]:
    """Return the configured port of each replica that binds one: `/kv_event_sources` adds the DP rank to it."""
    ports = {}
    for member in pool.members:
        setting = member.identity.get(ENDPOINT) or pool.settings(member).get(ENDPOINT)
        is_configured = setting is not None and setting.source is not Source.KV_EVENT_SOURCES
        endpoint = pool.identity(ENDPOINT).get(member.id) if is_configured else None
        if isinstance(endpoint, str) and WILDCARD in endpoint and (match := PORT.search(endpoint)):
            ports[member.id] = int(match[1])
    return ports
