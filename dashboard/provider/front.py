"""What only the API server knows: names, the chat template, LoRA adapters, and how all ranks stand together."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dashboard.provider.gathering import at, clean, found
from dashboard.provider.sections import PARALLELISM, section_of
from dashboard.vllm.schemas.inference_config import MAX_ADAPTERS
from dashboard.vllm.schemas.types import MAX_INTEGER, Text

if TYPE_CHECKING:
    from dashboard.provider.gathering import Gathering

DIGEST = 16  # hex digits of the SHA-256 of the chat template
# What an engine whose ranks are independent forgets: it takes itself for alone (vllm/config/parallel.py,
# reconfigure_for_independent_dp_rank). All else in the section is each engine's own.
SIZES = frozenset({"data_parallel_size", "data_parallel_size_local"})
# An engine tells it to the API server at its start, goes on with it, and yet sets its own copy back to its platform's
# default (vllm/v1/engine/core.py, _perform_handshakes: on CPU 128 for a Mamba whose blocks hold 2,048 tokens).
BLOCK_SIZE = "cache_config.block_size"


def served_names_of(state: Any, gathering: Gathering) -> list[str] | None:
    """Return all served names, the first of which metrics use."""
    names: list[str] | None = gathering.take(
        "model.served_model_names",
        lambda: [card.name for card in state.openai_serving_models.base_model_paths],
        list[Text],
    )
    return names


def parallelism_of(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return how many DP ranks the operator asked for, by the names of the section `parallelism`."""
    fields = tuple(field for field in PARALLELISM if field.name in SIZES)
    return section_of("parallelism", fields, vllm_config, gathering)


def block_size_of(vllm_config: Any) -> int | None:
    """Return the tokens of a block, as the engines told them at their start; None where the API server has none."""
    told = found(vllm_config, BLOCK_SIZE)
    return told if type(told) is int and 0 < told <= MAX_INTEGER else None


def chat_of(state: Any, gathering: Gathering) -> dict[str, Any]:
    """Return `fleet.chat`: how this server makes tokens of conversations (vllm/entrypoints/launchers/cli_args.py)."""
    options = {
        "template_content_format": ("args.chat_template_content_format", Text | None),
        "tool_call_parser": ("args.tool_call_parser", Text | None),
        "reasoning_parser": ("args.structured_outputs_config.reasoning_parser", Text | None),
        "enable_auto_tool_choice": ("args.enable_auto_tool_choice", bool | None),
    }
    told = {
        name: gathering.take(f"fleet.chat.{name}", partial(at, state, path), shape)
        for name, (path, shape) in options.items()
    }
    digest = gathering.take("fleet.chat.template_digest", lambda: _template_digest(state), Text | None)
    return {"template_digest": digest, **told}


def adapters_of(state: Any) -> list[dict[str, Any]] | None:
    """Return the LoRA adapters that are loaded now: a look at a dictionary in this process. None: not known."""
    try:
        loaded = list(state.openai_serving_models.lora_requests.values())[:MAX_ADAPTERS]
        return [{"name": clean(str(one.lora_name)), "path": clean(str(one.lora_path))} for one in loaded]
    except Exception:  # noqa: BLE001  asked for at each request: nothing is logged again and again
        return None


def _template_digest(state: Any) -> str | None:
    """Digest the text of the template that a conversation without tools goes through; None where there is none."""
    text = _template(state)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST] if isinstance(text, str) else None


def _template(state: Any) -> str | None:
    tokenizer, given = state.engine_client.renderer.tokenizer, _given(state.args.chat_template)
    if tokenizer is None:
        return given
    resolve = import_module("vllm.renderers.hf").resolve_chat_template
    found: str | None = resolve(tokenizer, given, None, model_config=state.vllm_config.model_config)
    return found


def _given(option: Any) -> str | None:
    """Return the text of the template that the operator names by --chat-template."""
    if option is None:
        return None
    try:
        module = import_module("vllm.renderers.chat_utils")
    except ModuleNotFoundError:  # vLLM 0.26 has it elsewhere
        module = import_module("vllm.entrypoints.chat_utils")
    found: str | None = module.load_chat_template(option)
    return found
