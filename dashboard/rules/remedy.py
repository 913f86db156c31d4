"""What to type so that a setting gets a value: flags, environment variables, YAML, by the setting's path.

`flags.json` is made of vLLM's source by `tests/tools/make_flags.py`.
"""

import json
import shlex
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from dashboard.fleet import SettingValue, State
from dashboard.rules.findings import Remedy, Snippet
from dashboard.vllm.versions import build

IMAGE = "vllm/vllm-openai"  # vLLM's own image on Docker Hub
SERVED_NAMES = "served_model_names"
# What vLLM has where a variable is not set (vllm/envs.py): it is taken away then, which says the same everywhere.
LEFT_OUT = {"env.VLLM_SERVER_DEV_MODE": frozenset({"false", "0", '"0"'})}
IN_ANY_ORDER = frozenset({"env.VLLM_PLUGINS"})  # a list of which vLLM only asks whether it holds a name


def set_to(wanted: Iterable[tuple[str, SettingValue]], sentence: str) -> Remedy:
    """Return a remedy with something to paste for each (path, value), as far as a command line can set it."""
    return of_snippets([pasteable(path, told) for path, told in wanted], sentence)


def of_snippets(typed: Iterable[Snippet | None], sentence: str) -> Remedy:
    """Return a remedy with these to paste, the flags on one line."""
    snippets = [each for each in typed if each is not None]
    flags = " ".join(each.text for each in snippets if each.kind == "flag")
    rest = [each for each in snippets if each.kind != "flag"]
    return Remedy(sentence, (*([Snippet("flag", flags)] if flags else []), *rest))


def pasteable(path: str, told: SettingValue) -> Snippet | None:
    """Return what to type for one value; None where nothing can be typed, such as for an option that is not set."""
    section, _, name = path.rpartition(".")
    if section == "env" and (told.state is State.NULL or is_left_out(path, told)):
        return Snippet("env", f"unset {name}")
    if told.state is not State.REPORTED:
        return None
    value = json.loads(told.value)
    if section == "env":
        value = sorted(value, key=_word) if path in IN_ANY_ORDER and isinstance(value, list) else value
        return Snippet("env", f"export {name}={shlex.quote(_variable(value))}")
    if path == "version":
        known = build(str(value))
        is_tag = known is not None and not known.is_prerelease and known.local is None
        return Snippet("yaml", f"image: {IMAGE}:v{known}") if is_tag else None
    if path == SERVED_NAMES:
        return Snippet("flag", f"--served-model-name {_words(value)}")
    flag = flag_of(path)
    return Snippet("flag", _flag(flag, value)) if flag else None


def is_left_out(path: str, told: SettingValue) -> bool:
    """Tell whether a value of a variable is what vLLM has where it is not set."""
    return told.value in LEFT_OUT.get(path, ())


def is_known(path: str) -> bool:
    """Tell whether a flag of its own sets a path in the version that `flags.json` is made of."""
    return path in _flags()


def flag_of(path: str) -> str | None:
    """Return the flag that sets a path: its own, or the dotted form of a section's; None if there is none."""
    flags = _flags()
    section, name = path, ""
    while section and section not in flags:
        section, _, last = section.rpartition(".")
        name = f".{last}{name}"
    return f"{flags[section]}{name}" if section else None


def lever(path: str) -> str:
    """Return what sets a path, to be taken away: its flag or its environment variable; else the path itself."""
    return path.removeprefix("env.") if path.startswith("env.") else flag_of(path) or path


def _flag(flag: str, value: object) -> str:
    if isinstance(value, bool):
        dotted = "." in flag
        return f"{flag} {str(value).lower()}" if dotted else f"--{'' if value else 'no-'}{flag.removeprefix('--')}"
    if isinstance(value, list) and "." not in flag:
        return f"{flag} {_words(value)}"
    return f"{flag} {shlex.quote(_word(value))}"


def _variable(value: object) -> str:
    """Write an environment variable: vLLM reads switches as 0 or 1, lists between commas (vllm/envs.py)."""
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(_word, value)) if isinstance(value, list) else _word(value)


def _words(value: object) -> str:
    return " ".join(shlex.quote(_word(each)) for each in (value if isinstance(value, list) else [value]))


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def _flags() -> dict[str, str]:
    told: dict[str, str] = json.loads(files("dashboard.rules").joinpath("flags.json").read_text(encoding="utf-8"))
    return told
