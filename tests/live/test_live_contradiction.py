"""Two plugins on one live server: the public one reports a wrong capacity of a hybrid model, and a finding names it.

It is in no package registry, so its captured answers are served (tests/captures/0.32.0/gemma3_plugin), of a server with
the same model and the same options.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.dashboard_runs import check, options, poll
from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.switch import NAME

pytestmark = pytest.mark.vllm
HYBRID = Kind("hybrid", "gemma3", plugins=(NAME, "captured_introspection"))
TRUE, FALSE = 664_444, 4_194_304  # tokens


@pytest.fixture(scope="module")
def server(
    venv: Path, site: Path, others: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running([HYBRID], venv, tmp_path_factory.mktemp("vllm"), (site, *others)) as (found,):
        yield found


def test_the_provider_reports_the_logged_tokens_and_the_other_plugin_does_not(server: Server) -> None:
    (engine,) = server.json(CONFIG)["fleet"]["engines"]

    assert [tokens for tokens, _concurrency in server.logged()] == [TRUE]
    assert engine["kv_cache_size_tokens"] == TRUE
    assert server.json("/plugins/vllm-server-introspection/kv-cache")["kv_cache_size_tokens"] == FALSE


def test_the_finding_names_the_contradiction_and_the_right_value(server: Server, tmp_path: Path) -> None:
    finding = check(options([server], tmp_path)).of("ID-06")
    right, wrong = finding["sentence"].replace(",", "").split(" in the provider ")

    assert str(TRUE) in right
    assert str(FALSE) in wrong
    assert "vLLM's number is right" in wrong
    assert finding["confidence"] == "reported"


def test_the_dashboard_shows_the_right_number(server: Server, tmp_path: Path) -> None:
    (engine,) = poll(options([server], tmp_path))["engines"]

    assert (engine["kv_cache_size_tokens"], engine["basis"]) == (TRUE, "reported")
