"""Live vLLM servers on loopback: tiny models with random weights, CPU only."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving import free_port

MODELS = Path(__file__).parents[1] / "models"
START_SECONDS = 300  # 25 on an idle machine with two cores
ANSWER_SECONDS = 60  # of a loaded machine
LOGGED = re.compile(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
WITNESSED = re.compile(r"WITNESS (\{.*\})")
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
DECIDED_HERE = (
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "VLLM_PLUGINS",
    "VLLM_API_KEY",
    "VLLM_VENV",
    "HF_TOKEN",
)  # nothing is inherited
CONFIG = "/inference/v1/config"
TOKENS = list(range(1000))  # a prompt of several blocks; the captures hold the hash of the first


@dataclass(frozen=True, slots=True)
class Kind:
    """How one server is started. `options` are vLLM's own; `plugins` those that VLLM_PLUGINS names, None: not set.

    `port` is for one that is started again where another stood; None: a free one.
    """

    name: str
    model: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[str, ...] | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers, and what it logged of its capacity: (tokens, concurrency) per DP engine."""

    kind: Kind
    url: str
    log: Path
    pid: int

    def logged(self) -> list[tuple[int, float]]:
        found = LOGGED.findall(self.log.read_text())
        return [(int(tokens.replace(",", "")), float(concurrency)) for tokens, _length, concurrency in found]

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}", headers=headers, timeout=ANSWER_SECONDS, trust_env=False)

    def json(self, path: str, **headers: str) -> Any:
        response = self.get(path, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    def complete(self, **headers: str) -> dict[str, Any]:
        """Let it make one token of TOKENS."""
        model = self.json("/v1/models", **headers)["data"][0]["id"]
        body = {"model": model, "prompt": TOKENS, "max_tokens": 1, "temperature": 0, "detokenize": False}
        url = f"{self.url}/v1/completions"
        response = httpx2.post(url, json=body, headers=headers, timeout=ANSWER_SECONDS, trust_env=False)
        assert response.status_code == 200, response.text
        parsed: dict[str, Any] = response.json()
        return parsed

    def witnessed(self) -> list[dict[str, Any]]:
        """What `plugins/fleet_witness.py` logged: for each request the engine that took it, its groups, the hashes."""
        return [json.loads(line) for line in WITNESSED.findall(self.log.read_text())]


@contextmanager
def running(kinds: Sequence[Kind], venv: Path, folder: Path, path: Sequence[Path] = ()) -> Iterator[list[Server]]:
    """Start servers, one after another because each takes all cores, and end them; `path` is their PYTHONPATH."""
    with ExitStack() as stack:
        yield [stack.enter_context(_running(kind, venv, folder, path)) for kind in kinds]


@contextmanager
def headless(kind: Kind, venv: Path, folder: Path) -> Iterator[None]:
    """Start engines without an API server, which wait for theirs, and end them."""
    with (folder / f"{kind.name}.log").open("w") as output:
        process = subprocess.Popen(
            [*_command(kind, venv), "--headless", *kind.options],
            cwd=MODELS,
            env=_environment(kind, ()),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def _running(kind: Kind, venv: Path, folder: Path, path: Sequence[Path]) -> Iterator[Server]:
    port = kind.port or free_port()
    log = folder / f"{kind.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*_command(kind, venv), "--host", "127.0.0.1", "--port", str(port), *kind.options],
            cwd=MODELS,
            env=_environment(kind, path),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}", log)
            yield Server(kind, f"http://127.0.0.1:{port}", log, process.pid)
        finally:
            process.terminate()
            process.wait(60)


def _command(kind: Kind, venv: Path) -> list[str]:
    command = [str(venv / "bin" / "vllm"), "serve", f"./{kind.model}", "--load-format", "dummy"]
    if not (MODELS / kind.model / "tokenizer.json").exists():
        command.append("--skip-tokenizer-init")
    return [*command, "--enforce-eager", "--max-model-len", "2048"]


def _environment(kind: Kind, path: Sequence[Path]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in DECIDED_HERE}
    found = {"PYTHONPATH": os.pathsep.join(map(str, path))} if path else {}
    named = {} if kind.plugins is None else {"VLLM_PLUGINS": ",".join(kind.plugins)}
    return {**inherited, **QUIET, **found, **named, **kind.environment}


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends_at = time.monotonic() + START_SECONDS
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            pytest.fail(f"vLLM ended by itself: {log.read_text()[-2000:]}")
        try:
            if httpx2.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx2.TransportError:
            time.sleep(1)
    pytest.fail(f"vLLM did not come up in {START_SECONDS} s: {log.read_text()[-2000:]}")
