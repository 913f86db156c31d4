"""Live vLLM servers on loopback: tiny models with random weights, CPU only."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MODELS = Path(__file__).parents[1] / "models"
START_SECONDS = 300  # 25 on an idle machine with two cores
LOGGED = re.compile(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")


@dataclass(frozen=True, slots=True)
class Kind:
    """How one server is started. `options` are vLLM's own."""

    name: str
    model: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers, and what it logged of its capacity: (tokens, concurrency) per DP engine."""

    kind: Kind
    url: str
    log: Path

    def logged(self) -> list[tuple[int, float]]:
        found = LOGGED.findall(self.log.read_text())
        return [(int(tokens.replace(",", "")), float(concurrency)) for tokens, _length, concurrency in found]


@contextmanager
def running(kinds: Sequence[Kind], venv: Path, folder: Path) -> Iterator[list[Server]]:
    """Start servers, one after another because each takes all cores, and end them."""
    with ExitStack() as stack:
        yield [stack.enter_context(_running(kind, venv, folder)) for kind in kinds]


@contextmanager
def _running(kind: Kind, venv: Path, folder: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / f"{kind.name}.log"
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    command = [venv / "bin" / "vllm", "serve", f"./{kind.model}", "--load-format", "dummy", "--skip-tokenizer-init"]
    fixed = ["--enforce-eager", "--max-model-len", "2048", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*map(str, command), *fixed, *kind.options],
            cwd=MODELS,
            env={**os.environ, **quiet, **kind.environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}", log)
            yield Server(kind, f"http://127.0.0.1:{port}", log)
        finally:
            process.terminate()
            process.wait(60)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends_at = time.monotonic() + START_SECONDS
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            pytest.fail(f"vLLM ended by itself: {log.read_text()[-2000:]}")
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(1)
    pytest.fail(f"vLLM did not come up in {START_SECONDS} s: {log.read_text()[-2000:]}")
