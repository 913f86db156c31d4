"""GET /kv_event_sources (vLLM 0.32 on): who publishes KV cache events, per DP rank."""

from typing import Annotated

from pydantic import Field, RootModel

from dashboard.vllm.schemas.base import Count, Text, Wire

MAX_RANKS = 4096


class KVEventSource(Wire):
    """One DP rank's publisher. `endpoint` is the bound one: its port counts up with the rank."""

    enable_kv_cache_events: bool | None = None
    publisher: Text | None = None
    endpoint: Text | None = None
    replay_endpoint: Text | None = None
    buffer_steps: Count | None = None
    hwm: Count | None = None
    max_queue_size: Count | None = None
    topic: Text | None = None


class KVEventSourcesReply(RootModel[Annotated[dict[Count, KVEventSource], Field(max_length=MAX_RANKS)]]):
    """DP rank to publisher; `{}` when nothing is published: events are off, or their publisher is `null`."""
