"""Writes dashboard/vllm/versions.json: which setting paths exist in which vLLM version.

    python tests/tools/make_versions.py            from the captures, keeping the values of the documentation
    python tests/tools/make_versions.py PAGE.txt   the same, with a new page of the documentation

PAGE.txt is the text of vLLM's API page `vllm.config`, with the source of the configuration classes.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "captures"
DATA = ROOT / "dashboard" / "vllm" / "versions.json"

# The documentation is of the main branch, not of a release. It lacks `backend_per_kind` and `prefix_match_unit`, which
# the pages of 0.26.0 have, and has `kv_cache_size_tokens`, which 0.20.2 lacks: somewhere between the two.
DOCUMENTED = "main"
DOCUMENTED_BETWEEN = ("0.20.2", "0.26.0")
ABOUT = {
    "between": "`main` is the documentation of unreleased code, written between these two versions.",
    "types": "JSON types of the fields of `cache_config`, null set apart.",
    "paths": "The versions that have it. Sections stand here only where their leaves are not known. No environment "
    "variables: `/server_info` leaves out those that are not set, so a capture does not show which exist.",
}

# Options whose keys the operator or another library chooses, by their last segment: they are leaves.
FREE_FORM = frozenset(
    {
        "additional_config",
        "backend_per_kind",
        "bs_to_padded_graph_size",
        "custom_histogram_buckets",
        "default_mm_loras",
        "disabled_custom_ops",
        "ec_connector_extra_config",
        "enabled_custom_ops",
        "hf_overrides",
        "inductor_compile_config",
        "inductor_passes",
        "ir_op_priority",
        "kv_connector_extra_config",
        "limit_mm_per_prompt",
        "linear_backend_per_quant",
        "manager_config",
        "media_io_kwargs",
        "mm_processor_kwargs",
        "model_class_overrides",
        "model_loader_extra_config",
        "override_generation_config",
        "quant_config",
        "quantization_config",
        "ray_runtime_env",
        "static_forward_context",
    }
)
# `speculative_config.target_model_config` and its like are copies of whole sections, not compared: leaves too.
COPY = re.compile(r"speculative_config\.(target|draft)_\w+_config")
# Fields of the classes that `/server_info` leaves out (seen on 0.32.0).
NOT_SHOWN = frozenset({"device_type", "hf_config", "hf_text_config"})

# Fields that are null in every capture, as annotated in vllm/config/cache.py of 0.33.0.
ANNOTATED = {
    "cache_hit_alignment_tokens": "int",
    "hash_block_size": "int",
    "kv_cache_layout": "str",
    "kv_offloading_size": "float",
    "mamba_page_size_padded": "int",
    "num_cpu_blocks": "int",
    "num_gpu_blocks_override": "int",
    "prefix_match_unit": "int",
    "simple_cpu_offload_num_blocks": "int",
    "skip_page_size_padded": "int",
    "sliding_window": "int",
}
JSON_TYPES = {bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "object"}


def is_leaf(path: str) -> bool:
    """Return whether the values below `path` are not settings of vLLM."""
    return path.rpartition(".")[2] in FREE_FORM or COPY.fullmatch(path) is not None


def shown_paths(section: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of one `vllm_config`; a null or empty section is a path itself."""
    for name, value in section.items():
        path = prefix + name
        if isinstance(value, dict) and value and not is_leaf(path):
            yield from shown_paths(value, path + ".")
        else:
            yield path


def without_sections(paths: Iterable[str]) -> set[str]:
    """Drop what is null in one capture and a section with leaves in another."""
    found = set(paths)
    return found - {path.rpartition(".")[0] for path in found}


def read_captures(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return version -> every `vllm_config` captured of it, versions in their order.

    The Rust frontend reports options of its own under that name: it has no `cache_config`.
    """
    versions = sorted(folder.iterdir(), key=lambda version: [int(part) for part in version.name.split(".")])
    configs = {
        version.name: [json.loads(file.read_bytes())["vllm_config"] for file in version.glob("*/server_info.json")]
        for version in versions
    }
    return {version: [config for config in found if "cache_config" in config] for version, found in configs.items()}


def cache_types(configs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return field of `cache_config` -> JSON type; a field of two types is a mistake to look at."""
    types = dict(ANNOTATED)
    for config in configs:
        for name, value in config["cache_config"].items():
            if value is not None and types.setdefault(name, JSON_TYPES[type(value)]) != JSON_TYPES[type(value)]:
                raise ValueError(f"cache_config.{name} is {types[name]} and {JSON_TYPES[type(value)]}")
    return types


def documented_classes(page: str) -> dict[str, dict[str, ast.expr]]:
    """Return class -> field -> annotation of the `@config` classes whose source is on the page."""
    blocks = re.finditer(r"^@config.*\n(class \w+:\n(?:(?: .*)?\n)+)", page, re.MULTILINE)
    trees = (ast.parse(block[1]).body[0] for block in blocks)
    return {tree.name: dict(documented_fields(tree)) for tree in trees if isinstance(tree, ast.ClassDef)}


def documented_fields(tree: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the fields that `/server_info` shows: no class variables, no mere arguments."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            unseen = ast.unparse(node.annotation).startswith(("ClassVar", "InitVar"))
            if not unseen and node.target.id not in NOT_SHOWN:
                yield node.target.id, node.annotation


def documented_paths(classes: Mapping[str, Mapping[str, ast.expr]], name: str, prefix: str = "") -> Iterator[str]:
    """Yield the paths of one class; a field `x: Class` or `x: Class | None` is a section."""
    for field, annotation in classes[name].items():
        section = ast.unparse(annotation).removesuffix(" | None")
        if section in classes and not is_leaf(prefix + field):
            yield from documented_paths(classes, section, prefix + field + ".")
        else:
            yield prefix + field


def kept_paths(data: str) -> set[str]:
    """Return the values of the documentation at the time of `data`."""
    return {path for path, versions in json.loads(data)["paths"].items() if DOCUMENTED in versions}


def render(captures: Mapping[str, list[dict[str, Any]]], documented: Iterable[str]) -> str:
    """Return the text of versions.json: one path a line."""
    known: dict[str, set[str]] = {}
    for version, configs in captures.items():
        known[version] = without_sections(path for config in configs for path in shown_paths(config))
        if version == DOCUMENTED_BETWEEN[0]:
            known[DOCUMENTED] = set(documented)
    paths = {path: [version for version in known if path in known[version]] for path in set().union(*known.values())}
    types = cache_types(config for configs in captures.values() for config in configs)
    parts: dict[str, Mapping[str, object]] = {"about": ABOUT, "between": {DOCUMENTED: DOCUMENTED_BETWEEN}}
    parts |= {"types": dict(sorted(types.items())), "paths": dict(sorted(paths.items()))}
    tables = (f'  "{name}": {{\n{lines(table)}\n  }}' for name, table in parts.items())
    return "{\n" + f'  "versions": {json.dumps(list(known))},\n' + ",\n".join(tables) + "\n}\n"


def lines(table: Mapping[str, object]) -> str:
    """Return the entries of a JSON object, one a line."""
    return ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in table.items())


def main(arguments: list[str]) -> None:
    """Write the data again."""
    if arguments:
        classes = documented_classes(Path(arguments[0]).read_text(encoding="utf-8"))
        documented = set(documented_paths(classes, "VllmConfig"))
    else:
        documented = kept_paths(DATA.read_text(encoding="utf-8"))
    DATA.write_text(render(read_captures(CAPTURES), documented), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
