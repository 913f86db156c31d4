"""Servers with the same paths as vLLM that are not vLLM, by what they answer.

Sources: `owned_by` of /v1/models in sgl-project/sglang (srt/entrypoints/openai/protocol.py), ggml-org/llama.cpp
(tools/server), NVIDIA/TensorRT-LLM (serve/openai_protocol.py), InternLM/lmdeploy (serve/openai/protocol.py); vLLM's is
`vllm`. TGI's is the name of the model, so only its metrics show it (router/src/server.rs).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from dashboard.errors import UnreadableError


class OtherServer(NamedTuple):
    """A server: its name, `owned_by` of its models, and the beginning of its metrics."""

    name: str
    owner: str | None
    metrics: bytes


SERVERS = (
    OtherServer("SGLang", "sglang", b"sglang:"),
    OtherServer("Text Generation Inference", None, b"tgi_"),
    OtherServer("llama.cpp", "llamacpp", b"llamacpp:"),
    OtherServer("TensorRT-LLM", "tensorrt_llm", b"trtllm_"),
    OtherServer("LMDeploy", "lmdeploy", b"lmdeploy:"),
)
BY_OWNER = {each.owner: each for each in SERVERS if each.owner}
BY_METRICS = {each.metrics: each for each in SERVERS}
METRIC = re.compile(rb"^(?:# (?:HELP|TYPE) )?(%b)" % b"|".join(map(re.escape, BY_METRICS)), re.MULTILINE)


def refuse_owner(owners: Iterable[str | None]) -> None:
    """Raise UnreadableError where all models belong to one other server: a gateway in front of vLLM lists several."""
    if len(found := set(owners)) == 1 and (server := BY_OWNER.get(found.pop() or "")):
        raise _refused(server)


def refuse_metrics(page: bytes) -> None:
    """Raise UnreadableError where a page of /metrics without a metric of vLLM has those of another server."""
    if match := METRIC.search(page):
        raise _refused(BY_METRICS[match[1]])


def _refused(server: OtherServer) -> UnreadableError:
    return UnreadableError(
        "not_vllm", f"Not vLLM ({server.name}): it is compared with nothing. Remove it from the targets."
    )
