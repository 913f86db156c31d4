"""Servers with one version and one command line have only the findings that their capture justifies.

This does not depend on their number, their addresses, or which endpoints answer.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, cycle, islice
from typing import NamedTuple

import pytest

from dashboard.fleet import Document, Replica, Snapshot, Target
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import PoolDeclaration, Router
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Inspection, OutcomeKind, Severity
from dashboard.rules.policy import FleetData, Policy
from tests.builders import compared
from tests.captured import (
    AT,
    INFERENCE_CONFIG,
    KV_EVENTS,
    METRICS,
    MODELS,
    SERVER_INFO,
    VERSION,
    Capture,
    capture,
    captures,
    has_python_api,
    snapshot,
)
from tests.polled_fleets import build_fleet
from tests.provider_answers import provider_answer

OPEN = frozenset({METRICS, VERSION, MODELS, KV_EVENTS})
INTERVAL = timedelta(seconds=15)
NUMBERS = (1, 2, 3, 8)  # of replicas in a pool
SHIFT = 5  # between two combinations of one mixed pool
DEV_MODE = "CO-14"


class Justified(NamedTuple):
    """A finding that clean pools of some captures have, and why it is no false alarm."""

    rule: str
    reason: str
    has: Callable[[Capture], bool]


def is_random(server: Capture) -> bool:
    return server.version < "0.29" or "xxhash" in server.case


def caches(server: Capture) -> bool:
    config = server.json(SERVER_INFO)["vllm_config"]
    return config.get("cache_config", {}).get("enable_prefix_caching") is not False


JUSTIFIED = (
    Justified(DEV_MODE, "development mode is open: without it there is no /server_info", lambda _: True),
    Justified("RT-06", "each process has a random hash seed, which the provider measures", is_random),
    Justified("RT-13", "prefix caching is off, by option or because of the model", lambda server: not caches(server)),
    Justified("ID-06", "a plugin reports blocks x block size of a hybrid model", lambda each: "plugin" in each.case),
    Justified("ID-05", "the Rust frontend reports no cache configuration", lambda each: not has_python_api(each)),
    Justified("RT-23", "KV events have no replay endpoint", lambda each: "kvevents" in each.case),
    Justified("RT-10", "the topic names another model than the served one", lambda each: "kvevents" in each.case),
)


def justified(server: Capture) -> frozenset[str]:
    """Return the rules with a justified finding on such servers."""
    return frozenset(each.rule for each in JUSTIFIED if each.has(server))


def numbered(answers: Mapping[str, bytes], paths: Collection[str] | None, number: int) -> Snapshot:
    """Return the answers as those of a server with its own address and pod."""
    own = {path: body.replace(b"kv@pod-1@", b"kv@pod-%d@" % number) for path, body in answers.items()}
    return snapshot(own, paths, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})


def replicas(server: Capture, number: int, paths: Sequence[Collection[str] | None], first: int = 1) -> list[Snapshot]:
    """Return servers with one command line, each a process of its own, that answer on these paths in turn."""
    found = []
    for place, asked in enumerate(islice(cycle(paths), number), start=first):
        config = json.loads(server.answers[SERVER_INFO])
        if isinstance(config["vllm_config"], dict):
            config["vllm_config"]["instance_id"] = f"1795171{place:012}"
        found.append(numbered({**server.answers, SERVER_INFO: json.dumps(config).encode()}, asked, place))
    return found


def with_provider(server: Capture, number: int) -> list[Snapshot]:
    """Return the same servers: in turn with the whole provider, with the provider without settings, without it."""
    found = []
    for place, is_full in zip(range(1, number + 1), cycle((True, False, None)), strict=False):
        answers = {path: server.answers[path] for path in OPEN if path in server.answers}
        if is_full is not None:
            answer = provider_answer(server, full=is_full, fingerprints=roots(server, place))
            if is_full:
                answer["fleet"]["settings"]["instance_id"] = f"1795171{place:012}"
                answer["fleet"]["environment"] |= {"VLLM_SERVER_DEV_MODE": False, "VLLM_PLUGINS": ["fleet_config"]}
            answers[INFERENCE_CONFIG] = json.dumps(answer).encode()
        found.append(numbered(answers, [*OPEN, INFERENCE_CONFIG], place))
    return found


def roots(server: Capture, index: int) -> list[str]:
    """Return the hash seeds of a server's engines: with a random seed one per rank."""
    return [f"process {index}, rank {rank}" for rank in range(2)] if is_random(server) else ["one root"]


