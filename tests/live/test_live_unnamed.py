"""Installed but not named the provider does nothing, whether VLLM_PLUGINS is not set or names another plugin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.shared.digests import SERIES

pytestmark = pytest.mark.vllm
KINDS = (Kind("nothing-named", "llama"), Kind("another-named", "llama", plugins=("fleet_witness",)))


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def server(
    request: pytest.FixtureRequest,
    venv: Path,
    site: Path,
    others: tuple[Path, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    with running([request.param], venv, tmp_path_factory.mktemp("vllm"), (site, *others)) as (found,):
        yield found


@pytest.mark.parametrize("path", [CONFIG, "/v1/config"])
def test_neither_path_is_there(server: Server, path: str) -> None:
    assert server.get(path).status_code == 404
    assert path not in server.json("/openapi.json")["paths"]


def test_metrics_have_no_digests(server: Server) -> None:
    assert SERIES not in server.get("/metrics").text


def test_the_engine_is_not_touched_and_answers(server: Server) -> None:
    assert server.complete()["usage"]["completion_tokens"] == 1
    assert [each["has_provider"] for each in server.witnessed()] == [False]


def test_the_other_plugin_is_served_where_it_is_named(server: Server) -> None:
    expected = 200 if server.kind.plugins else 404

    assert server.get("/witness").status_code == expected


def test_the_provider_logs_nothing(server: Server) -> None:
    assert "configuration API" not in server.log.read_text()
