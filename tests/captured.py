"""Captured answers of real servers, as bodies, probe results, replies or one snapshot."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dashboard.fleet import ProbeResult, Reply, Snapshot, Target
from dashboard.sources.polling.probes import BY_PATH
from dashboard.vllm import control
from dashboard.vllm.reading import read

FOLDER = Path(__file__).parent / "captures"
AT = datetime(2026, 3, 2, 11, 42, 5, tzinfo=UTC)
METRICS, VERSION, MODELS, KV_EVENTS = "/metrics", "/version", "/v1/models", "/kv_event_sources"
SERVER_INFO = "/server_info?config_format=json"
INFERENCE_CONFIG = "/inference/v1/config?full=true"
PLUGIN = "/plugins/vllm-server-introspection"
FILES = {
    METRICS: "metrics.txt",
    VERSION: "version.json",
    MODELS: "models.json",
    KV_EVENTS: "kv_event_sources.json",
    SERVER_INFO: "server_info.json",
    INFERENCE_CONFIG: "inference_config.json",
    control.SERVER_INFO: "grpc_server_info.bin",
    control.MODEL_INFO: "grpc_model_info.bin",
    control.LORAS: "grpc_loras.bin",
    control.KV_EVENT_SOURCES: "grpc_kv_event_sources.bin",
    f"{PLUGIN}/config": "plg_config.json",
    f"{PLUGIN}/devices": "plg_devices.json",
    f"{PLUGIN}/kv-cache": "plg_kv_cache.json",
}


@dataclass(frozen=True)
class Capture:
    """One server: vLLM version, case, answers by path, launch parameters."""

    version: str
    case: str
    answers: Mapping[str, bytes]
    launch: Mapping[str, Any]

    @property
    def logged(self) -> Mapping[str, list[Any]]:
        """Values that vLLM logged at its start, one per engine: tokens, concurrency, length."""
        return dict(self.launch["startup_log"])

    @property
    def saved(self) -> Mapping[str, bytes]:
        """The answers over HTTP: what can be saved with curl and imported."""
        return {path: body for path, body in self.answers.items() if not FILES[path].startswith("grpc_")}

    def json(self, path: str) -> Any:
        """The answer to `path`, parsed."""
        return json.loads(self.answers[path])


def capture(case: str, version: str = "0.32.0") -> Capture:
    """Read the capture of a case."""
    folder = FOLDER / version / case
    answers = {path: (folder / name).read_bytes() for path, name in FILES.items() if (folder / name).exists()}
    return Capture(version, case, answers, json.loads((folder / "launch.json").read_bytes()))


def has_python_api(server: Capture) -> bool:
    """Whether vLLM's Python API server answered: the Rust frontend has no endpoint plugins and reports no engine."""
    return "rust_frontend_version" not in server.json(VERSION)


def captures(wanted: Callable[[Capture], bool] = lambda _: True) -> list[Any]:
    """Return the wanted captures as pytest parameters."""
    known = [capture(folder.name, folder.parent.name) for folder in sorted(FOLDER.glob("*/*"))]
    return [pytest.param(each, id=f"{each.version}-{each.case}") for each in known if wanted(each)]


def result(path: str, body: bytes, observed_at: datetime = AT) -> ProbeResult:
    """Return the probe result of an answer with status 200."""
    reading = read(path, body)
    return ProbeResult(path, BY_PATH[path].source, observed_at, 0.01, 200, len(body), reading.raw, reading.reply)


def replies(answers: Mapping[str, bytes], paths: Collection[str] | None = None) -> list[Reply]:
    """Return the replies of a server that answers only on `paths`."""
    return [read(path, body).reply for path, body in answers.items() if paths is None or path in paths]


def snapshot(
    answers: Mapping[str, bytes],
    paths: Collection[str] | None = None,
    *,
    target: str = "http://10.0.0.1:8000",
    labels: Mapping[str, str] | None = None,
    observed_at: datetime = AT,
) -> Snapshot:
    """Return the snapshot of a server that answers only on `paths`."""
    asked = {path: result(path, body, observed_at) for path, body in answers.items() if paths is None or path in paths}
    return Snapshot(Target(target, labels or {}), observed_at, asked)
