"""Records /metrics of live vLLM servers twice, with requests before each read: `tests/traffic`.

usage: python -m tests.tools.traffic_captures VENV [CASE...]
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from tests.live.servers import ANSWER_SECONDS, Kind, Server, running

FOLDER = Path(__file__).parents[1] / "traffic"
ALGORITHM = ("--prefix-caching-hash-algo", "sha256_cbor")
CASES = (
    Kind("llama", "llama", ALGORITHM),
    Kind("llama_no_caching", "llama", ("--no-enable-prefix-caching",)),
    Kind("llama_dp2", "llama", (*ALGORITHM, "--data-parallel-size", "2"), {"VLLM_CPU_SIM_MULTI_NUMA": "1"}),
    Kind("llama_servers", "llama", (*ALGORITHM, "--api-server-count", "2")),
    Kind("llama_rust", "llama_tokenizer", (), {"VLLM_USE_RUST_FRONTEND": "1"}),
)
GROUPS = 3  # requests of one group begin with the same tokens
PREFIX, REST = 512, 70  # tokens; a block of vLLM for CPUs has 128
BEFORE, BETWEEN = 6, 18  # requests before the first read and before the second


def main(venv: str, *wanted: str) -> None:
    for kind in CASES:
        if not wanted or kind.name in wanted:
            with TemporaryDirectory() as folder, running([kind], Path(venv), Path(folder)) as servers:
                asyncio.run(_record(kind, servers[0]))


async def _record(kind: Kind, server: Server) -> None:
    version = server.json("/version")["version"].partition("+")[0]
    folder = FOLDER / version / kind.name
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"options": kind.options, "environment": kind.environment, "reads": []}
    sent = 0
    for name, number in (("first", BEFORE), ("second", BETWEEN)):
        prompts = [_prompt(each) for each in range(sent, sent + number)]
        usages = await _complete(server, prompts)
        sent += number
        await asyncio.sleep(3)  # the counters of an engine follow its last step
        at = time.time()
        (folder / f"{name}.txt").write_text(server.get("/metrics").text)
        told["reads"].append({"at": at, "requests": number, "prompt_tokens": sum(usages)})
    (folder / "told.json").write_text(json.dumps(told, indent=1) + "\n")


def _prompt(number: int) -> list[int]:
    start = number % GROUPS
    return [start + 3 * each % 900 for each in range(PREFIX)] + [(17 * number + each) % 1000 for each in range(REST)]


async def _complete(server: Server, prompts: Sequence[list[int]]) -> list[int]:
    """Send prompts one after another, so that each finds the blocks of those before; return their counted tokens."""
    model = server.json("/v1/models")["data"][0]["id"]
    usages = []
    async with httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client:
        for prompt in prompts:
            body = {"model": model, "prompt": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
            answer = await client.post(f"{server.url}/v1/completions", json={**body, "detokenize": False})
            usages.append(answer.raise_for_status().json()["usage"]["prompt_tokens"])
    return usages


if __name__ == "__main__":
    main(*sys.argv[1:])
