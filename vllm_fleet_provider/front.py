"""Values that only the API server knows: names, chat template, LoRA adapters, and the number of ranks."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.gathering import at, clean, found
from vllm_fleet_provider.sections import PARALLELISM, section_of
from vllm_fleet_provider.shared.inference_config import MAX_ADAPTERS
from vllm_fleet_provider.shared.types import MAX_INTEGER, LimitedText

if TYPE_CHECKING:
    from vllm_fleet_provider.gathering import Gathering

DIGEST = 16  # hex digits of the SHA-256 of the chat template
# An engine with independent ranks resets these to a single engine (vllm/config/parallel.py,
# reconfigure_for_independent_dp_rank). Everything else in the section is each engine's own.
SIZES = frozenset({"data_parallel_size", "data_parallel_size_local"})
# An engine reports it to the API server at its start and uses it, but resets its own copy to the platform's default
# (vllm/v1/engine/core.py, _perform_handshakes: 128 on CPU for a Mamba model with blocks of 2,048 tokens).
BLOCK_SIZE = "cache_config.block_size"


def served_names_of(state: Any, gathering: Gathering) -> list[str] | None:
    """Return all served names. Metrics use the first."""
    names: list[str] | None = gathering.take(
        "model.served_model_names",
        lambda: [card.name for card in state.openai_serving_models.base_model_paths],
        list[LimitedText],
    )
    return names


def parallelism_of(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return the requested numbers of DP ranks, by field of the section `parallelism`."""
    fields = tuple(field for field in PARALLELISM if field.name in SIZES)
    return section_of("parallelism", fields, vllm_config, gathering)


def block_size_of(vllm_config: Any) -> int | None:
    """Return the tokens of a block that the engines reported at their start; None if the API server has none."""
    tokens = found(vllm_config, BLOCK_SIZE)
    return tokens if type(tokens) is int and 0 < tokens <= MAX_INTEGER else None


def chat_of(state: Any, gathering: Gathering) -> dict[str, Any]:
    """Return `fleet.chat`: how this server tokenizes conversations (vllm/entrypoints/launchers/cli_args.py)."""
    options = {
        "template_content_format": ("args.chat_template_content_format", LimitedText | None),
        "tool_call_parser": ("args.tool_call_parser", LimitedText | None),
        "reasoning_parser": ("args.structured_outputs_config.reasoning_parser", LimitedText | None),
        "enable_auto_tool_choice": ("args.enable_auto_tool_choice", bool | None),
    }
    values = {
        name: gathering.take(f"fleet.chat.{name}", partial(at, state, path), shape)
        for name, (path, shape) in options.items()
    }
    digest = gathering.take("fleet.chat.template_digest", lambda: _template_digest(state), LimitedText | None)
    return {"template_digest": digest, **values}


def adapters_of(state: Any) -> list[dict[str, Any]] | None:
    """Return the LoRA adapters that are loaded now, from a dictionary of this process. None: unknown."""
    try:
        loaded = list(state.openai_serving_models.lora_requests.values())[:MAX_ADAPTERS]
        return [{"name": clean(str(one.lora_name)), "path": clean(str(one.lora_path))} for one in loaded]
    except Exception:  # noqa: BLE001  read at each request, so not logged
        return None


def _template_digest(state: Any) -> str | None:
    """Return the digest of the template for conversations without tools; None if there is no template."""
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
    """Return the text of the template of --chat-template."""
    if option is None:
        return None
    try:
        module = import_module("vllm.renderers.chat_utils")
    except ModuleNotFoundError:  # vLLM 0.26
        module = import_module("vllm.entrypoints.chat_utils")
    found: str | None = module.load_chat_template(option)
    return found
