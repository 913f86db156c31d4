"""Which settings a vLLM version has, and the type of each field of `cache_config`.

The data, `versions.json`, is made of answers of real servers and of vLLM's documentation by
`tests/tools/make_versions.py`.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from dashboard.vllm.canonical import SHORT

# Bounded, because versions come from strangers; vLLM's have three parts of one or two digits.
_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})(?!\.?\d)", re.ASCII)
_LONGEST = 100  # characters
_LAST = 10**9  # above every part of a release that is read
_SHORTEST_RELEASE = 3  # "0.32" is 0.32.0
# A process asks for a few thousand (version, path) pairs, over and over; 20 MB at worst.
_REMEMBERED_ANSWERS = 16_384


class Span(NamedTuple):
    """The releases between which a build was made: it has all of `earliest`, and nothing that came after `latest`."""

    earliest: tuple[int, ...]
    latest: tuple[int, ...]


class _Known(NamedTuple):
    """The paths of one version, or of code that lies somewhere between two.

    `sections` are the paths that have others below them: only these are known to be complete.
    """

    earliest: tuple[int, ...]
    latest: tuple[int, ...]
    paths: frozenset[str]
    sections: frozenset[str]

    def lacks(self, path: str) -> bool:
        """Tell whether `path` is missing from a section that is known to be complete."""
        section = ""
        for part in path.split("."):
            step = f"{section}.{part}" if section else part
            if step not in self.sections:
                return step not in self.paths and bool(section or step in _ROOTS)
            section = step
        return False


def release(version: str) -> str | None:
    """Return the release part of a version, three numbers or four: `v0.32.0+cpu` is `0.32.0`; None if it has none."""
    numbers = _numbers(version)
    return ".".join(map(str, numbers)) if numbers else None


def build(version: str) -> Version | None:
    """Return a version in the order of PEP 440; None where it is none."""
    if not _RELEASE.match(version) or len(version) > _LONGEST:
        return None
    try:
        return Version(version)
    except InvalidVersion:
        return None


def span(version: str) -> Span | None:
    """Return the releases that a version lies between, both the same for a release; None where it is no version.

    Builds of vLLM's main branch are numbered after the last release: what is cut as 0.33.0 is called 0.32.1.dev5 or
    0.32.1rc1 before, as is a candidate of the patch release 0.32.1.
    """
    return _span(version) if len(version) <= _LONGEST else None


@lru_cache(maxsize=_REMEMBERED_ANSWERS)
def _span(version: str) -> Span | None:
    known = build(version)
    numbers = _numbers(version)
    if known is None or not known.is_prerelease:
        return Span(numbers, numbers) if known is not None else None
    major, minor, patch, *_ = numbers
    if patch:
        return Span((major, minor, patch - 1), (major, minor + 1, 0))
    return Span((major, minor - 1, _LAST), (major, minor, 0))


def has_change(version: str | None, since: tuple[int, ...]) -> bool | None:
    """Tell whether a version has what came with the release `since`; None where that is unknown."""
    between = span(version or "")
    if between is None or between.earliest < since <= between.latest:
        return None
    return since <= between.earliest


def is_unsupported(version: str | None, path: str) -> bool:
    """Tell whether it is known that this vLLM version has no setting `path`.

    Known are the versions of the data, and those between two of them that both lack the path, as
    does the documentation of the code between. Never true for environment variables, for what
    stands below a free-form option, for leaves of a section that was null wherever it was seen, and for paths that
    are longer than those of vLLM.
    """
    return len(version or "") <= _LONGEST and len(path) <= SHORT and _is_unsupported(version or "", path)


@lru_cache(maxsize=_REMEMBERED_ANSWERS)
def _is_unsupported(version: str, path: str) -> bool:
    between = span(version)
    consulted = _consulted(between) if between is not None else ()
    return bool(consulted) and all(known.lacks(path) for known in consulted)


def label_type(label: str) -> str | None:
    """Return the JSON type of a label of `vllm:cache_config_info`, null set apart; None if not known.

    One of `bool`, `int`, `float`, `str`, `list`, `object`.
    """
    return _TYPES.get(label)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release part as numbers, empty if there is none."""
    found = _RELEASE.match(version)
    if not found:
        return ()
    numbers = tuple(int(part) for part in found[1].split("."))
    return numbers + (0,) * (_SHORTEST_RELEASE - len(numbers))


def _above(path: str) -> Sequence[str]:
    """Return the sections that a path stands in."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _consulted(between: Span) -> Sequence[_Known]:
    """Return what is known of a release: itself, else its neighbours and all between them."""
    exact = [known for known in _KNOWN if (known.earliest, known.latest) == between]
    before = [known.latest for known in _KNOWN if known.latest <= between.earliest]
    after = [known.earliest for known in _KNOWN if known.earliest >= between.latest]
    if exact or not before or not after:
        return exact
    return [known for known in _KNOWN if known.latest >= max(before) and known.earliest <= min(after)]


def _read(data: dict[str, Any]) -> list[_Known]:
    """Turn path -> versions into one `_Known` a version."""
    known = []
    for version in data["versions"]:
        paths = frozenset(path for path, versions in data["paths"].items() if version in versions)
        sections = frozenset(section for path in paths for section in _above(path))
        earliest, latest = data["between"].get(version, (version, version))
        known.append(_Known(_numbers(earliest), _numbers(latest), paths, sections))
    return known


_DATA = json.loads(files("dashboard.vllm").joinpath("versions.json").read_text(encoding="utf-8"))
_KNOWN = _read(_DATA)
_TYPES: dict[str, str] = _DATA["types"]
_ROOTS = frozenset(path.partition(".")[0] for path in _DATA["paths"])
