"""What to paste to set a value: flags, environment variables, YAML, by the path of the setting."""

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from packaging.version import Version

from dashboard.fleet import SettingValue, State
from dashboard.rules.findings import Remedy, Snippet, Way
from dashboard.vllm.field_reference import known_flags
from dashboard.vllm.versions import build, span
from vllm_fleet_provider.shared.identity import NO_PORT

IMAGE = "vllm/vllm-openai"  # vLLM's own image on Docker Hub
SERVED_NAMES = "served_model_names"
# Mooncake's package has another name on each platform.
PACKAGES = {"components.lmcache": "lmcache", "components.nixl": "nixl"}
# Defaults of variables (vllm/envs.py): to set one of these, the variable is removed.
DEFAULTS = {"env.VLLM_SERVER_DEV_MODE": frozenset({"false", "0", '"0"'})}
IN_ANY_ORDER = frozenset({"env.VLLM_PLUGINS"})  # vLLM only tests whether a name is in it


def set_to(wanted: Iterable[tuple[str, SettingValue]], sentence: str, *, is_everywhere: bool = False) -> Remedy:
    """Return a remedy that sets each (path, value), with a snippet for those that a command line can set."""
    settings = tuple(wanted)
    found = of_snippets([pasteable(path, value) for path, value in settings], sentence)
    return found._replace(ways=(Way(settings, is_everywhere),) if settings else ())


def one_of(ways: Sequence[Way], sentence: str) -> Remedy:
    """Return a remedy with alternatives that set one (path, value) each."""
    snippets = tuple(each for way in ways for setting in way.settings if (each := pasteable(*setting)))
    return Remedy(sentence, snippets, any_of=True, ways=tuple(ways))


def of_snippets(optional: Iterable[Snippet | None], sentence: str) -> Remedy:
    """Return a remedy with these snippets, the flags on one line."""
    snippets = [each for each in optional if each is not None]
    flags = " ".join(each.text for each in snippets if each.kind == "flag")
    rest = [each for each in snippets if each.kind != "flag"]
    return Remedy(sentence, (*([Snippet("flag", flags)] if flags else []), *rest))


class Assignment(NamedTuple):
    """What sets a value; `kind` is that of a snippet.

    `words` are those of a flag with its values, of a variable its name and unless it is unset its value, an image, or
    those of a command.
    """

    kind: str
    words: tuple[str, ...]

    @property
    def snippet(self) -> Snippet:
        if self.kind == "yaml":
            return Snippet(self.kind, f"image: {self.words[0]}")
        if self.kind != "env":
            return Snippet(self.kind, shlex.join(self.words))
        return Snippet(self.kind, shell_line(*self.words))


def shell_line(name: str, value: str | None = None) -> str:
    """Return the line of a shell that sets a variable; without a value that removes it."""
    return f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"


def pasteable(path: str, value: SettingValue) -> Snippet | None:
    """Return the snippet that sets one value; None where there is none, such as for an option that is not set."""
    found = assignment(path, value)
    return found.snippet if found else None


def assignment(path: str, value: SettingValue) -> Assignment | None:
    """Return what sets one value; None as in `pasteable`."""
    section, _, name = path.rpartition(".")
    if section == "env" and (value.state is State.NULL or is_default(path, value)):
        return Assignment("env", (name,))
    if value.state is not State.REPORTED or NO_PORT in value.value:
        return None
    loaded = json.loads(value.value)
    if section == "env":
        loaded = sorted(loaded, key=_word) if path in IN_ANY_ORDER and isinstance(loaded, list) else loaded
        return Assignment("env", (name, _variable(loaded)))
    if path in {"version", *PACKAGES}:
        return _software(path, build(str(loaded)))
    if path == SERVED_NAMES:
        return Assignment("flag", ("--served-model-name", *_words(loaded)))
    flag = flag_of(path)
    return Assignment("flag", _flag(flag, loaded)) if flag else None


def _software(path: str, known: Version | None) -> Assignment | None:
    """Return what installs a version of vLLM or of a package; None for a build that no registry has."""
    if path in PACKAGES:
        return Assignment("shell", ("pip", "install", f"{PACKAGES[path]}=={known}")) if known else None
    is_tag = known is not None and not known.is_prerelease and known.local is None and span(str(known)) is not None
    return Assignment("yaml", (f"{IMAGE}:v{known}",)) if is_tag else None


def declaration(pool: str, *lines: str) -> Snippet:
    """Return what to write into fleet.yaml about a pool; each line is nested below the one before."""
    nested = ("pools:", f"{json.dumps(pool)}:", *lines)
    return Snippet("yaml", "\n".join("  " * depth + line for depth, line in enumerate(nested)))


def is_default(path: str, value: SettingValue) -> bool:
    return value.value in DEFAULTS.get(path, ())


def is_known(path: str) -> bool:
    """Return whether a path has its own flag in the newest version."""
    return path in known_flags()


def flag_of(path: str) -> str | None:
    """Return the flag that sets a path: its own, or the dotted form of a section's; None if there is none."""
    flags = known_flags()
    section, name = path, ""
    while section and section not in flags:
        section, _, last = section.rpartition(".")
        name = f".{last}{name}"
    return f"{flags[section]}{name}" if section else None


def lever(path: str) -> str:
    """Return what to remove to unset a path: its flag or its environment variable; else the path itself."""
    return path.removeprefix("env.") if path.startswith("env.") else flag_of(path) or path


def _flag(flag: str, value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        dotted = "." in flag
        return (flag, str(value).lower()) if dotted else (f"--{'' if value else 'no-'}{flag.removeprefix('--')}",)
    if isinstance(value, list) and "." not in flag:
        return (flag, *_words(value))
    return (flag, _word(value))


def _variable(value: object) -> str:
    """Return the value of an environment variable: switches are 0 or 1, lists have commas (vllm/envs.py)."""
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(_word, value)) if isinstance(value, list) else _word(value)


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(_word, value if isinstance(value, list) else [value]))


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
