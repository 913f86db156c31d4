"""A baseline as a YAML file for people to edit, made of what replicas tell."""

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Setting
from dashboard.report.baseline.yaml_text import is_writable, yaml_comment, yaml_pair, yaml_scalar
from dashboard.rules.settable import derived

DEEPEST = 15  # levels of a value; the reader of options goes 20 deep, and a baseline's values begin two deep
# The engine computes these of other settings (vllm/config/cache.py): nothing sets them, so nobody agrees on them.
FOLLOWING = frozenset(
    {
        "cache_config.effective_attention_block_size",
        "cache_config.cache_hit_alignment_tokens",
        "cache_config.mamba_page_size_padded",
        "cache_config.skip_page_size_padded",
    }
)
BUILD_FACTS = "env.VLLM_BUILD_"  # how a wheel was built: the version says what was
HOW_TO = (
    f"Left out: what vLLM derives from other settings (sizes of CUDA graphs) and facts of a build ({BUILD_FACTS}*).",
    "A value that may differ goes from expected to tolerated: {any_of: [128, 256]}, {at_least: 0.9, at_most: 0.95}.",
    "Globs over settings that do not matter go under ignored. What stands behind a # is kept and shown.",
)
# Above hundreds of expected settings, each with the line to write: nobody finds them below. Empty, they say nothing.
NOT_YET = (
    "tolerated:",
    "  # cache_config.block_size: {any_of: [16, 32]}",
    "ignored:",
    "  # - observability_config.*",
)


def baseline_yaml(pool: str, settings: Mapping[str, Setting], *, made_of: str, context_line: str) -> str:
    """Write the file of a pool's baseline, in which every setting that people agree on is expected.

    Secrets, what is not known and what nobody sets are left out. `made_of` says whose settings they are, `context_line`
    of when.
    """
    told = agreeable(settings)
    head = [f"What the replicas of the pool {pool} should tell. Made of {made_of}.", context_line, *HOW_TO]
    lines = [yaml_comment(line) for line in head]
    lines += ["version: 1", f"pool: {yaml_scalar(pool)}", *NOT_YET, "expected:" if told else "expected: {}"]
    for number, (_, paths) in enumerate(groupby(sorted(told, key=place), key=section)):
        lines += [""] if number else []
        lines += [f"  {yaml_pair(path, told[path])}" for path in paths]
    return "\n".join(lines) + "\n"


def agreeable(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings that people agree on, as native JSON: those of `writable` without what nobody sets.

    That is what follows from other settings, and how vLLM was built.
    """
    left = FOLLOWING | derived(settings)
    told = writable(settings)
    return {path: value for path, value in told.items() if path not in left and not path.startswith(BUILD_FACTS)}


def writable(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings that a baseline can expect, as native JSON: those that have a value, null included."""
    native = {path: json.loads(setting.value) for path, setting in settings.items() if is_comparable(setting.state)}
    return {path: value for path, value in native.items() if is_writable({path: value}, DEEPEST)}


def place(path: str) -> tuple[bool, str, str]:
    """Order paths: what stands in no section first, then section by section."""
    return "." in path, section(path), path


def section(path: str) -> str:
    """Return the section of a path; none of what stands in no section."""
    return path.partition(".")[0] if "." in path else ""
