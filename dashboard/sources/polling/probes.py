"""The table of probes: which paths a replica is asked for, in which order."""

from dataclasses import dataclass

from dashboard.fleet import Source


@dataclass(frozen=True, slots=True)
class Probe:
    """One GET of one known path.

    `expected`: every vLLM has it, so a 404 is a failure. `light`: asked at every poll, the others only when
    everything is asked. `needs`: asked only when that path answered. `unless`: asked only when that path did not.
    """

    path: str
    source: Source
    expected: bool = False
    light: bool = False
    needs: str | None = None
    unless: str | None = None


def _plugin(name: str) -> tuple[Probe, ...]:
    config = f"/plugins/{name}/config"
    return (
        Probe(config, Source.PLUGIN),
        Probe(f"/plugins/{name}/devices", Source.PLUGIN, needs=config),
        Probe(f"/plugins/{name}/kv-cache", Source.PLUGIN, needs=config),
    )


METRICS = Probe("/metrics", Source.METRICS, expected=True, light=True)
INFERENCE_CONFIG = "/inference/v1/config?full=true"
SERVER_CONFIG = "/v1/server/config"

# The first decides whether the others are asked. The last is asked at every poll, so it can close the connection.
PROBES = (
    METRICS,
    Probe("/version", Source.VERSION, expected=True),
    Probe("/kv_event_sources", Source.KV_EVENT_SOURCES),
    Probe("/server_info?config_format=json", Source.SERVER_INFO),
    Probe(INFERENCE_CONFIG, Source.CONFIG_API),
    Probe("/v1/config", Source.CONFIG_API, unless=INFERENCE_CONFIG),
    Probe(SERVER_CONFIG, Source.CONFIG_API),
    Probe("/v1/server/kv-cache", Source.CONFIG_API, needs=SERVER_CONFIG),
    *_plugin("llm-d-server-introspection"),
    *_plugin("vllm-server-introspection"),
    Probe("/v1/models", Source.MODELS, expected=True, light=True),
)
BY_PATH = {probe.path: probe for probe in PROBES}
