"""How each setting takes its value, and what to type for it: one way for remedies and for what-ifs."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from dashboard.compare.agreement import agreed_told
from dashboard.models import State
from dashboard.normalize.identity import EVENT_ADDRESSES, EVENT_TOPIC, PATHS_OF_FILES
from dashboard.rules.capacity.cp_05_compilation import MODES
from dashboard.rules.capacity.graph_sizes import LARGEST, SEQS, SIZES, SPECULATED, TOKENS
from dashboard.rules.remedy import SERVED_NAMES, flag_of, is_left_out, pasteable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from dashboard.models import Baseline, Told
    from dashboard.rules.findings import Snippet

VERSION = "version"
GRAPH_MODE = "compilation_config.cudagraph_mode"
FIRST_NAME = "model_config.served_model_name"
# What vLLM derives of other settings unless somebody sets it (vllm/config/vllm.py), by what it derives it of.
_GRAPHS = (SEQS, TOKENS, SPECULATED)
FOLLOWS_FROM = {
    SIZES: _GRAPHS,
    LARGEST: _GRAPHS,
    "compilation_config.compile_ranges_endpoints": (TOKENS,),
    "scheduler_config.max_num_scheduled_tokens": (TOKENS,),
    FIRST_NAME: (SERVED_NAMES,),
}
# A configuration shows the numbers of these, a command line takes their names too (vllm/config/compilation.py).
_NUMBERED = frozenset({GRAPH_MODE, "compilation_config.mode", "optimization_level"})
# Names come from strangers: what a shell could read as more than a name is never put on a command line.
VARIABLE = re.compile(r"env\.([A-Za-z_][A-Za-z0-9_]*)")
_FLAG = re.compile(r"--[A-Za-z0-9_.-]+")


IMAGE_FIRST = "Change the image first, restart, and look again: what else differs may be the default of a version."


class How(StrEnum):
    """What makes a setting take its new value."""

    FLAG = "flag"
    NO_FLAG = "no flag"  # its flag is taken away: the target does not set it
    VARIABLE = "variable"
    NO_VARIABLE = "no variable"
    IMAGE = "image"  # another version of vLLM
    BY_HAND = "by hand"  # a part of the value is each replica's own
    CHOICE = "choice"  # any value of a range will do, and the pool does not say which
    MISFIT = "misfit"  # no value: a text where vLLM has a number, or true and false
    FOLLOWS = "follows"  # nothing sets it: it follows from other settings, the version or the hardware


def ways(
    wanted: Mapping[str, Told], *, derives_sizes: bool, left: Mapping[str, How] | None = None
) -> Mapping[str, How]:
    """Return how each setting takes the value that is wanted of it, by path.

    `derives_sizes`: the sizes of CUDA graphs that are wanted are those that vLLM derives. `left` is what is left to
    people, of `left_to_people`.
    """
    by_path = {path: _how(path, told, wanted.keys(), derives_sizes=derives_sizes) for path, told in wanted.items()}
    return by_path | {path: way for path, way in (left or {}).items() if path in wanted}


def waiting(how: Mapping[str, How]) -> AbstractSet[str]:
    """Return the paths that wait until the replicas run another image: where the image changes, all but that.

    Another version has other defaults, so that some of the rest may not need to be set at all. `how` is of `ways`.
    """
    return {path for path, way in how.items() if way is not How.IMAGE} if How.IMAGE in how.values() else frozenset()


def left_to_people(
    baseline: Baseline, usual: Mapping[str, Told], told: Callable[[str], Collection[Told]], paths: Iterable[str]
) -> Mapping[str, How]:
    """Return those of a baseline's settings for which nothing is typed: ranges without a usual value, and misfits.

    `usual` is of `usual_values`; `told` gives the values that the pool tells of a path.
    """
    left = {}
    for path in paths:
        tolerance = baseline.tolerated.get(path)
        if tolerance is not None and not tolerance.any_of and path not in usual:
            left[path] = How.CHOICE
        elif path in baseline.expected and is_misfit(path, agreed_told(baseline.expected[path]), told(path)):
            left[path] = How.MISFIT
    return left


def _how(path: str, wanted: Told, changed: AbstractSet[str], *, derives_sizes: bool) -> How:
    if path == VERSION:
        return How.IMAGE
    if path.startswith("env."):
        is_variable = VARIABLE.fullmatch(path) is not None
        return _given(path, wanted, How.VARIABLE, How.NO_VARIABLE) if is_variable else How.BY_HAND
    flag = "--served-model-name" if path == SERVED_NAMES else flag_of(path)
    if flag is None or _is_derived(path, changed, derives_sizes=derives_sizes):
        return How.FOLLOWS
    is_plain = _FLAG.fullmatch(flag) and not _is_part(path, wanted.value)
    return _given(path, wanted, How.FLAG, How.NO_FLAG) if is_plain else How.BY_HAND


def typed(path: str, wanted: Told) -> Snippet | None:
    """Return what to type for a value; None where nothing can be typed."""
    if path == GRAPH_MODE:
        wanted = wanted._replace(value=MODES.get(wanted.value, wanted.value))
    return pasteable(path, wanted)


def optional(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that may be taken away, of settings that follow: vLLM derives what they set."""
    derived = (path for path in paths if path in FOLLOWS_FROM and path != FIRST_NAME)
    return tuple(flag for path in derived if (flag := flag_of(path)))


def is_misfit(path: str, wanted: Told, told: Collection[Told]) -> bool:
    """Tell whether a value is none that vLLM can have, going by what all tell: a text where it has a number.

    What stands for a number by its name is none of these.
    """
    if wanted.state is not State.REPORTED or path in _NUMBERED:
        return False
    kinds = {_kind(each) for each in told if each.state is State.REPORTED}
    return (_kind(wanted), kinds) in [("text", {"number"}), ("switch", {"number"}), ("text", {"switch"})]


def _kind(told: Told) -> str:
    if told.value in {"true", "false"}:
        return "switch"
    if told.value.startswith('"'):
        return "text"
    return "other" if told.value.startswith(("[", "{")) else "number"


def _given(path: str, wanted: Told, is_set: How, is_not_set: How) -> How:
    return is_not_set if wanted.state is not State.REPORTED or is_left_out(path, wanted) else is_set


def _is_derived(path: str, changed: AbstractSet[str], *, derives_sizes: bool) -> bool:
    """Tell whether vLLM derives a setting of others that change with it."""
    return not changed.isdisjoint(FOLLOWS_FROM.get(path, ())) and (derives_sizes or path not in {SIZES, LARGEST})


def _is_part(path: str, value: str) -> bool:
    """Tell whether a value is only what is compared of a longer one: a host, a pod or a folder is left out of it."""
    if path in EVENT_ADDRESSES or path == EVENT_TOPIC:
        return "{" in value
    return path in PATHS_OF_FILES and "/" not in value
