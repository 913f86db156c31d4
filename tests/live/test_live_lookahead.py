"""vLLM 0.33 on live servers: lookahead block hashes under EAGLE and MTP, and what the Rust frontend does not report."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.captured import capture
from tests.live.dashboard_runs import Checked, check, options, poll
from tests.live.servers import CONFIG, Kind, running
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_033]
BOTH = (NAME, "fleet_witness")
DISABLED = {"disable_lookahead_block_hashes": True}
EAGLE = {"method": "eagle", "model": "./llama_eagle", "num_speculative_tokens": 1}
MTP = {"method": "mtp", "num_speculative_tokens": 1}


def kind(name: str, model: str, speculation: dict[str, Any]) -> Kind:
    return Kind(
        name, model, ("--served-model-name", "chat", "--speculative-config", json.dumps(speculation)), plugins=BOTH
    )


PAIRS = {
    "eagle": (kind("eagle", "llama", EAGLE), kind("eagle-off", "llama", EAGLE | DISABLED)),
    "mtp": (kind("mtp", "glm4_mtp", MTP), kind("mtp-off", "glm4_mtp", MTP | DISABLED)),
}


class Pair(NamedTuple):
    """Two servers of one model, lookahead on and off: answers, first block hashes, poll and check, and the logs."""

    fleets: list[dict[str, Any]]
    hashes: list[str]
    logged: list[list[tuple[int, float]]]
    poll: dict[str, Any]
    check: Checked


@pytest.fixture(scope="module", params=PAIRS)
def pair(
    request: pytest.FixtureRequest,
    venv: Path,
    site: Path,
    others: tuple[Path, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Pair:
    folder = tmp_path_factory.mktemp("vllm")
    with running(PAIRS[request.param], venv, folder, (site, *others)) as servers:
        for server in servers:
            server.complete()
        config = options(servers, folder)
        return Pair(
            [server.json(CONFIG)["fleet"] for server in servers],
            [server.witnessed()[-1]["block_hashes"][0] for server in servers],
            [server.logged() for server in servers],
            poll(config),
            check(config),
        )


def test_one_speculation_with_lookahead_on_and_off_has_two_fingerprints(pair: Pair) -> None:
    on, off = ([engine["fingerprint"] for engine in fleet["engines"]] for fleet in pair.fleets)

    assert [fleet["prefix_hashing"]["lookahead_tokens"] for fleet in pair.fleets] == [1, 0]
    assert pair.hashes == [
        capture(case, "0.33.0").launch["first_block_hash"] for case in ("llama_eagle", "llama_eagle_nolookahead")
    ]
    assert on != off
    assert (on[0]["engine"], off[0]["engine"]) == ("32991f86b5c8a2d6", "f30f3014fbe54354")


def test_the_rule_names_them_and_no_other_rule_takes_the_fingerprints_for_another_cause(pair: Pair) -> None:
    finding = pair.check.of("RT-18")

    assert finding["confidence"] == "reported"
    assert "RT-06" not in {each["rule"] for each in pair.check.findings}


def test_tokens_and_concurrency_are_what_vllm_logged(pair: Pair) -> None:
    names = [each["replica"] for each in sorted(pair.poll["replicas"], key=lambda each: len(each["name"]))]
    for replica, logged in zip(names, pair.logged, strict=True):
        engines = [each for each in pair.poll["engines"] if each["replica"] == replica]
        assert [(each["kv_cache_size_tokens"], round(each["max_concurrency"], 2)) for each in engines] == logged


def test_a_server_behind_the_rust_frontend_is_named_with_what_to_do(
    venv: Path, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rust")
    rust = Kind("rust", "llama_tokenizer", (), {"VLLM_USE_RUST_FRONTEND": "1"}, (NAME,))
    with running([rust], venv, folder, (site,)) as (server,):
        assert server.get(CONFIG).status_code == 404
        config = options([server], folder)
        (replica,), finding = poll(config)["replicas"], check(config).of("ID-05")

    assert (replica["state"], replica["reason"]["kind"]) == ("partial", "frontend")
    assert "Rust frontend" in finding["sentence"]
    assert "VLLM_USE_RUST_FRONTEND" in finding["remedy"]["sentence"]
