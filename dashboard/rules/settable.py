"""How each setting takes its value, and what to type for it: one way for remedies and for what-ifs."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import islice, product

from dashboard.compare.baseline import expected_value, is_ignored
from dashboard.fleet import Baseline, Setting, SettingValue, Source, State
from dashboard.fleet.formatting import joined
from dashboard.rules.capacity.cp_05_compilation import MODES
from dashboard.rules.capacity.graph_sizes import LARGEST, SEQS, SIZES, SPECULATED, TOKENS, follow
from dashboard.rules.connectors import value
from dashboard.rules.findings import Snippet
from dashboard.rules.remedy import SERVED_NAMES, flag_of, is_left_out, pasteable
from dashboard.vllm.identity import EVENT_ADDRESSES, EVENT_TOPIC, PATHS_OF_FILES

VERSION = "version"
GRAPH_MODE = "compilation_config.cudagraph_mode"
FIRST_NAME = "model_config.served_model_name"
# What vLLM derives of other settings unless somebody sets it, by what it derives it of (vllm/config/vllm.py and
# scheduler.py).
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
# A configuration shows the numbers of these, a command line takes their names too (vllm/config/compilation.py).
_NUMBERED = frozenset({GRAPH_MODE, "compilation_config.mode", "optimization_level"})
# Names come from strangers: what a shell could read as more than a name is never put on a command line.
VARIABLE = re.compile(r"env\.([A-Za-z_][A-Za-z0-9_]*)")
_FLAG = re.compile(r"--[A-Za-z0-9_.-]+")
_MOST_TRIED = 64  # combinations of limits from which an expected value may follow
_MOST_TOKENS = 2**31  # a limit; a range may end in infinity

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
    OPEN = "open"  # it follows from settings of which the baseline allows several values: nobody can agree on it
    FOLLOWS = "follows"  # nothing sets it: it follows from other settings, the version or the hardware


def ways(
    wanted: Mapping[str, SettingValue], *, derives_sizes: bool, left: Mapping[str, How] | None = None
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
    baseline: Baseline,
    usual: Mapping[str, SettingValue],
    told: Callable[[str], Collection[SettingValue]],
    paths: Iterable[str],
) -> Mapping[str, How]:
    """Return those of a baseline's settings for which nothing is typed.

    These are ranges without a usual value, misfits, and what follows from settings that may have several values.

    `usual` is of `usual_values`; `told` gives the values that the pool tells of a path.
    """
    left = {}
    for path in paths:
        tolerance = baseline.tolerated.get(path)
        if tolerance is not None and not tolerance.any_of and path not in usual:
            left[path] = How.CHOICE
        elif path in baseline.expected and is_misfit(path, expected_value(baseline.expected[path]), told(path)):
            left[path] = How.MISFIT
        elif path in baseline.expected and _is_open(baseline, path, told):
            left[path] = How.OPEN
    return left


def derived(settings: Mapping[str, Setting]) -> AbstractSet[str]:
    """Return the paths of which a document tells what vLLM derives of its other settings, so that nothing sets them."""
    return {path for path in FOLLOWS_FROM if path in settings and _is_as_derived(settings, path)}


def open_sources(baseline: Baseline, path: str) -> tuple[str, ...]:
    """Return the settings that a path follows from and of which a baseline allows several values."""
    sources = FOLLOWS_FROM.get(path, ())
    return tuple(each for each in sources if each in baseline.tolerated or is_ignored(baseline, each))


def _is_as_derived(settings: Mapping[str, Setting], path: str) -> bool:
    if path in {SIZES, LARGEST}:
        return follow(settings)
    own, source = value(settings, path), value(settings, FOLLOWS_FROM[path][0])
    if path == FIRST_NAME:
        return isinstance(source, list) and source[:1] == [own]
    return source is not None and own in (source, [source])


def _is_open(baseline: Baseline, path: str, told: Callable[[str], Collection[SettingValue]]) -> bool:
    """Tell whether an expected value is one that vLLM derives, of settings that may also have others."""
    opened = open_sources(baseline, path)
    if not opened:
        return False
    fixed = [each for each in (path, *FOLLOWS_FROM[path]) if each in baseline.expected and each not in opened]
    base = {each: Setting(*expected_value(baseline.expected[each]), Source.SERVER_INFO) for each in fixed}
    # A limit that the baseline does not name may be any that is told, too.
    free = {each: _possible(baseline, each, told(each)) for each in FOLLOWS_FROM[path] if each not in fixed}
    known = {each: texts for each, texts in free.items() if texts}
    for texts in islice(product(*known.values()), _MOST_TRIED):
        limits = {
            each: Setting(text, State.REPORTED, Source.SERVER_INFO) for each, text in zip(known, texts, strict=True)
        }
        if _is_as_derived({**base, **limits}, path):
            return True
    return False


def _possible(baseline: Baseline, path: str, told: Collection[SettingValue]) -> list[str]:
    """Return values that a setting may have: those agreed on, then those that are told."""
    texts = [baseline.expected[path]] if path in baseline.expected else []
    if tolerance := baseline.tolerated.get(path):
        ends = (tolerance.at_least, tolerance.at_most)
        texts += [*tolerance.any_of, *(str(int(end)) for end in ends if end is not None and abs(end) < _MOST_TOKENS)]
    texts += sorted(each.value for each in told if each.state is State.REPORTED)
    return list(dict.fromkeys(texts))


def _how(path: str, wanted: SettingValue, changed: AbstractSet[str], *, derives_sizes: bool) -> How:
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


def typed(path: str, wanted: SettingValue) -> Snippet | None:
    """Return what to type for a value; None where nothing can be typed."""
    if path == GRAPH_MODE:
        wanted = wanted._replace(value=MODES.get(wanted.value, wanted.value))
    return pasteable(path, wanted)


def optional(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that may be taken away, of settings that follow: vLLM derives what they set."""
    following = (path for path in paths if path in FOLLOWS_FROM and path != FIRST_NAME)
    return tuple(flag for path in following if (flag := flag_of(path)))


