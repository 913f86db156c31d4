"""What to type for one group of replicas: flags, environment variables, and values of a Helm chart."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from dashboard.analysis.whatif.nouns import Change, Paste
from dashboard.analysis.whatif.target import Contrasts
from dashboard.fleet.formatting import one_line
from dashboard.rules.remedy import lever
from dashboard.rules.settable import VARIABLE, How, optional, typed, waiting, ways

CHART = "the vLLM production-stack chart"
# Kubernetes replaces $(NAME) in arguments and variables by a variable's value; $$ is a dollar.
_REFERENCE = re.compile(r"\$(?=\()")


def changes_of(
    contrasts: Contrasts, *, derives_sizes: bool, left: Mapping[str, How] | None = None
) -> tuple[Change, ...]:
    """Return how each setting takes its new value; `derives_sizes` and `left` as rules/settable.py has them."""
    told = ways({each.path: each.wanted for each in contrasts}, derives_sizes=derives_sizes, left=left)
    return tuple(Change(*each, told[each.path]) for each in contrasts)


def in_turn(changes: Sequence[Change]) -> tuple[Paste, Paste | None]:
    """Return what to type first, and what may be left to type after that: what waits for another image."""
    later = waiting({each.path: each.how for each in changes})
    rest = paste([each for each in changes if each.path in later])
    first = paste([each for each in changes if each.path not in later])
    return first, None if rest.is_empty and not rest.optional else rest


def paste(changes: Sequence[Change]) -> Paste:
    """Return what to type for changes."""
    flags = tuple(text for each in changes if each.how is How.FLAG and (text := _typed(each)))
    variables = [text for each in changes if each.how in {How.VARIABLE, How.NO_VARIABLE} and (text := _typed(each))]
    removed = tuple(lever(each.path) for each in changes if each.how is How.NO_FLAG)
    follows = optional(each.path for each in changes if each.how is How.FOLLOWS)
    image = next((text for each in changes if each.how is How.IMAGE and (text := _typed(each))), "")
    told = Paste(flags, removed, follows, "\n".join(variables), image)
    return told if told.is_empty else told._replace(helm=_helm(told, changes))


def _typed(change: Change) -> str:
    snippet = typed(change.path, change.after)
    return snippet.text if snippet else ""


def _helm(told: Paste, changes: Sequence[Change]) -> str:
    """Write values of the chart, helm/values.yaml of vllm-project/production-stack: an entry of modelSpec."""
    entry: dict[str, Any] = {}
    if told.image:
        repository, _, tag = told.image.removeprefix("image: ").rpartition(":")
        entry |= {"repository": repository, "tag": tag}
    if told.flags:
        entry["vllmConfig"] = {"extraArgs": [_literal(word) for word in shlex.split(" ".join(told.flags))]}
    variables = [
        {"name": name, "value": _literal(shlex.split(text)[1].partition("=")[2])}
        for each in changes
        if each.how is How.VARIABLE and (name := _name(each.path)) and (text := _typed(each))
    ]
    entry |= {"env": variables} if variables else {}
    gone = [name for each in changes if each.how is How.NO_VARIABLE and (name := _name(each.path))]
    lines = [f"# Values of {CHART}: put these into the entry of this model."]
    lines += [f"# Take out of its extraArgs: {one_line(' '.join(told.removed))}"] if told.removed else []
    lines += [f"# Take out of its env: {' '.join(gone)}"] if gone else []
    if entry:
        values = {"servingEngineSpec": {"modelSpec": [entry]}}
        lines.append(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000).removesuffix("\n"))
    return "\n".join(lines)


def _name(path: str) -> str:
    match = VARIABLE.fullmatch(path)
    return match[1] if match else ""


def _literal(text: str) -> str:
    return _REFERENCE.sub("$$", text)
