"""Servers of one version, started with one command line, give no finding but those that they deserve.

Whatever their number, their addresses, and how much each of them tells.
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.fleet import build_fleet
from dashboard.rules.domain import Declared, Router
from dashboard.rules.findings import OutcomeKind
from dashboard.rules.policy import Policy
from tests.captured import (
    AT,
    INFERENCE_CONFIG,
    KV_EVENTS,
    METRICS,
    MODELS,
    PLUGIN,
    SERVER_INFO,
    VERSION,
    Capture,
    capture,
    captures,
    has_python_api,
    snapshot,
)
from tests.provider_answers import provider_answer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dashboard.models import Snapshot
    from dashboard.rules.findings import Inspection

OPEN = frozenset({METRICS, VERSION, MODELS, KV_EVENTS})
# What one replica answers, in turn: everything, only what is open, a configuration endpoint beside it.
TELLING: tuple[Collection[str] | None, ...] = (
    None,
    OPEN,
    OPEN | {INFERENCE_CONFIG},
    OPEN | {f"{PLUGIN}/config", f"{PLUGIN}/devices", f"{PLUGIN}/kv-cache"},
)
DEV_MODE = frozenset({"CO-14"})
RANDOM_ROOT = frozenset({"RT-06"})


def deserved(told: Capture, number: int) -> frozenset[str]:
    """What such servers really have: development mode, a random hash root, no prefix cache, and so on."""
    config = json.loads(told.answers[SERVER_INFO])["vllm_config"]
    found = set(DEV_MODE)
    if number > 1 and (told.version < "0.29" or "xxhash" in told.case):
        found |= RANDOM_ROOT
    if config.get("cache_config", {}).get("enable_prefix_caching") is False:  # asked for, or because of the model
        found.add("RT-13")
    if told.case == "gemma3_plugin":  # counts the tokens of a hybrid model as blocks times block size
        found.add("ID-06")
    if not has_python_api(told):  # only the name, the version and the length of requests are reported
        found.add("ID-05")
    return frozenset(found | ({"RT-10"} if told.case == "qwen3_kvevents" else set()))


def replicas(told: Capture, number: int, telling: Sequence[Collection[str] | None], first: int = 1) -> list[Snapshot]:
    """Servers that were started alike: each is a process of its own, at an address of its own."""
    found = []
    for index, paths in enumerate(islice(cycle(telling), number), start=first):
        config = json.loads(told.answers[SERVER_INFO])
        if isinstance(config["vllm_config"], dict):
            config["vllm_config"]["instance_id"] = f"1795171{index:012}"
        answers = {**told.answers, SERVER_INFO: json.dumps(config).encode()}
        answers = {path: body.replace(b"kv@pod-1@", b"kv@pod-%d@" % index) for path, body in answers.items()}
        found.append(snapshot(answers, paths, target=f"http://10.0.0.{index}:8000", labels={"pool": "chat"}))
    return found


def with_provider(told: Capture, number: int) -> list[Snapshot]:
    """The same servers, in turn: the provider with every setting, the provider without them, no provider."""
    found = []
    for index, answer in zip(range(1, number + 1), cycle((_whole, _brief, None)), strict=False):
        paths = OPEN | {INFERENCE_CONFIG} if answer else OPEN
        answers = {path: told.answers[path] for path in OPEN if path in told.answers}
        if answer:
            answers[INFERENCE_CONFIG] = json.dumps(answer(told, index)).encode()
        answers = {path: body.replace(b"kv@pod-1@", b"kv@pod-%d@" % index) for path, body in answers.items()}
        found.append(snapshot(answers, paths, target=f"http://10.0.0.{index}:8000", labels={"pool": "chat"}))
    return found


def _whole(told: Capture, index: int) -> dict[str, Any]:
    """What the provider of one server answers with `?full=true`: the capture was taken in development mode."""
    answer = provider_answer(told, fingerprints=roots(told, index))
    answer["fleet"]["settings"]["instance_id"] = f"1795171{index:012}"
    answer["fleet"]["environment"] |= {"VLLM_SERVER_DEV_MODE": False, "VLLM_PLUGINS": ["fleet_config"]}
    return answer


def _brief(told: Capture, index: int) -> dict[str, Any]:
    return provider_answer(told, full=False, fingerprints=roots(told, index))


def roots(told: Capture, index: int) -> list[str]:
    """What the engines of a server hash from: with a random root each from its own."""
    is_random = "RT-06" in deserved(told, 2)
    return [f"process {index}, rank {rank}" for rank in range(2)] if is_random else ["one root"]


def inspected(snapshots: Sequence[Snapshot], router: Router | None = None) -> Inspection:
    policy = Policy({"*": Declared(router=router)})
    return build_fleet("fleet", snapshots, polled_at=AT, interval=timedelta(seconds=15), policy=policy).inspection


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("told", captures())
def test_servers_alike_give_only_the_findings_that_they_deserve(told: Capture, number: int) -> None:
    found = inspected(replicas(told, number, TELLING))

    assert [each for each in found.outcomes if each.kind is OutcomeKind.ERROR] == []
    wrong = [(each.rule, each.sentence) for each in found.findings if each.rule not in deserved(told, number)]
    assert wrong == []


@pytest.mark.parametrize("told", captures())
def test_stock_servers_alike_give_no_finding(told: Capture) -> None:
    """Without development mode, a vLLM whose hashes have a fixed root has nothing wrong."""
    found = inspected(replicas(told, 4, [OPEN]))

    assert {each.rule for each in found.findings} <= deserved(told, 4) - DEV_MODE


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("told", captures(has_python_api))
def test_servers_of_which_some_have_the_provider_give_only_the_findings_that_they_deserve(
    told: Capture, number: int
) -> None:
    """Nothing differs but who answers: the provider in full, in brief, or not at all."""
    found = inspected(with_provider(told, number))

    assert [each for each in found.outcomes if each.kind is OutcomeKind.ERROR] == []
    wrong = [
        (each.rule, each.sentence) for each in found.findings if each.rule not in deserved(told, number) - DEV_MODE
    ]
    assert wrong == []


@pytest.mark.no_cover
@pytest.mark.parametrize("told", captures(has_python_api))
def test_a_server_that_the_provider_reads_says_what_the_same_one_says_in_development_mode(told: Capture) -> None:
    """One is read by the provider, one by /server_info, one by what is open: they do not differ."""
    others = replicas(told, 2, [None, OPEN], first=2)
    found = inspected([*with_provider(told, 1), *others])

    assert {each.rule for each in found.findings} <= deserved(told, 3)


def test_two_servers_that_hash_from_random_roots_are_told_though_they_are_configured_alike() -> None:
    """The prefix cache of one is of no use to the other: their first block hashes were recorded, and differ."""
    both = [capture("qwen3_xxhash"), capture("qwen3_xxhash_again")]
    hashes = {told.launch["first_block_hash"] for told in both}
    snapshots = [one for place, told in enumerate(both) for one in replicas(told, 1, [OPEN], first=place + 1)]
    (finding,) = inspected(snapshots, Router.PREFIX_HASH).findings

    assert len(hashes) == 2
    assert {finding.rule} == RANDOM_ROOT
    assert finding.assumptions == ("PYTHONHASHSEED is unset",)
    assert inspected(snapshots).findings == (), "nobody said that hashes are compared"


def test_servers_with_a_fixed_root_are_not_told_and_hash_alike() -> None:
    """Llama and qwen3 with other settings, sha256 both: the first block hash was recorded, and is the same."""
    both = [capture("llama"), capture("gemma3")]

    assert len({told.launch["first_block_hash"] for told in both}) == 1


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
