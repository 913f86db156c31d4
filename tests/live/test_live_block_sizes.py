"""Two live servers with equal fingerprints and other allocation blocks: one hash names other tokens on each."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.dashboard_runs import Checked, check, options, poll
from tests.live.servers import CONFIG, TOKENS, Kind, running
from vllm_fleet_provider.switch import NAME

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_033]
SHORT, LONG = 64, 128


def kind(name: str, *sizes: str) -> Kind:
    return Kind(name, "gemma3", ("--served-model-name", "chat", *sizes), plugins=(NAME, "fleet_witness"))


KINDS = (
    kind("short", "--block-size", str(SHORT)),
    kind("long", "--block-size", str(LONG), "--prefix-match-unit", str(SHORT)),
)


class Servers(NamedTuple):
    """The extension that each server reports, what its engine saw of one prompt, and the dashboard's poll and check."""

    fleets: list[dict[str, Any]]
    witnessed: list[dict[str, Any]]
    poll: dict[str, Any]
    check: Checked


@pytest.fixture(scope="module")
def servers(venv: Path, site: Path, others: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Servers:
    folder = tmp_path_factory.mktemp("vllm")
    with running(KINDS, venv, folder, (site, *others)) as started:
        for server in started:
            server.complete()
        config = options(started, folder)
        return Servers(
            [server.json(CONFIG)["fleet"] for server in started],
            [server.witnessed()[-1] for server in started],
            poll(config),
            check(config),
        )


def test_a_finer_match_unit_has_the_fingerprint_of_shorter_blocks(servers: Servers) -> None:
    short, long = (fleet["engines"][0]["fingerprint"] for fleet in servers.fleets)

    assert short == long
    assert [len(each["block_hashes"]) for each in servers.witnessed] == [len(TOKENS) // SHORT] * 2
    assert servers.witnessed[0]["block_hashes"] == servers.witnessed[1]["block_hashes"]


def test_the_groups_allocate_other_blocks_and_the_provider_reports_them(servers: Servers) -> None:
    for fleet, witnessed, size in zip(servers.fleets, servers.witnessed, (SHORT, LONG), strict=True):
        assert {each["block_size"] for each in witnessed["groups"]} == {size}
        assert {each["block_size"] for each in fleet["engines"][0]["groups"]} == {size}


def test_the_verdict_is_no_and_rt_01_agrees(servers: Servers) -> None:
    (pool,) = servers.poll["pools"]
    reasons = {tuple(cell["cohorts"]): cell["reason"] for cell in pool["prefix_sharing"]["cells"]}

    assert (pool["shares_prefixes"], pool["kv_transfer"]) == ("no", None)
    assert reasons["A", "B"] == "hash alike, but block_size differs"
    assert servers.check.of("RT-01")["severity"] == "critical"
