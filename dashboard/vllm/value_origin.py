"""Whether a value was set, is the default of its vLLM version, or was derived by vLLM."""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from dashboard.fleet import Argument, SettingValue, State
from dashboard.vllm.field_reference import Declaration, declarations, known_paths
from dashboard.vllm.versions import span

NULL = "null"
_NEGATED = "--no-"
_REMEMBERED = 256  # sets of arguments: a fleet has a few
_REMEMBERED_VERSIONS = 64
_REMEMBERED_SETTINGS = 4096  # declarations of a few versions
_VALUED = frozenset({State.REPORTED, State.NULL})


class ValueOrigin(StrEnum):
    """The origin of a value. Without the arguments of a server only `OTHER` and `UNKNOWN`."""

    SET = "set"  # an argument names it, also if it equals the default
    DEFAULT = "default"
    DERIVED = "derived"  # computed by vLLM: nobody set it, and it is not the default
    OTHER = "differs from the default"
    UNKNOWN = "unknown"  # the default is computed, or not in the field reference


def value_origin(
    path: str, value: SettingValue, version: str | None, arguments: tuple[Argument, ...] | None
) -> ValueOrigin:
    """Return the origin of a value. `arguments` is None where they are not reported."""
    if value.state not in _VALUED:
        return ValueOrigin.UNKNOWN
    if arguments is not None and path in setting_arguments(arguments, version):
        return ValueOrigin.SET
    declared = declaration(path, version)
    if declared is None or declared.default is None:
        return ValueOrigin.UNKNOWN
    is_default = _equal(value.value, declared.default)
    if arguments is None:  # vLLM itself may have computed what replaces null
        return ValueOrigin.UNKNOWN if is_default or declared.default == NULL else ValueOrigin.OTHER
    return ValueOrigin.DEFAULT if is_default else ValueOrigin.DERIVED


def is_set(path: str, version: str | None, arguments: tuple[Argument, ...] | None) -> bool | None:
    """Return whether an argument sets a setting; None where arguments or the flags of the setting are unknown."""
    if arguments is not None and path in setting_arguments(arguments, version):
        return True
    return None if arguments is None or declaration(path, version) is None else False


@lru_cache(maxsize=_REMEMBERED)
def setting_arguments(arguments: tuple[Argument, ...], version: str | None) -> Mapping[str, Argument]:
    """Return the argument that sets each setting, by path. A key of a JSON value also names the objects above it."""
    flags = settings_of_flags(version)
    found: dict[str, Argument] = {}
    for each in arguments:
        name, *keys = each.name.split(".")
        if name not in flags and name.startswith(_NEGATED):
            name = f"--{name.removeprefix(_NEGATED)}"
        paths = flags.get(name, ()) if name.startswith("-") else (f"env.{name}",)
        for path in paths:
            for length in range(len(keys) + 1):
                found.setdefault(".".join([path, *keys[:length]]), each)
    return found


@lru_cache(maxsize=_REMEMBERED_SETTINGS)
def declaration(path: str, version: str | None) -> Declaration | None:
    """Return how a version declares a setting; None if it does not, or for builds between two declarations."""
    between = span(version or "")
    if between is None:
        return None
    known = declarations(path)
    valid = {_at(known, numbers) for numbers in between}
    return valid.pop() if len(valid) == 1 else None


def _at(known: tuple[Declaration, ...], numbers: tuple[int, ...]) -> Declaration | None:
    """Return the declaration of a release. The data has the newest patch of each minor version: it stands for all."""
    minor = numbers[:2]
    last = next((each for each in reversed(known) if _minor(each.since) <= minor), None)
    return last if last is not None and (last.until is None or minor <= _minor(last.until)) else None


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


@lru_cache(maxsize=_REMEMBERED_VERSIONS)
def settings_of_flags(version: str | None) -> Mapping[str, tuple[str, ...]]:
    """Return the settings of each flag of a version; of an unknown one those of the newest."""
    found: dict[str, tuple[str, ...]] = {}
    for path in known_paths():
        declared = declaration(path, version) if span(version or "") else declarations(path)[-1]
        for flag in declared.flags if declared else ():
            found[flag] = (*found.get(flag, ()), path)
    return found


def _equal(one: str, other: str) -> bool:
    """Return whether two canonical JSON texts are equal; 0 equals 0.0, and true does not equal 1."""
    if one == other or {one[:1], other[:1]} & set('"{[tfn'):
        return one == other
    return bool(json.loads(one) == json.loads(other))
