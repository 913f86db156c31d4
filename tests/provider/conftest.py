"""What the tests of the provider share: servers that are closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from tests.captured import Capture
from tests.provider.engines import ApiServer, EngineProcess


class Serve(Protocol):
    """Starts an API server in front of engines; one engine unless others are given."""

    def __call__(
        self, server: Capture, *engines: EngineProcess, started: bool = True, client: Any = None
    ) -> ApiServer: ...


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start API servers, and close their event loops at the end."""
    with ExitStack() as stack:

        def started(server: Capture, *engines: EngineProcess, started: bool = True, client: Any = None) -> ApiServer:
            api = ApiServer(server, engines or [EngineProcess(server)], client)
            stack.callback(api.runner.close)
            if started:
                api.start()
            return api

        yield started
