"""What to paste for one group of replicas: flags, environment variables, and values of a Helm chart."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from dashboard.fleet import SettingChange
from dashboard.fleet.formatting import one_line
from dashboard.rules.apply_method import (
    VARIABLE,
    ApplyMethod,
    paths_after_image,
    removable_flags,
    snippet_for,
)
from dashboard.rules.remedy import lever

Methods = Mapping[str, ApplyMethod]  # how a setting is changed, by path
CHART = "the vLLM production-stack chart"
# Kubernetes replaces $(NAME) in arguments and variables by a variable's value; $$ is a dollar.
_REFERENCE = re.compile(r"\$(?=\()")


class Paste(NamedTuple):
    """What to paste for one group of replicas.

    `flags` are flags with their values, `environment` lines of a shell, `image` a line of YAML, `helm` YAML. `removed`
    are flags to remove, `optional` flags may be removed: vLLM derives their settings.
    """

    flags: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    environment: str = ""
    image: str = ""
    helm: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to paste."""
        return not any((self.flags, self.removed, self.environment, self.image))


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Replicas with the same changes, with the letters of their cohorts; `methods` are by path.

    `later` may remain to be pasted once they run another image.
    """

    replicas: tuple[str, ...]
    letters: tuple[str, ...]
    changes: tuple[SettingChange, ...]
    methods: Methods
    paste: Paste
    later: Paste | None = None

    def paths(self, method: ApplyMethod) -> list[str]:
        """Return the settings that are changed in this way."""
        return [each.path for each in self.changes if self.methods[each.path] is method]


def in_turn(changes: Sequence[SettingChange], methods: Methods) -> tuple[Paste, Paste | None]:
    """Return what to paste first, and what may remain after another image runs."""
    later = paths_after_image(methods)
    rest = paste([each for each in changes if each.path in later], methods)
    first = paste([each for each in changes if each.path not in later], methods)
    return first, None if rest.is_empty and not rest.optional else rest


def paste(changes: Sequence[SettingChange], methods: Methods) -> Paste:
    """Return what to paste for some changes."""
    how = {each: methods[each.path] for each in changes}
    flags = tuple(text for each in changes if how[each] is ApplyMethod.FLAG and (text := _typed(each)))
    in_environment = {ApplyMethod.VARIABLE, ApplyMethod.NO_VARIABLE}
    variables = [text for each in changes if how[each] in in_environment and (text := _typed(each))]
    removed = tuple(lever(each.path) for each in changes if how[each] is ApplyMethod.NO_FLAG)
    follows = removable_flags(each.path for each in changes if how[each] is ApplyMethod.FOLLOWS)
    image = next((text for each in changes if how[each] is ApplyMethod.IMAGE and (text := _typed(each))), "")
    found = Paste(flags, removed, follows, "\n".join(variables), image)
    return found if found.is_empty else found._replace(helm=_helm(found, changes, methods))


def _typed(change: SettingChange) -> str:
    snippet = snippet_for(change.path, change.after)
    return snippet.text if snippet else ""


def _helm(content: Paste, changes: Sequence[SettingChange], methods: Methods) -> str:
    """Write values of the chart, helm/values.yaml of vllm-project/production-stack: an entry of modelSpec."""
    entry: dict[str, Any] = {}
    if content.image:
        repository, _, tag = content.image.removeprefix("image: ").rpartition(":")
        entry |= {"repository": repository, "tag": tag}
    if content.flags:
        entry["vllmConfig"] = {"extraArgs": [_literal(word) for word in shlex.split(" ".join(content.flags))]}
    variables = [
        {"name": name, "value": _literal(shlex.split(text)[1].partition("=")[2])}
        for each in changes
        if methods[each.path] is ApplyMethod.VARIABLE and (name := _name(each.path)) and (text := _typed(each))
    ]
    entry |= {"env": variables} if variables else {}
    removed = [name for each in changes if methods[each.path] is ApplyMethod.NO_VARIABLE and (name := _name(each.path))]
    lines = [f"# Values of {CHART}: put these into the entry of this model."]
    lines += [f"# Remove from its extraArgs: {one_line(' '.join(content.removed))}"] if content.removed else []
    lines += [f"# Remove from its env: {' '.join(removed)}"] if removed else []
    if entry:
        values = {"servingEngineSpec": {"modelSpec": [entry]}}
        lines.append(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000).removesuffix("\n"))
    return "\n".join(lines)


def _name(path: str) -> str:
    match = VARIABLE.fullmatch(path)
    return match[1] if match else ""


def _literal(text: str) -> str:
    return _REFERENCE.sub("$$", text)
