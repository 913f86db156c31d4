"""What vLLM declares of each setting: type, default and flags, by version.

`make field-reference` writes `field_reference.json` from the source of the newest patch of each minor version.
`field_sentences.yaml` is written by hand.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from dashboard.fleet import JsonText
from vllm_fleet_provider.shared.spelling import canonical_text


class Declaration(NamedTuple):
    """How consecutive versions declare a setting. `until` is None while the newest version has it.

    `default` is None where it is not a literal: then `computed` is the expression that computes it.
    """

    since: str
    until: str | None
    type: str
    default: JsonText | None
    computed: str
    flags: tuple[str, ...]


@lru_cache(maxsize=1)
def _data() -> Mapping[str, Any]:
    text = files("dashboard.vllm").joinpath("field_reference.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def known_versions() -> tuple[str, ...]:
    """Return the versions of the data, oldest first."""
    return tuple(_data()["versions"])


def known_paths() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the declarations of every path as they are in the data."""
    settings: Mapping[str, Sequence[Mapping[str, Any]]] = _data()["settings"]
    return settings


@lru_cache(maxsize=1)
def known_sentences() -> Mapping[str, str]:
    """Return what each setting does that rules read, by path."""
    text = files("dashboard.vllm").joinpath("field_sentences.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def declarations(path: str) -> tuple[Declaration, ...]:
    """Return how vLLM declares a setting, oldest version first; empty where it declares none."""
    return tuple(
        Declaration(
            each["since"],
            each.get("until"),
            each["type"],
            canonical_text(each["default"]) if "default" in each else None,
            each.get("computed", ""),
            tuple(each.get("flags", ())),
        )
        for each in known_paths().get(path, ())
    )


@lru_cache(maxsize=1)
def known_flags() -> Mapping[str, str]:
    """Return the flag of each setting that has one of its own, in the newest version."""
    newest = ((path, rows[-1]) for path, rows in known_paths().items())
    return {path: each["flags"][0] for path, each in newest if "until" not in each and "flags" in each}
