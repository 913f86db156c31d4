"""The block size that is told: the one that the engine counts by, as it told the API server at its start."""

from typing import Any

import pytest

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineProcess

MAMBA = capture("mamba2")
DEFAULT, OWN = 128, 2048  # tokens: what the platform sets the engine's copy back to, and what its blocks hold
BLOCK_SIZE = "cache_config.block_size"


def engine() -> EngineProcess:
    found = EngineProcess(MAMBA)
    found.config.cache_config.block_size = DEFAULT
    return found


def test_what_the_engine_set_back_is_told_as_the_api_server_has_it(serve: Serve) -> None:
    told = serve(MAMBA, engine()).told("?full=true")

    assert told["fleet"]["settings"][BLOCK_SIZE] == OWN
    assert [group["block_size"] for group in told["kv_cache"]["groups"]] == [OWN]


@pytest.mark.parametrize("value", [None, "2048"])
def test_where_the_api_server_has_none_the_engine_s_copy_stands(serve: Serve, value: Any) -> None:
    server = serve(MAMBA, engine(), started=False)
    server.config.cache_config.block_size = value
    server.start()

    assert server.told("?full=true")["fleet"]["settings"][BLOCK_SIZE] == DEFAULT
