"""CO-01: replicas of one pool accept requests of different lengths."""

import json
from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

MAX_MODEL_LEN = "model_config.max_model_len"
TOO_LONG = "Where vLLM then says that the memory is too small, give all of the pool the length that fits there."


@rule(
    id="CO-01",
    name="context-length-differs",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(MAX_MODEL_LEN,),
)
def context_length_differs(pool: PoolSubject, *, length_aware: bool = False) -> Iterator[Draft]:
    """Replicas of one pool accept requests of different lengths.

    The length compared is the one in force. It counts the tokens of the prompt and of the answer together.

    Why it matters:
        - any pool: A long request passes on one replica and is refused with 400 on another, so clients see errors
          that come and go with the routing; a router that shows one replica's limit promises too much for the others.

    How to fix:
        Give every replica the same `--max-model-len`. With `-1` or `auto` vLLM shrinks the length to what fits into
        the memory left on its accelerator, so equal command lines give different lengths: write the number that the
        smallest replica can hold.

    Exceptions:
        Where the router sends requests by their length, set the parameter `length_aware`: the rule then only warns.
        Or make a pool for each length with the label `pool`.

    Evidence:
        - vllm/renderers/params.py (a longer prompt is refused)
        - vllm/v1/core/kv_cache_utils.py (the length is shrunk to the memory there is)
        - vllm/v1/engine/core_client.py (the front end takes the shrunk length over)
        - llm-d/llm-d-router#710 (lengths that differ on purpose)

    Example:
        Four replicas run with `--max-model-len 131072`, one with 32768. A prompt of 60,000 tokens gets an answer four
        times of five, and else a 400 that says that the maximum context length is 32768 tokens.
    """
    for draft in drift(pool, {MAX_MODEL_LEN: "context length"}):
        yield replace(
            draft,
            sentence=draft.sentence.removesuffix(".") + _refused(draft),
            remedy=draft.remedy._replace(sentence=f"{draft.remedy.sentence} {TOO_LONG}"),
            severity=Severity.WARNING if length_aware else None,
        )


def _refused(draft: Draft) -> str:
    """Say what becomes of a long request; nothing where a length is no number."""
    lengths = [json.loads(each.value) for each in draft.evidence]
    known = [length for length in lengths if type(length) is int]
    if len(set(known)) < 2:  # noqa: PLR2004  two of them differ
        return "."
    return f"; a request of {max(known)} tokens is refused with 400 where the limit is {min(known)}."
