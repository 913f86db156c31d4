"""Whether VLLM_PLUGINS lists the provider, and the value that adds it and keeps all plugins that are loaded now.

Facts from vllm/plugins/__init__.py and vllm/envs.py of vLLM 0.32.0. Needs the standard library only.
"""

from __future__ import annotations

import re
import shlex
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME = "fleet_config"  # of both entry points in pyproject.toml
VARIABLE = "VLLM_PLUGINS"
ENDPOINTS = "vllm.endpoint_plugins"  # loaded only if named; other groups are loaded while the variable is not set
# Is loaded without its name but does nothing; naming it allows downloads (lora_resolvers/hf_hub_resolver.py).
IDLE_UNLESS_NAMED = frozenset({"lora_hf_hub_resolver"})
_MARKS = re.compile(r"[^a-z0-9]")  # names that differ only in these and in case are assumed to be misspelt
MAX_SHOWN = 50  # names of one list
MAX_LETTERS = 100  # of one name


class Suggestion(NamedTuple):
    """The value for VLLM_PLUGINS, and notes on it, one sentence each."""

    value: str
    notes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line for a shell."""
        return f"export {VARIABLE}={shlex.quote(self.value)}"


def named(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the names as vLLM reads them: split at commas, with spaces. None: the variable is not set."""
    return tuple(environ[VARIABLE].split(",")) if VARIABLE in environ else None


def is_named(environ: Mapping[str, str]) -> bool:
    """Return whether VLLM_PLUGINS lists the provider."""
    return NAME in (named(environ) or ())


def has_vllm() -> bool:
    """Return whether vLLM is installed, without importing it; an empty folder of that name does not count."""
    found = find_spec("vllm")
    return found is not None and found.origin is not None


def installed() -> dict[str, tuple[str, ...]]:
    """Return the names of the plugins that VLLM_PLUGINS selects, by entry point group, both sorted."""
    found = entry_points()
    groups = sorted(group for group in found.groups if group.startswith("vllm.") and group.endswith("_plugins"))
    return {group: tuple(sorted(found.select(group=group).names)) for group in groups}


def listing(plugins: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return one line per group with its names."""
    return [f"  {_shown(group)}: {_few(names)}" for group, names in plugins.items()] or ["  none"]


def suggestion(environ: Mapping[str, str], plugins: Mapping[str, tuple[str, ...]]) -> Suggestion:
    """Return the value that names the provider and keeps all plugins that are loaded now."""
    names = named(environ)
    kept, notes = _from_nothing(plugins) if names is None else _from_names(names, plugins)
    if NAME not in plugins.get(ENDPOINTS, ()):
        notes.append(f"{NAME} is not among them: install the wheel here first, with pip install --no-deps.")
    return Suggestion(",".join(dict.fromkeys([*kept, NAME])), tuple(notes))


def _from_nothing(plugins: Mapping[str, tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Return names and notes while the variable is not set: all groups but one are loaded completely."""
    loaded = {name for group, names in plugins.items() if group != ENDPOINTS for name in names} - {NAME}
    kept = sorted(filter(_can_be_named, loaded - IDLE_UNLESS_NAMED))
    notes = [
        f"{VARIABLE} is not set: all of these are loaded, except {ENDPOINTS}, which are loaded only if named.",
        "Once it is set, only the named plugins are loaded, so the line names the others too.",
    ]
    if idle := sorted(loaded & IDLE_UNLESS_NAMED):
        notes.append(f"Left out: {_few(idle)}. It does nothing until it is named, and may then download adapters.")
    if odd := sorted(name for name in loaded if not _can_be_named(name)):
        notes.append(f"Left out because {VARIABLE} cannot contain the name: {_few(odd)}.")
    if opening := sorted(set(kept) & set(plugins.get(ENDPOINTS, ()))):
        notes.append(f"Also adds HTTP routes once it is named: {_few(opening)}.")
    return kept, notes


def _from_names(names: tuple[str, ...], plugins: Mapping[str, tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Return the given names without misspellings of the provider's, and notes."""
    known = {name for each in plugins.values() for name in each} | {NAME}
    unknown = [name for name in names if name.strip() and name not in known]
    missed = [name for name in unknown if _MARKS.sub("", name.lower()) == _MARKS.sub("", NAME)]
    notes = [f"{VARIABLE} already names it." if NAME in names else f"{VARIABLE} is set: the line adds the name to it."]
    if unknown:
        meant = f" Did you mean {NAME}?" if missed else ""
        spaced = " vLLM does not strip spaces around a name." if any(name != name.strip() for name in unknown) else ""
        notes.append(f"No installed plugin is named {_few(unknown)}.{meant}{spaced}")
    return [name for name in names if _can_be_named(name) and name not in missed], notes


def _can_be_named(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and "," not in name


def _few(names: Iterable[str]) -> str:
    every = [_shown(name) for name in names]
    more = len(every) - MAX_SHOWN
    return ", ".join(every[:MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _shown(name: str) -> str:
    """Return a name, quoted if it has invisible characters, cut to a maximum."""
    seen = name if name.isprintable() and name == name.strip() else ascii(name)
    return seen if len(seen) <= MAX_LETTERS else f"{seen[:MAX_LETTERS]}…"
