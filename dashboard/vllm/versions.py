"""Which vLLM version has which setting, and the order of versions."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias

from packaging.version import InvalidVersion, Version

from dashboard.fleet import Setting, SettingValue
from dashboard.vllm.canonical import SHORT
from dashboard.vllm.field_reference import known_paths, known_versions

VERSION = "version"
# The newest release that a build without a release is newer than, or equal to: by what it answers.
EARLIEST = "earliest_release"
# setuptools_scm names a build without tags 0.1.dev5+g3f2a1bc; others are 0.0.0 or a bare hash. vLLM 0.2.0 is of 2023.
FIRST_RELEASE = (0, 2, 0)

# Bounded, because versions are foreign text; vLLM's have three parts of one or two digits.
_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})(?!\.?\d)", re.ASCII)
_LONGEST = 100  # characters
_LAST = 10**9  # above every part of a release that is read
_SHORTEST_RELEASE = 3  # "0.32" is 0.32.0
# A process asks for a few thousand (version, path) pairs, over and over; 20 MB at worst.
_REMEMBERED_ANSWERS = 16_384


# Whether something is true of the releases whose source was read, in order. The last answer counts for newer ones.
History: TypeAlias = Sequence[tuple[tuple[int, int, int], bool]]


class Span(NamedTuple):
    """The releases around a build: it has all of `earliest`, and nothing newer than `latest`."""

    earliest: tuple[int, ...]
    latest: tuple[int, ...]


class _VersionPaths(NamedTuple):
    """All paths of one version. A path without others below is free-form, or a value."""

    numbers: tuple[int, ...]
    paths: frozenset[str]
    sections: frozenset[str]

    def lacks(self, path: str) -> bool:
        """Return whether the version declares neither `path` nor a free-form option above it."""
        section = ""
        for part in path.split("."):
            step = f"{section}.{part}" if section else part
            if step not in self.paths:
                return bool(section) or step in _roots()
            if step not in self.sections:
                return False
            section = step
        return False


def release(version: str) -> str | None:
    """Return the release, three numbers or four: `v0.32.0+cpu` is `0.32.0`; None without one."""
    numbers = _numbers(version)
    return ".".join(map(str, numbers)) if numbers else None


@lru_cache(maxsize=1024)  # a fleet has few, and asks for each replica
def build(version: str) -> Version | None:
    """Return a version with the order of PEP 440; None if the text is none."""
    if not _RELEASE.match(version) or len(version) > _LONGEST:
        return None
    try:
        return Version(version)
    except InvalidVersion:
        return None


def span(version: str) -> Span | None:
    """Return the releases around a version, both the same for a release; None if no release follows from it.

    Builds of vLLM's main branch are numbered after the last release: code of 0.33.0 is first 0.32.1.dev5 or 0.32.1rc1,
    as are candidates of the patch release 0.32.1. A source build without tags has no release.
    """
    return _span(version) if len(version) <= _LONGEST else None


@lru_cache(maxsize=_REMEMBERED_ANSWERS)
def _span(version: str) -> Span | None:
    known = build(version)
    numbers = _numbers(version)
    if known is None or numbers < FIRST_RELEASE:
        return None
    if not known.is_prerelease:
        return Span(numbers, numbers)
    major, minor, patch, *_ = numbers
    if patch:
        return Span((major, minor, patch - 1), (major, minor + 1, 0))
    return Span((major, minor - 1, _LAST), (major, minor, 0))


def has_change(version: str | None, since: tuple[int, ...]) -> bool | None:
    """Return whether a version has what the release `since` added; None if unknown."""
    between = span(version or "")
    if between is None or between.earliest < since <= between.latest:
        return None
    return since <= between.earliest


def answer_at(history: History, version: str | None) -> bool | None:
    """Return the answer of a version; None between two releases with different answers, and before the first."""
    between = span(version or "")
    if between is None:
        return None
    before = [answer for release, answer in history if release <= between.earliest][-1:]
    inside = [answer for release, answer in history if between.earliest < release < between.latest]
    after = [answer for release, answer in history if release >= between.latest][:1]
    answers = {*before, *inside, *(after or before)}
    return answers.pop() if before and len(answers) == 1 else None


def reports_change(settings: Mapping[str, Setting] | Mapping[str, SettingValue], since: tuple[int, ...]) -> bool | None:
    """Return whether a replica has what the release `since` added: by its version, else by what it answers."""
    version, earliest = (_text(settings, path) for path in (VERSION, EARLIEST))
    known = has_change(version, since)
    return (has_change(earliest, since) or None) if known is None else known


def release_before(paths: Iterable[str]) -> str | None:
    """Return the newest release without one of these settings: a replica that reports all of them is newer.

    None where every known release has them all.
    """
    order = known_versions()
    places = [order.index(rows[0]["since"]) for path in paths if (rows := known_paths().get(path))]
    place = max(places, default=0)
    return order[place - 1] if place else None


def is_unsupported(version: str | None, path: str) -> bool:
    """Return whether this vLLM version is known to lack the setting `path`.

    Known are the newest patches of the minor versions, and the versions between two of them that both lack the path.
    Never true for environment variables, below a free-form option, and for paths longer than vLLM's.
    """
    return len(version or "") <= _LONGEST and len(path) <= SHORT and _is_unsupported(version or "", path)


@lru_cache(maxsize=_REMEMBERED_ANSWERS)
def _is_unsupported(version: str, path: str) -> bool:
    between = span(version)
    consulted = _consulted(between) if between is not None else ()
    return bool(consulted) and all(known.lacks(path) for known in consulted)


def label_type(label: str) -> str | None:
    """Return a label's type in `vllm:cache_config_info` (bool, int, float, str, list); None if unknown."""
    rows = known_paths().get(f"cache_config.{label}")
    if rows is None:
        return None
    declared = str(rows[-1]["type"]).removesuffix(" | None")
    return "str" if declared.startswith("Literal") else declared.partition("[")[0]


def _text(settings: Mapping[str, Setting] | Mapping[str, SettingValue], path: str) -> str | None:
    value = json.loads(settings[path].value) if path in settings else None
    return value if isinstance(value, str) else None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release as numbers, empty without one."""
    found = _RELEASE.match(version)
    if not found:
        return ()
    numbers = tuple(int(part) for part in found[1].split("."))
    return numbers + (0,) * (_SHORTEST_RELEASE - len(numbers))


def _consulted(between: Span) -> Sequence[_VersionPaths]:
    """Return the data of a release: its own, else its neighbours' and all between them."""
    known = _known()
    first = max((each.numbers for each in known if each.numbers <= between.earliest), default=None)
    last = min((each.numbers for each in known if each.numbers >= between.latest), default=None)
    if first is None or last is None:
        return ()
    return [each for each in known if first <= each.numbers <= last]


@lru_cache(maxsize=1)
def _known() -> Sequence[_VersionPaths]:
    found: dict[str, set[str]] = {version: set() for version in known_versions()}
    order = {version: place for place, version in enumerate(found)}
    for path, rows in known_paths().items():
        starts = [order[each["since"]] for each in rows]
        for each, start, following in zip(rows, starts, [*starts[1:], len(order)], strict=True):
            end = order[each["until"]] + 1 if "until" in each else following
            for version in islice(found, start, end):
                found[version].add(path)
    return [
        _VersionPaths(_numbers(version), frozenset(paths), frozenset(path.rpartition(".")[0] for path in paths))
        for version, paths in found.items()
    ]


@lru_cache(maxsize=1)
def _roots() -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in known_paths()) - {"env"}
