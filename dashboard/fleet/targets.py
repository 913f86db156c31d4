"""What is asked: targets, where their secrets are found, and why a probe gave no reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.fleet.words import FailureKind

FILE_SCHEME = "file://"  # begins the id of a replica whose answers were saved: nobody asks it, and they tell no time


@dataclass(frozen=True, slots=True)
class Failure:
    """An expected failure, as data: what kind, and one sentence for people."""

    kind: FailureKind
    detail: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where a target's secrets are found; never the secrets themselves."""

    token_env: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """An address to poll, with labels. `failure` is set when the address is no URL."""

    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    credentials: Credentials | None = None
    stale: bool = False
    failure: Failure | None = None
