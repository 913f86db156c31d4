"""How each setting is changed, and what sets it: for remedies and the fix plan."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import islice, product

from dashboard.compare.baseline import expected_value, is_ignored
from dashboard.fleet import Baseline, Setting, SettingValue, Source, State
from dashboard.fleet.formatting import joined
from dashboard.rules.capacity.graphs import LARGEST, MODES, SEQS, SIZES, SPECULATED, TOKENS, are_derived_sizes
from dashboard.rules.connector_options import native
from dashboard.rules.remedy import SERVED_NAMES, Assignment, assignment, flag_of, is_default
from vllm_fleet_provider.shared.identity import EVENT_ADDRESSES, EVENT_TOPIC, NO_PORT, PATHS_OF_FILES

VERSION = "version"
GRAPH_MODE = "compilation_config.cudagraph_mode"
FIRST_NAME = "model_config.served_model_name"
# Settings that vLLM derives from others unless they are set (vllm/config/vllm.py and scheduler.py).
_GRAPHS = (SEQS, TOKENS, SPECULATED)
FOLLOWS_FROM = {
    SIZES: _GRAPHS,
    LARGEST: _GRAPHS,
    "compilation_config.compile_ranges_endpoints": (TOKENS,),
    "scheduler_config.max_num_scheduled_tokens": (TOKENS,),
    "scheduler_config.max_num_encoder_input_tokens": (TOKENS,),
    "scheduler_config.encoder_cache_size": (TOKENS,),
    FIRST_NAME: (SERVED_NAMES,),
}
# A configuration reports these as numbers, a command line also accepts names (vllm/config/compilation.py).
_NUMBERED = frozenset({GRAPH_MODE, "compilation_config.mode", "optimization_level"})
# Names are foreign text: nothing that a shell could interpret is put on a command line.
VARIABLE = re.compile(r"env\.([A-Za-z_][A-Za-z0-9_]*)")
_FLAG = re.compile(r"--[A-Za-z0-9_.-]+")
_MAX_COMBINATIONS = 64  # of limits from which an expected value may follow
_MAX_TOKENS = 2**31  # a range may end in infinity

IMAGE_FIRST = "Change the image first, restart and compare again: other differences may be defaults of the version."


class ApplyMethod(StrEnum):
    """How a setting gets its new value."""

    FLAG = "flag"
    NO_FLAG = "no flag"  # remove its flag
    VARIABLE = "variable"
    NO_VARIABLE = "no variable"
    IMAGE = "image"  # a different version of vLLM
    BY_HAND = "by hand"  # part of the value is each replica's own
    CHOICE = "choice"  # any value of a range, and the pool has no usual one
    MISFIT = "misfit"  # not a value of this setting: text instead of a number or switch
    OPEN = "open"  # follows from settings with several allowed values
    FOLLOWS = "follows"  # derived from other settings, the version or the hardware


def apply_methods(
    wanted: Mapping[str, SettingValue], *, derives_sizes: bool, left: Mapping[str, ApplyMethod] | None = None
) -> Mapping[str, ApplyMethod]:
    """Return how each setting gets its wanted value, by path.

    `derives_sizes`: the wanted CUDA graph sizes are those that vLLM derives. `left` is the result of `manual_methods`.
    """
    by_path = {path: _method(path, value, wanted.keys(), derives_sizes=derives_sizes) for path, value in wanted.items()}
    return by_path | {path: method for path, method in (left or {}).items() if path in wanted}


def paths_after_image(how: Mapping[str, ApplyMethod]) -> AbstractSet[str]:
    """Return the paths to change after the image: where it changes, all others.

    A different version has different defaults, so some of the rest may need no change. `how` is from `apply_methods`.
    """
    others = {path for path, method in how.items() if method is not ApplyMethod.IMAGE}
    return others if len(others) < len(how) else frozenset()


def manual_methods(
    baseline: Baseline,
    usual: Mapping[str, SettingValue],
    values: Callable[[str], Collection[SettingValue]],
    paths: Iterable[str],
) -> Mapping[str, ApplyMethod]:
    """Return the methods of a baseline's settings that need a decision.

    These are ranges without a usual value, misfits, and what follows from settings with several allowed values.
    `usual` is the result of `usual_values`; `values` returns the values that the pool reports for a path.
    """
    left = {}
    for path in paths:
        tolerance = baseline.tolerated.get(path)
        if tolerance is not None and not tolerance.any_of and path not in usual:
            left[path] = ApplyMethod.CHOICE
        elif path in baseline.expected and is_misfit(path, expected_value(baseline.expected[path]), values(path)):
            left[path] = ApplyMethod.MISFIT
        elif path in baseline.expected and _is_open(baseline, path, values):
            left[path] = ApplyMethod.OPEN
    return left


def derived_paths(settings: Mapping[str, Setting]) -> AbstractSet[str]:
    """Return the paths with values that vLLM derives from the document's other settings."""
    return {path for path in FOLLOWS_FROM if path in settings and _is_as_derived(settings, path)}


