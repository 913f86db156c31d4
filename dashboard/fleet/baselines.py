"""What a pool should look like, as people agreed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Tolerance(NamedTuple):
    """Values that are as good as each other: a set of canonical JSON texts, or a range of numbers, ends included."""

    any_of: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the replicas of a pool should tell. Paths are vLLM's own; values are canonical JSON text.

    `pool` is a name or a glob, `ignored` are globs over paths that do not matter, `comments` what people wrote
    beside a path, and `file` is what the file is called.
    """

    name: str
    pool: str
    expected: Mapping[str, str] = field(default_factory=dict)
    tolerated: Mapping[str, Tolerance] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
