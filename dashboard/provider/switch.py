"""Whether vLLM's VLLM_PLUGINS names the provider, and what to set so that it does while the rest stays as it is.

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
ENDPOINTS = "vllm.endpoint_plugins"  # loaded only when named; all other groups load whole while nothing is named
# Loads without its name and then does nothing: naming it allows downloads (lora_resolvers/hf_hub_resolver.py).
IDLE_UNLESS_NAMED = frozenset({"lora_hf_hub_resolver"})
_MARKS = re.compile(r"[^a-z0-9]")  # names that differ in these and in capitals alone are taken for one another
MAX_SHOWN = 50  # names of one list
MAX_LETTERS = 100  # of one name


class Suggestion(NamedTuple):
    """The value that VLLM_PLUGINS needs, and what to know about it, a sentence each."""

    value: str
    notes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line for a shell."""
        return f"export {VARIABLE}={shlex.quote(self.value)}"


def named(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the names as vLLM reads them: split at commas, spaces kept; None while the variable is not set."""
    return tuple(environ[VARIABLE].split(",")) if VARIABLE in environ else None


def is_named(environ: Mapping[str, str]) -> bool:
    """Tell whether vLLM was told to load the provider."""
    return NAME in (named(environ) or ())


def has_vllm() -> bool:
    """Tell whether vLLM is in this Python, without importing it; a mere folder of that name is not vLLM."""
    found = find_spec("vllm")
    return found is not None and found.origin is not None


def installed() -> dict[str, tuple[str, ...]]:
    """Return the names of the plugins that VLLM_PLUGINS decides on, by entry point group, both sorted."""
    found = entry_points()
    groups = sorted(group for group in found.groups if group.startswith("vllm.") and group.endswith("_plugins"))
    return {group: tuple(sorted(found.select(group=group).names)) for group in groups}


def listing(plugins: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return a line for each group, with the names in it."""
    return [f"  {_shown(group)}: {_few(names)}" for group, names in plugins.items()] or ["  none"]


def suggestion(environ: Mapping[str, str], plugins: Mapping[str, tuple[str, ...]]) -> Suggestion:
    """Return what names the provider and keeps all that is loaded now."""
    names = named(environ)
    kept, notes = _from_nothing(plugins) if names is None else _from_names(names, plugins)
    if NAME not in plugins.get(ENDPOINTS, ()):
        notes.append(f"{NAME} is not among them: install the wheel here first, with pip install --no-deps.")
    return Suggestion(",".join(dict.fromkeys([*kept, NAME])), tuple(notes))


def _from_nothing(plugins: Mapping[str, tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Nothing is named, so that all groups but one load whole; once one is named, only what is named loads."""
    loaded = {name for group, names in plugins.items() if group != ENDPOINTS for name in names} - {NAME}
    kept = sorted(filter(_can_be_named, loaded - IDLE_UNLESS_NAMED))
    notes = [
        f"{VARIABLE} is not set: all of them load now, except {ENDPOINTS}, which load only when named.",
        "Once it is set, only what it names loads, so the line names the others too.",
    ]
    if idle := sorted(loaded & IDLE_UNLESS_NAMED):
        notes.append(f"Left out: {_few(idle)}. It does nothing until it is named, and may then download adapters.")
    if odd := sorted(name for name in loaded if not _can_be_named(name)):
        notes.append(f"Left out, for {VARIABLE} cannot name it: {_few(odd)}.")
    if opening := sorted(set(kept) & set(plugins.get(ENDPOINTS, ()))):
        notes.append(f"Adds HTTP routes too once it is named: {_few(opening)}.")
    return kept, notes


def _from_names(names: tuple[str, ...], plugins: Mapping[str, tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Names are given: they stay, and ours comes last unless it is there; what was meant for ours goes."""
    known = {name for each in plugins.values() for name in each} | {NAME}
    unknown = [name for name in names if name.strip() and name not in known]
    missed = [name for name in unknown if _MARKS.sub("", name.lower()) == _MARKS.sub("", NAME)]
    told = "names it already" if NAME in names else "is set: the line adds the name to it"
    notes = [f"{VARIABLE} {told}."]
    if unknown:
        meant = f" Did you mean {NAME}?" if missed else ""
        spaced = " vLLM does not strip spaces around a name." if any(name != name.strip() for name in unknown) else ""
        notes.append(f"No plugin here is called {_few(unknown)}.{meant}{spaced}")
    return [name for name in names if _can_be_named(name) and name not in missed], notes


def _can_be_named(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and "," not in name


def _few(names: Iterable[str]) -> str:
    every = [_shown(name) for name in names]
    more = len(every) - MAX_SHOWN
    return ", ".join(every[:MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _shown(name: str) -> str:
    """Return a name as it is, or quoted where spaces or control characters would not be seen."""
    seen = name if name.isprintable() and name == name.strip() else ascii(name)
    return seen if len(seen) <= MAX_LETTERS else f"{seen[:MAX_LETTERS]}…"