def open_sources(baseline: Baseline, path: str) -> tuple[str, ...]:
    """Return the settings that a path follows from and for which a baseline allows several values."""
    sources = FOLLOWS_FROM.get(path, ())
    return tuple(each for each in sources if each in baseline.tolerated or is_ignored(baseline, each))


def _is_as_derived(settings: Mapping[str, Setting], path: str) -> bool:
    if path in {SIZES, LARGEST}:
        return are_derived_sizes(settings)
    own, source = native(settings, path), native(settings, FOLLOWS_FROM[path][0])
    if path == FIRST_NAME:
        return isinstance(source, list) and source[:1] == [own]
    return source is not None and own in (source, [source])


def _is_open(baseline: Baseline, path: str, values: Callable[[str], Collection[SettingValue]]) -> bool:
    """Return whether vLLM derives an expected value from settings with several allowed values."""
    opened = open_sources(baseline, path)
    if not opened:
        return False
    fixed = [each for each in (path, *FOLLOWS_FROM[path]) if each in baseline.expected and each not in opened]
    base = {each: Setting(*expected_value(baseline.expected[each]), Source.SERVER_INFO) for each in fixed}
    # A limit that is not in the baseline may have any reported value.
    free = {each: _possible(baseline, each, values(each)) for each in FOLLOWS_FROM[path] if each not in fixed}
    known = {each: texts for each, texts in free.items() if texts}
    for texts in islice(product(*known.values()), _MAX_COMBINATIONS):
        limits = {
            each: Setting(text, State.REPORTED, Source.SERVER_INFO) for each, text in zip(known, texts, strict=True)
        }
        if _is_as_derived({**base, **limits}, path):
            return True
    return False


def _possible(baseline: Baseline, path: str, values: Collection[SettingValue]) -> list[str]:
    """Return values that a setting may have: expected, tolerated, then reported ones."""
    texts = [baseline.expected[path]] if path in baseline.expected else []
    if tolerance := baseline.tolerated.get(path):
        ends = (tolerance.at_least, tolerance.at_most)
        texts += [*tolerance.any_of, *(str(int(end)) for end in ends if end is not None and abs(end) < _MAX_TOKENS)]
    texts += sorted(each.value for each in values if each.state is State.REPORTED)
    return list(dict.fromkeys(texts))


def _method(path: str, wanted: SettingValue, changed: AbstractSet[str], *, derives_sizes: bool) -> ApplyMethod:
    if path == VERSION:
        return ApplyMethod.IMAGE
    is_set = wanted.state is State.REPORTED and not is_default(path, wanted)
    if path.startswith("env."):
        if VARIABLE.fullmatch(path) is None:
            return ApplyMethod.BY_HAND
        return ApplyMethod.VARIABLE if is_set else ApplyMethod.NO_VARIABLE
    flag = "--served-model-name" if path == SERVED_NAMES else flag_of(path)
    follows = not changed.isdisjoint(FOLLOWS_FROM.get(path, ())) and (derives_sizes or path not in {SIZES, LARGEST})
    if flag is None or follows:
        return ApplyMethod.FOLLOWS
    # Compared values lack the part that is each replica's own: host, pod or folder.
    is_part = NO_PORT in wanted.value or (path in PATHS_OF_FILES and "/" not in wanted.value)
    if path in EVENT_ADDRESSES or path == EVENT_TOPIC:
        is_part = "{" in wanted.value
    if is_part or not _FLAG.fullmatch(flag):
        return ApplyMethod.BY_HAND
    return ApplyMethod.FLAG if is_set else ApplyMethod.NO_FLAG


def assignment_for(path: str, wanted: SettingValue) -> Assignment | None:
    """Return what sets a value; None where nothing can be pasted."""
    if path == GRAPH_MODE:
        wanted = wanted._replace(value=MODES.get(wanted.value, wanted.value))
    return assignment(path, wanted)


def removable_flags(paths: Iterable[str]) -> tuple[str, ...]:
    following = (path for path in paths if path in FOLLOWS_FROM and path != FIRST_NAME)
    return tuple(flag for path in following if (flag := flag_of(path)))


def removable_text(flags: Iterable[str]) -> str:
    return f"Remove {joined(list(flags))} where set: vLLM derives the value from the settings above."


def is_misfit(path: str, wanted: SettingValue, values: Collection[SettingValue]) -> bool:
    """Return whether a value has a different type than the reported ones: text instead of a number or switch."""
    if wanted.state is not State.REPORTED or path in _NUMBERED:
        return False
    kinds = {_kind(each) for each in values if each.state is State.REPORTED}
    return (_kind(wanted), kinds) in [("text", {"number"}), ("switch", {"number"}), ("text", {"switch"})]


def _kind(value: SettingValue) -> str:
    if value.value in {"true", "false"}:
        return "switch"
    if value.value.startswith('"'):
        return "text"
    return "other" if value.value.startswith(("[", "{")) else "number"
