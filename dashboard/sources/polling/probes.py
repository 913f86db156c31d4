"""The probes of a replica, in order, and the reader of their answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from dashboard.config import PollOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Failure, FailureKind, ProbeResult, Reply, Source, Target
from dashboard.fleet.replies import GRPC_PORT
from dashboard.sources.http import failures
from dashboard.sources.http.failures import Endpoint
from dashboard.vllm import control, reading
from dashboard.vllm.metrics import select_lines
from dashboard.vllm.reading import Reading
from dashboard.vllm.replica import RUST_VERSION

DIGEST_BYTES = 16  # an equal digest of two bodies takes 2^64 tries


@dataclass(frozen=True, slots=True)
class Probe:
    """One GET of one known path, or one call of a gRPC method by its path.

    `expected`: every vLLM has it, a 404 is a failure.
    `needs`: sent only when that path answered. `unless`: sent only when that path did not.
    """

    path: str
    source: Source
    expected: bool = False
    needs: str | None = None
    unless: str | None = None


def _plugin(name: str) -> tuple[Probe, ...]:
    config = f"/plugins/{name}/config"
    return (
        Probe(config, Source.PLUGIN),
        Probe(f"/plugins/{name}/devices", Source.PLUGIN, needs=config),
        Probe(f"/plugins/{name}/kv-cache", Source.PLUGIN, needs=config),
    )


VERSION = Probe("/version", Source.VERSION, expected=True)
METRICS = Probe("/metrics", Source.METRICS, expected=True)
INFERENCE_CONFIG = "/inference/v1/config?full=true"
PROVIDER = Probe(INFERENCE_CONFIG, Source.CONFIG_API)
MODELS = Probe("/v1/models", Source.MODELS, expected=True)
SERVER_CONFIG = "/v1/server/config"

# The first decides whether the others are sent; the last closes the connection.
PROBES = (
    METRICS,
    VERSION,
    Probe("/kv_event_sources", Source.KV_EVENT_SOURCES),
    Probe("/server_info?config_format=json", Source.SERVER_INFO),
    PROVIDER,
    Probe("/v1/config", Source.CONFIG_API, unless=INFERENCE_CONFIG),
    Probe(SERVER_CONFIG, Source.CONFIG_API),
    Probe("/v1/server/kv-cache", Source.CONFIG_API, needs=SERVER_CONFIG),
    *_plugin("llm-d-server-introspection"),
    *_plugin("vllm-server-introspection"),
    MODELS,
)
# The only methods that are called, and only where a port is set. The first decides whether the others are called.
GRPC_PROBES = (
    Probe(control.SERVER_INFO, Source.GRPC, expected=True),
    *(Probe(path, Source.GRPC, needs=control.SERVER_INFO) for path in control.PATHS[1:]),
)
BY_PATH = {probe.path: probe for probe in (*PROBES, *GRPC_PROBES)}


def grpc_port(target: Target, limits: PollOptions, version: Reply | None) -> str | None:
    """Return the port of the label, else that of the options where `version` shows the Rust frontend; None: no call."""
    is_rust = version is not None and RUST_VERSION in version.settings
    return target.labels.get(GRPC_PORT, str(limits.grpc_port or "") if is_rust else "") or None


class Reader:
    """Reads bodies and caches the last ones of each path; equal bodies share a reply, pages of /metrics equal lines."""

    def __init__(self, read: Callable[[str, bytes], Reading] = reading.read) -> None:
        self._read = read
        self._readings: dict[tuple[str, bytes], Reading] = {}

    def read(self, probe: Probe, endpoint: Endpoint, body: bytes) -> Reading | Failure:
        """Return the reading of `body`, or the failure. Never raises."""
        try:
            part = select_lines(body) if probe is METRICS else body
        except UnreadableError:
            part = None
        if part is None or probe is MODELS:  # different every time: counters, times
            return self._try(endpoint, body)
        key = _key(probe, part)
        if key in self._readings:
            return self._readings[key]
        read = self._try(endpoint, part)
        if not isinstance(read, Failure):
            self._readings[key] = read
        return read

    def knows(self, probe: Probe, body: bytes) -> bool:
        """Return whether an equal body was read: it is read again in the time of its digest."""
        return probe not in {METRICS, MODELS} and _key(probe, body) in self._readings

    def forget_all_but(self, results: Iterable[ProbeResult]) -> None:
        """Keep only the readings of these results."""
        kept = {id(result.reply) for result in results}
        self._readings = {key: read for key, read in self._readings.items() if id(read.reply) in kept}

    def _try(self, endpoint: Endpoint, body: bytes) -> Reading | Failure:
        try:
            return self._read(endpoint.path, body)
        except UnreadableError as error:
            return Failure(FailureKind(error.kind), error.detail)
        except Exception as mistake:  # noqa: BLE001  one replica's answer must never end the poll of all
            return failures.unread(endpoint, mistake)


def _key(probe: Probe, body: bytes) -> tuple[str, bytes]:
    return probe.path, blake2b(body, digest_size=DIGEST_BYTES).digest()
