"""Which of a replica's answers is the best that was had, in words."""

from collections.abc import Iterable, Mapping

from dashboard.fleet import Source
from dashboard.vllm.merging import TRUST

SOURCES: Mapping[Source, str] = {
    Source.PROVIDER: "the provider",
    Source.SERVER_INFO: "/server_info",
    Source.CONFIG_API: "config API",
    Source.PLUGIN: "plugin API",
    Source.METRICS: "/metrics",
    Source.MODELS: "/v1/models",
    Source.VERSION: "/version",
    Source.KV_EVENT_SOURCES: "/kv_event_sources",
}


def best_answer(sources: Iterable[Source]) -> str | None:
    """Name the source that is trusted most of those that answered; None where nothing did."""
    best = min(sources, key=TRUST.__getitem__, default=None)
    return SOURCES[best] if best is not None else None
