"""What the provider answers on stand-ins of the captured servers: the seed's schema, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dashboard.schemas.inference_config import InferenceConfigReply
from tests.captured import INFERENCE_CONFIG, SERVER_INFO, capture, captures
from tests.provider.engines import EngineProcess

if TYPE_CHECKING:
    from tests.captured import Capture
    from tests.provider.conftest import Serve

ASKED = captures(lambda server: INFERENCE_CONFIG in server.answers)


@pytest.mark.parametrize("server", ASKED)
def test_every_field_of_the_seed_is_what_the_server_itself_told(server: Capture, serve: Serve) -> None:
    expected = server.json(INFERENCE_CONFIG)
    expected["scheduler"]["max_num_partial_prefills"] = None  # vLLM 0.32.0 has no such setting
    for group in expected["kv_cache"]["groups"]:
        if "mamba_type" in group:
            group["mamba_type"] = "mamba2"

    told = serve(server).told()
    told.pop("fleet")

    assert told == expected
