"""Paths of vLLM's settings: from the nested configuration to `cache_config.block_size`, and back."""

from collections.abc import Iterator, Mapping
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


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value). Settings below a path that is too long are not split: each would repeat the path."""
    if isinstance(value, dict) and (value or not prefix) and prefix not in OBJECTS and len(prefix) <= MAX_PATH:
        for key, item in value.items():
            yield from leaves(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Put (path, value) pairs back into sections. Raises ValueError for a section that is too long or below a value."""
    tree: dict[str, Any] = {}
    sections = {"": tree}
    name, section = "", tree
    for path, value in flat.items():
        above, _, last = path.rpartition(".")
        if above != name:  # settings of one section are usually adjacent
            name, section = above, sections[above] if above in sections else _section(above, sections)
        if last in section:
            raise ValueError(f"{path} has a value and settings below it")
        section[last] = value
    return tree


def _section(path: str, sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Create a section and its parents."""
    if len(path) > MAX_PATH:  # else a path of dots would be a section per dot
        raise ValueError(f"a path has more than {MAX_PATH} characters: {path[:40]}")
    above, _, name = path.rpartition(".")
    outer = sections[above] if above in sections else _section(above, sections)
    if name in outer:
        raise ValueError(f"{path} has a value and settings below it")
    outer[name] = sections[path] = {}
    return sections[path]