def optional_words(flags: Iterable[str]) -> str:
    """Say of flags that may be taken away why."""
    return f"Take {joined(list(flags))} away where set: vLLM derives what they set from the settings above."


def is_misfit(path: str, wanted: SettingValue, told: Collection[SettingValue]) -> bool:
    """Tell whether a value is none that vLLM can have, going by what all tell: a text where it has a number.

    What stands for a number by its name is none of these.
    """
    if wanted.state is not State.REPORTED or path in _NUMBERED:
        return False
    kinds = {_kind(each) for each in told if each.state is State.REPORTED}
    return (_kind(wanted), kinds) in [("text", {"number"}), ("switch", {"number"}), ("text", {"switch"})]


def _kind(told: SettingValue) -> str:
    if told.value in {"true", "false"}:
        return "switch"
    if told.value.startswith('"'):
        return "text"
    return "other" if told.value.startswith(("[", "{")) else "number"


def _given(path: str, wanted: SettingValue, is_set: How, is_not_set: How) -> How:
    return is_not_set if wanted.state is not State.REPORTED or is_left_out(path, wanted) else is_set


def _is_derived(path: str, changed: AbstractSet[str], *, derives_sizes: bool) -> bool:
    """Tell whether vLLM derives a setting of others that change with it."""
    return not changed.isdisjoint(FOLLOWS_FROM.get(path, ())) and (derives_sizes or path not in {SIZES, LARGEST})


def _is_part(path: str, value: str) -> bool:
    """Tell whether a value is only what is compared of a longer one: a host, a pod or a folder is left out of it."""
    if path in EVENT_ADDRESSES or path == EVENT_TOPIC:
        return "{" in value
    return path in PATHS_OF_FILES and "/" not in value
