"""Servers of one version, started with one command line, give no finding but those that they deserve.

Whatever their number, their addresses, and how much each of them tells.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, cycle, islice
from typing import Any, NamedTuple

import pytest

from dashboard.analysis.assembly import build_fleet
from dashboard.fleet import Document, Replica, Snapshot, Target
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Declared, Router
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Inspection, OutcomeKind, Severity
from dashboard.rules.policy import Policy
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
from tests.provider_answers import provider_answer

OPEN = frozenset({METRICS, VERSION, MODELS, KV_EVENTS})
INTERVAL = timedelta(seconds=15)
NUMBERS = (1, 2, 3, 8)  # of replicas in a pool
SHIFT = 5  # combinations that stand apart in the list of all are put into one pool
DEV_MODE = "CO-14"


class Deserved(NamedTuple):
    """A finding that clean pools of some captures have, and why it is no false alarm."""

    rule: str
    reason: str
    has: Callable[[Capture], bool]


def is_random(server: Capture) -> bool:
    return server.version < "0.29" or "xxhash" in server.case


def caches(server: Capture) -> bool:
    config = server.json(SERVER_INFO)["vllm_config"]
    return config.get("cache_config", {}).get("enable_prefix_caching") is not False


DESERVED = (
    Deserved(DEV_MODE, "development mode is open: without it there is no /server_info", lambda _: True),
    Deserved("RT-06", "each process hashes from a random seed, which the provider measures", is_random),
    Deserved("RT-13", "prefix caching is off: asked for, or because of the model", lambda server: not caches(server)),
    Deserved("ID-06", "a plugin reports blocks x block size of a hybrid model", lambda server: "plugin" in server.case),
    Deserved("ID-05", "the Rust frontend reports no cache configuration", lambda server: not has_python_api(server)),
    Deserved("RT-10", "the topic names another model than the served one", lambda server: "kvevents" in server.case),
)


def deserved(server: Capture) -> frozenset[str]:
    """The rules whose findings such servers deserve."""
    return frozenset(each.rule for each in DESERVED if each.has(server))


def replicas(server: Capture, number: int, telling: Sequence[Collection[str] | None], first: int = 1) -> list[Snapshot]:
    """Servers that were started alike: each is a process of its own, at an address of its own."""
    found = []
    for index, paths in enumerate(islice(cycle(telling), number), start=first):
        config = json.loads(server.answers[SERVER_INFO])
        if isinstance(config["vllm_config"], dict):
            config["vllm_config"]["instance_id"] = f"1795171{index:012}"
        answers = {**server.answers, SERVER_INFO: json.dumps(config).encode()}
        answers = {path: body.replace(b"kv@pod-1@", b"kv@pod-%d@" % index) for path, body in answers.items()}
        found.append(snapshot(answers, paths, target=f"http://10.0.0.{index}:8000", labels={"pool": "chat"}))
    return found


def with_provider(server: Capture, number: int) -> list[Snapshot]:
    """The same servers, in turn: the provider with every setting, the provider without them, no provider."""
    found = []
    for index, answer in zip(range(1, number + 1), cycle((_whole, _brief, None)), strict=False):
        paths = OPEN | {INFERENCE_CONFIG} if answer else OPEN
        answers = {path: server.answers[path] for path in OPEN if path in server.answers}
        if answer:
            answers[INFERENCE_CONFIG] = json.dumps(answer(server, index)).encode()
        answers = {path: body.replace(b"kv@pod-1@", b"kv@pod-%d@" % index) for path, body in answers.items()}
        found.append(snapshot(answers, paths, target=f"http://10.0.0.{index}:8000", labels={"pool": "chat"}))
    return found


def _whole(server: Capture, index: int) -> dict[str, Any]:
    """What the provider of one server answers with `?full=true`: the capture was taken in development mode."""
    answer = provider_answer(server, fingerprints=roots(server, index))
    answer["fleet"]["settings"]["instance_id"] = f"1795171{index:012}"
    answer["fleet"]["environment"] |= {"VLLM_SERVER_DEV_MODE": False, "VLLM_PLUGINS": ["fleet_config"]}
    return answer


def _brief(server: Capture, index: int) -> dict[str, Any]:
    return provider_answer(server, full=False, fingerprints=roots(server, index))


def roots(server: Capture, index: int) -> list[str]:
    """What the engines of a server hash from: with a random root each from its own."""
    return [f"process {index}, rank {rank}" for rank in range(2)] if is_random(server) else ["one root"]


def inspected(snapshots: Sequence[Snapshot], router: Router | None = None) -> Inspection:
    policy = Policy({"*": Declared(router=router)})
    return build_fleet("fleet", snapshots, polled_at=AT, interval=INTERVAL, policy=policy).inspection


def read_through_every_combination(server: Capture) -> tuple[list[list[Replica]], Mapping[str, Document]]:
    """Eight servers through each combination of endpoints, without those that tell what an earlier one tells."""
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


@pytest.mark.no_cover
@pytest.mark.parametrize("server", captures())
def test_servers_alike_give_only_what_they_deserve_through_every_combination_of_endpoints(server: Capture) -> None:
    """Pools of each number that all answer alike, and pools in which each replica answers otherwise."""
    known, documents = read_through_every_combination(server)
    wrong = set()
    for place, alike in enumerate(known):
        mixed = [known[(place + SHIFT * index) % len(known)][index] for index in range(max(NUMBERS))]
        for members in (*(alike[:number] for number in NUMBERS), mixed):
            pools = compared(members, documents)
            found = inspect_fleet(ALL_RULES, pools, members, documents, Policy(), AT)
            wrong |= {(each.rule, each.reason) for each in found.outcomes if each.kind is OutcomeKind.ERROR}
            wrong |= {
                (each.rule, each.sentence)
                for each in found.findings
                if each.severity is not Severity.INFO and each.rule not in deserved(server)
            }
    assert not wrong


def test_every_exception_is_needed_by_a_capture_and_has_a_reason() -> None:
    every = [each.values[0] for each in captures()]

    assert all(each.reason and any(each.has(server) for server in every) for each in DESERVED)


@pytest.mark.parametrize("server", captures())
def test_stock_servers_alike_give_no_finding(server: Capture) -> None:
    """Without development mode, a vLLM whose hashes have a fixed root has nothing wrong."""
    found = inspected(replicas(server, 4, [OPEN]))

    assert {each.rule for each in found.findings} <= deserved(server) - {DEV_MODE}


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("server", captures(has_python_api))
def test_servers_of_which_some_have_the_provider_give_only_the_findings_that_they_deserve(
    server: Capture, number: int
) -> None:
    """Nothing differs but who answers: the provider in full, in brief, or not at all."""
    found = inspected(with_provider(server, number))

    assert [each for each in found.outcomes if each.kind is OutcomeKind.ERROR] == []
    wrong = [(each.rule, each.sentence) for each in found.findings if each.rule not in deserved(server) - {DEV_MODE}]
    assert wrong == []


@pytest.mark.no_cover
@pytest.mark.parametrize("server", captures(has_python_api))
def test_a_server_that_the_provider_reads_says_what_the_same_one_says_in_development_mode(server: Capture) -> None:
    """One is read by the provider, one by /server_info, one by what is open: they do not differ."""
    others = replicas(server, 2, [None, OPEN], first=2)
    found = inspected([*with_provider(server, 1), *others])

    assert {each.rule for each in found.findings} <= deserved(server)


def test_two_servers_that_hash_from_random_roots_are_told_though_they_are_configured_alike() -> None:
    """The prefix cache of one is of no use to the other: their first block hashes were recorded, and differ."""
    both = [capture("qwen3_xxhash"), capture("qwen3_xxhash_again")]
    hashes = {server.launch["first_block_hash"] for server in both}
    snapshots = [one for place, server in enumerate(both) for one in replicas(server, 1, [OPEN], first=place + 1)]
    (finding,) = inspected(snapshots, Router.PREFIX_HASH).findings

    assert len(hashes) == 2
    assert finding.rule == "RT-06"
    assert finding.assumptions == ("PYTHONHASHSEED is unset",)
    assert inspected(snapshots).findings == (), "nobody said that hashes are compared"


def test_servers_with_a_fixed_root_are_not_told_and_hash_alike() -> None:
    """Llama and qwen3 with other settings, sha256 both: the first block hash was recorded, and is the same."""
    both = [capture("llama"), capture("gemma3")]

    assert len({server.launch["first_block_hash"] for server in both}) == 1


def test_a_server_that_answers_that_it_publishes_nothing_stands_out_among_those_that_publish() -> None:
    """By `/kv_event_sources` alone, which is open to everybody."""
    publishing, silent = capture("qwen3_kvevents"), capture("qwen3_xxhash")
    snapshots = [
        snapshot(each.answers, OPEN, target=f"http://10.0.0.{number}:8000", labels={"pool": "chat"})
        for number, each in enumerate([publishing, publishing, publishing, silent])
    ]

    fleet = build_fleet("test", snapshots, polled_at=AT, interval=timedelta(seconds=15))

    found = {each.rule: each.replicas for each in fleet.inspection.findings}
    assert found["RT-09"] == ("http://10.0.0.3:8000",)
