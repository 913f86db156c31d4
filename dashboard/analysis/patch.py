"""What to change on one group of replicas, and how to write it: for a shell, for Kubernetes, for two Helm charts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from dashboard.fleet import Replica, Role, SettingChange
from dashboard.fleet.formatting import joined, one_line
from dashboard.rules.apply_method import ApplyMethod, assignment_for, paths_after_image, removable_flags
from dashboard.rules.remedy import Assignment, lever, shell_line

Methods = Mapping[str, ApplyMethod]  # how a setting is changed, by path
PRODUCTION_STACK, LLM_D = "vLLM production-stack", "llm-d"
CONTAINER = "vllm"  # the name of the container in both charts
PATCH_FILE = "patch.yaml"
WORKLOADS = ("Deployment", "StatefulSet")  # a LeaderWorkerSet takes no strategic merge patch
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")  # of objects of Kubernetes
# Kubernetes replaces $(NAME) in arguments and variables by a variable's value; $$ is a dollar.
_REFERENCE = re.compile(r"\$(?=\()")


class Variable(NamedTuple):
    """An environment variable and its value; None: to remove it."""

    name: str
    value: str | None = None


class Patch(NamedTuple):
    """What to change on one group of replicas.

    `flags` are flags with their values, as words. `removed` are flags to remove, `optional` ones may be removed: vLLM
    derives their settings. `image` has its tag.
    """

    flags: tuple[tuple[str, ...], ...] = ()
    removed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    image: str = ""

    @property
    def environment(self) -> tuple[str, ...]:
        """The variables as lines of a shell."""
        return tuple(shell_line(*each) for each in self.variables)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to paste."""
        return not any((self.flags, self.removed, self.variables, self.image))


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Replicas with the same changes; `methods` are by path. With another image, the patch has only that."""

    replicas: tuple[str, ...]
    changes: tuple[SettingChange, ...]
    methods: Methods
    patch: Patch

    def paths(self, method: ApplyMethod) -> list[str]:
        """Return the settings that are changed in this way."""
        return [each.path for each in self.changes if self.methods[each.path] is method]


def patch_of(changes: Iterable[SettingChange], methods: Methods) -> Patch:
    """Return what to change now: other settings may need no change once another image runs."""
    later = paths_after_image(methods)
    by_method: dict[ApplyMethod, list[SettingChange]] = {method: [] for method in ApplyMethod}
    for each in changes:
        if each.path not in later:
            by_method[methods[each.path]].append(each)
    variables = [*by_method[ApplyMethod.VARIABLE], *by_method[ApplyMethod.NO_VARIABLE]]
    images = _assignments(by_method[ApplyMethod.IMAGE])
    return Patch(
        flags=tuple(each.words for each in _assignments(by_method[ApplyMethod.FLAG])),
        removed=tuple(lever(each.path) for each in by_method[ApplyMethod.NO_FLAG]),
        optional=removable_flags(each.path for each in by_method[ApplyMethod.FOLLOWS]),
        variables=tuple(Variable(*each.words) for each in _assignments(variables)),
        image=images[0].words[0] if images else "",
    )


def _assignments(changes: Iterable[SettingChange]) -> list[Assignment]:
    return [found for each in changes if (found := assignment_for(each.path, each.after))]


def kubectl_texts(patch: Patch, members: Sequence[Replica]) -> tuple[str, ...]:
    """Write a strategic merge patch of the workloads of these replicas, as a file, and the commands that apply it.

    Containers and variables are merged by their names, arguments are replaced as a whole
    (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/). What is not reported
    is a placeholder in capitals. Empty where there is nothing to paste.
    """
    if patch.is_empty:
        return ()
    container: dict[str, Any] = {"name": _container(members)}
    container |= {"image": patch.image} if patch.image else {}
    arguments = ["CURRENT_ARGS", *_arguments(patch)]
    container |= {"args": arguments} if patch.flags or patch.removed else {}
    removed = [{"name": each.name, "$patch": "delete"} for each in patch.variables if each.value is None]
    container |= {"env": [*_environment(patch), *removed]} if patch.variables else {}
    value = {"spec": {"template": {"spec": {"containers": [container]}}}}
    notes = [f"# {PATCH_FILE}"]
    if "args" in container:
        present = _one_line([*(each[0] for each in patch.flags), *patch.removed])
        notes.append(f"# args are replaced as a whole: CURRENT_ARGS stands for the current ones without {present}.")
    commands = [f"kubectl {each} --patch-file {PATCH_FILE}" for each in _workloads(members)]
    return "\n".join([*notes, _yaml(value)]), "\n".join(commands)


def kubectl_warning(patch: Patch, members: Iterable[Replica]) -> str:
    """Return which present flags the patch replaces, and that it restarts more than the replicas it is for."""
    kinds = {each.labels.get("owner", "").partition("/")[0] for each in members}.intersection(WORKLOADS)
    replaced = f"Replace {joined([each[0] for each in patch.flags])} where set. " if patch.flags else ""
    return f"{replaced}A {' or '.join(sorted(kinds)) or WORKLOADS[0]} restarts all its pods."


def _workloads(members: Iterable[Replica]) -> list[str]:
    """Return the workloads of replicas as arguments of kubectl: their namespace and owner, as labels of pods have."""
    found = []
    for each in members:
        kind, _, name = each.labels.get("owner", "").partition("/")
        namespace = _name(each.labels.get("namespace", ""), "NAMESPACE")
        workload = f"{kind.lower()}/{_name(name, 'NAME')}" if kind in WORKLOADS else "deployment/NAME"
        found.append(f"-n {namespace} patch {workload}")
    return list(dict.fromkeys(found))


def _container(members: Iterable[Replica]) -> str:
    """Return the name of the container: the only one of all pods, or that of both charts."""
    names = {label.removeprefix("image_") for each in members for label in each.labels if label.startswith("image_")}
    return CONTAINER if CONTAINER in names else _name(names.pop() if len(names) == 1 else "", "CONTAINER")


def _name(text: str, placeholder: str) -> str:
    """Return a name of Kubernetes as it is, and a placeholder for any other text."""
    return text if _NAME.fullmatch(text) else placeholder


def production_stack_values(patch: Patch) -> str:
    """Write values of the chart of vllm-project/production-stack: an entry of `servingEngineSpec.modelSpec`.

    Keys: helm/values.yaml. `extraArgs` come after the arguments that the chart has keys for, so their values are used:
    helm/templates/deployment-vllm-multi.yaml.
    """
    repository, _, tag = patch.image.rpartition(":")
    entry: dict[str, Any] = {"repository": repository, "tag": tag} if patch.image else {}
    entry |= {"vllmConfig": {"extraArgs": _arguments(patch)}} if patch.flags else {}
    entry |= {"env": environment} if (environment := _environment(patch)) else {}
    values = {"servingEngineSpec": {"modelSpec": [entry]}} if entry else {}
    head = f"# Values of the {PRODUCTION_STACK} chart: merge them into the entry of this model."
    return _values_text(patch, head, "extraArgs", values)


def llm_d_values(patch: Patch, members: Iterable[Replica]) -> str:
    """Write values of the chart llm-d-modelservice: the container of decode, of prefill, or of both.

    Keys: charts/llm-d-modelservice/values.yaml of llm-d-incubation/llm-d-modelservice. Pods that prefill and decode are
    `decode`.
    """
    container: dict[str, Any] = {"image": patch.image} if patch.image else {}
    container |= {"args": _arguments(patch)} if patch.flags else {}
    container |= {"env": environment} if (environment := _environment(patch)) else {}
    roles = sorted({"prefill" if each.role is Role.PREFILL else "decode" for each in members})
    values = {role: {"containers": [{"name": CONTAINER, **container}]} for role in roles} if container else {}
    head = f"# Values of the {LLM_D} chart (llm-d-modelservice): merge them into the container, lists too."
    return _values_text(patch, head, "args", values)


def _values_text(patch: Patch, head: str, key: str, values: Mapping[str, Any]) -> str:
    """Write values of a chart with comments on what to remove; `key` has the arguments. Empty without a change."""
    removed = [each.name for each in patch.variables if each.value is None]
    lines = [f"# Remove from {key}: {_one_line(patch.removed)}"] if patch.removed else []
    lines += [f"# Remove from env: {_one_line(removed)}"] if removed else []
    lines += [_yaml(values)] if values else []
    return "\n".join([head, *lines]) if lines else ""


def _arguments(patch: Patch) -> list[str]:
    return [_literal(word) for words in patch.flags for word in words]


def _environment(patch: Patch) -> list[dict[str, str]]:
    """Return the variables to set as Kubernetes has them."""
    return [{"name": each.name, "value": _literal(each.value)} for each in patch.variables if each.value is not None]


def _literal(text: str) -> str:
    return _REFERENCE.sub("$$", text)


def _one_line(words: Iterable[str]) -> str:
    return one_line(" ".join(words))


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000).removesuffix("\n")