def inspected(snapshots: Sequence[Snapshot], router: Router | None = None) -> Inspection:
    policy = Policy({"*": PoolDeclaration(router=router)})
    return build_fleet("fleet", snapshots, polled_at=AT, interval=INTERVAL, policy=policy).inspection


def read_through_every_combination(server: Capture) -> tuple[list[list[Replica]], Mapping[str, Document]]:
    """Read eight servers through each combination of endpoints; drop those that report the same as an earlier one."""
    every = [frozenset(some) for size in range(len(server.answers)) for some in combinations(server.answers, size + 1)]
    servers = replicas(server, max(NUMBERS), [None])
    asked = [(place, server, paths) for place, paths in enumerate(every) for server in servers]
    fleet = build_fleet(
        "fleet",
        [_answering(server, paths, f"{server.target.id}/{place}") for place, server, paths in asked],
        polled_at=AT,
        interval=INTERVAL,
    )
    read = {each.id: replace(each, same_process=()) for each in fleet.replicas}
    distinct: dict[str, list[Replica]] = {}
    for place in range(len(every)):
        alike = [read[f"{server.target.id}/{place}"] for server in servers]
        one = alike[0]
        parts = (one.engines, one.devices, one.kv_cache_groups, one.served_model_names, one.adapters)
        distinct.setdefault(repr((one.document, one.state, one.contradictions, parts)), alike)
    return list(distinct.values()), fleet.documents


def _answering(server: Snapshot, paths: Collection[str], target: str) -> Snapshot:
    probes = {path: probe for path, probe in server.probes.items() if path in paths}
    return Snapshot(Target(target, {"pool": "chat"}), server.observed_at, probes)


@pytest.mark.few(6)
@pytest.mark.no_cover
@pytest.mark.parametrize("server", captures())
def test_equal_servers_have_only_justified_findings_through_every_combination_of_endpoints(server: Capture) -> None:
    """In pools of each size with equal endpoints, and in one pool with different endpoints per replica."""
    known, documents = read_through_every_combination(server)
    wrong = set()
    for place, alike in enumerate(known):
        mixed = [known[(place + SHIFT * index) % len(known)][index] for index in range(max(NUMBERS))]
        for members in (*(alike[:number] for number in NUMBERS), mixed):
            pools = compared(members, documents)
            found = inspect_fleet(ALL_RULES, FleetData(replicas=tuple(members), documents=documents, pools=pools), AT)
            wrong |= {(each.rule, each.reason) for each in found.outcomes if each.kind is OutcomeKind.ERROR}
            wrong |= {
                (each.rule, each.sentence)
                for each in found.findings
                if each.severity is not Severity.INFO and each.rule not in justified(server)
            }
    assert not wrong


def test_every_justification_applies_to_a_capture_and_has_a_reason() -> None:
    every = [each.values[0] for each in captures()]

    assert all(each.reason and any(each.has(server) for server in every) for each in JUSTIFIED)


@pytest.mark.parametrize("server", captures())
def test_equal_servers_without_development_mode_have_no_finding_on_it(server: Capture) -> None:
    found = inspected(replicas(server, 4, [OPEN]))

    assert {each.rule for each in found.findings} <= justified(server) - {DEV_MODE}


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("server", captures(has_python_api))
def test_equal_servers_with_and_without_the_provider_have_only_justified_findings(server: Capture, number: int) -> None:
    found = inspected(with_provider(server, number))

    assert [each for each in found.outcomes if each.kind is OutcomeKind.ERROR] == []
    wrong = [(each.rule, each.sentence) for each in found.findings if each.rule not in justified(server) - {DEV_MODE}]
    assert wrong == []


@pytest.mark.no_cover
@pytest.mark.parametrize("server", captures(has_python_api))
def test_the_provider_the_server_info_and_the_open_endpoints_of_one_server_do_not_differ(server: Capture) -> None:
    found = inspected([*with_provider(server, 1), *replicas(server, 2, [None, OPEN], first=2)])

    assert {each.rule for each in found.findings} <= justified(server)


def test_a_server_that_publishes_no_events_differs_from_publishing_ones() -> None:
    """From `/kv_event_sources` alone, which needs no key."""
    publishing, silent = capture("qwen3_kvevents"), capture("qwen3_xxhash")
    snapshots = [
        snapshot(each.answers, OPEN, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})
        for number, each in enumerate([publishing, publishing, publishing, silent])
    ]
    found = {each.rule: each.replicas for each in inspected(snapshots).findings}

    assert found["RT-09"] == ("http://10.0.0.3:8000",)
