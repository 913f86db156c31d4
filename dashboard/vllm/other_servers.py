"""Servers with the same paths as vLLM that are not vLLM, by what they answer.

Sources: `owned_by` of /v1/models in sgl-project/sglang (srt/entrypoints/openai/protocol.py), ggml-org/llama.cpp
(tools/server), NVIDIA/TensorRT-LLM (serve/openai_protocol.py), InternLM/lmdeploy (serve/openai/protocol.py); vLLM's is
`vllm`. TGI's is the name of the model, so only its metrics show it (router/src/server.rs).
"""

import re
from collections.abc import Iterable

from dashboard.errors import UnreadableError

BY_OWNER = {"sglang": "SGLang", "llamacpp": "llama.cpp", "tensorrt_llm": "TensorRT-LLM", "lmdeploy": "LMDeploy"}
BY_METRICS = {  # by the beginning of the names
    b"sglang:": "SGLang",
    b"tgi_": "Text Generation Inference",
    b"llamacpp:": "llama.cpp",
    b"trtllm_": "TensorRT-LLM",
    b"lmdeploy:": "LMDeploy",
}
METRIC = re.compile(rb"^(?:# (?:HELP|TYPE) )?(%b)" % b"|".join(map(re.escape, BY_METRICS)), re.MULTILINE)


def refuse_owner(owners: Iterable[str | None]) -> None:
    """Raise UnreadableError where all models belong to one other server: a gateway in front of vLLM lists several."""
    if len(found := set(owners)) == 1 and (name := BY_OWNER.get(found.pop() or "")):
        raise _refused(name)


def refuse_metrics(page: bytes) -> None:
    """Raise UnreadableError where a page of /metrics without a metric of vLLM has those of another server."""
    if match := METRIC.search(page):
        raise _refused(BY_METRICS[match[1]])


def _refused(name: str) -> UnreadableError:
    return UnreadableError("not_vllm", f"Not vLLM ({name}): it is compared with nothing. Remove it from the targets.")
