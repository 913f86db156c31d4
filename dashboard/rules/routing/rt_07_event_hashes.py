"""RT-07: replicas of one pool write block hashes into KV events in different forms."""

import json
from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import NO, YES, publishing
from dashboard.rules.subject import PoolSubject

INTEGERS = "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"
PATH = f"env.{INTEGERS}"


@rule(
    id="RT-07",
    name="event-hash-form-differs",
    family=Family.ROUTING,
    severity={ImpactContext.KV_EVENTS: Severity.WARNING},
    needs=(PATH,),
)
def event_hash_form_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool write block hashes into KV events in different forms.

    They are integers of 64 bits unless `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0` asks for the whole hash as bytes.

    Why it matters:
        - kv-events: A router that knows one form fails on the events of the other replicas, or files the same block
          under another key, so they look cold.

    How to fix:
        Set `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES` to the same value on every replica, to the form that the router reads.

    Exceptions:
        A router that files integers and bytes under one key reads both.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (maybe_convert_block_hash)
        - vllm/envs.py (integers are the default)
        - llm-d/llm-d-router#365

    Example:
        One deployment sets the variable to 0 for a test. Its replicas send bytes, the others integers, and the index
        counts each block of theirs as unknown.
    """
    return drift(publishing(pool), {PATH: INTEGERS}, _as_switch)


def _as_switch(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    """0 and 1, in whatever form they are told; what is not set counts as 1."""
    if told.state is State.NULL:
        return YES
    return {"0": NO, "1": YES}.get(str(json.loads(told.value)), told)
