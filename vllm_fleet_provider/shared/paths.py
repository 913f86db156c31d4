"""Paths of vLLM's settings: from the nested configuration to `cache_config.block_size`."""

from collections.abc import Mapping
from typing import Any

MAX_PATH = 400  # characters; the longest in the captures has 93

# Options that are one free-form object: shown and compared whole.
OBJECTS = frozenset(
    {
        "model_config.hf_overrides",
        "model_config.model_class_overrides",
        "model_config.override_generation_config",
        "model_config.quantization_config",
        "model_config.multimodal_config.limit_per_prompt",
        "model_config.multimodal_config.media_io_kwargs",
        "model_config.multimodal_config.mm_processor_kwargs",
        "load_config.model_loader_extra_config",
        "attention_config.backend_per_kind",
        "kernel_config.ir_op_priority",
        "kernel_config.linear_backend_per_quant",
        "lora_config.default_mm_loras",
        "compilation_config.inductor_compile_config",
        "compilation_config.inductor_passes",
        "ec_manager_config.manager_config",
        "speculative_config.num_speculative_tokens_per_batch_size",
        "additional_config",
    }
)


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration by path. Settings below a path that is too long stay one: each would repeat the path."""
    flat: dict[str, Any] = {}
    _flatten(config, "", flat)
    return flat


def _flatten(section: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
    for name, value in section.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and path not in OBJECTS and len(path) <= MAX_PATH:
            _flatten(value, f"{path}.", flat)
        else:
            flat[path] = value


def refuse_overlaps(settings: Mapping[str, Any]) -> None:
    """Raise ValueError for settings that no configuration has: a section that is too long, or below a value."""
    sections: set[str] = set()
    for path in settings:
        section = path.rpartition(".")[0]
        if len(section) > MAX_PATH:  # else a path of dots would be a section per dot
            raise ValueError(f"a path has more than {MAX_PATH} characters: {section[:40]}")
        while section and section not in sections:
            sections.add(section)
            section = section.rpartition(".")[0]
    for path in settings:
        if path in sections:
            raise ValueError(f"{path} has a value and settings below it")
