"""CO-03: replicas of one pool may answer with other weights."""

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart, drift
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import NOT_SET
from dashboard.rules.meanings import DEFAULT_BRANCH, revisions, weights_format
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import only
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.identity import SNAPSHOT_PATHS, is_folder

MODEL = "model_config.model"
REVISION = "model_config.revision"
CODE_REVISION = "model_config.code_revision"
OTHER_FOLDER = "another name is another model"
LOAD_FORMAT = "load_config.load_format"
# What vLLM reports of a model's architecture: where it differs, so do the models.
ARCHITECTURE = (
    "parallel_config.is_moe_model",
    "scheduler_config.is_multimodal_model",
    "cache_config.is_attention_free",
)


@rule(
    id="CO-03",
    name="weights-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.KV_STORE: Severity.CRITICAL, ImpactContext.MODEL: Severity.CRITICAL},
    needs=(REVISION, CODE_REVISION, MODEL, LOAD_FORMAT),
)
def weights_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool loaded different models, revisions, or random weights beside real ones.

    Of a model's name the owner is left out: a mirror of a repository holds the same weights. Of a folder the last part
    of its path is compared. A snapshot in the hub's cache, which vLLM loads offline, is its id and its commit.

    Why it matters:
        - kv-store: The keys of a shared store do not hold the revision, so a replica can read KV cache that other
          weights computed and answer from it, with no error anywhere; and the answer depends on the replica.
        - any pool: Other weights give other answers, with no error anywhere: what a client gets depends on the
          replica that its request reaches.

    How to fix:
        Pin a commit with `--revision` (and `--code-revision` for code that comes with the model) on every replica of
        the pool. A branch is no pin: what it holds can change between two downloads.

    Exceptions:
        A folder of another name may hold the same weights: such a difference is assumed, unless the reported
        architecture differs too. A model in a folder has no revision: it is not compared. A rollout of new weights is
        best a pool of its own.

    Evidence:
        - vllm/config/load.py (`dummy` initializes the weights with random values)
        - vllm/config/model.py (`revision`, `code_revision`: a branch, a tag or a commit)
        - vllm/v1/kv_offload/file_mapper.py (the keys of the file tier do not hold the revision)
        - ai-dynamo/dynamo#799 (the hub's content changed after one worker had downloaded it)
        - vllm-project/vllm#48306

    Example:
        Four replicas run with `--revision 8c22764`, one without. A month later the repository has new weights; the one
        that restarts on a fresh disk answers from them.
    """
    whole = pool.identity(MODEL)
    are_folders = set(map(is_folder, whole.values()))
    hub = only(pool, {member.id for member in pool.members if not is_folder(whole.get(member.id))})
    asked = {
        REVISION: ("revision", revisions(hub, REVISION, SNAPSHOT_PATHS[MODEL], DEFAULT_BRANCH)),
        CODE_REVISION: ("revision of the model's code", hub.values(CODE_REVISION, _of_code)),
    }
    yield from apart({path: compared for path, compared in asked.items() if not pool.is_ignored(path)})
    for draft in drift(pool, {MODEL: "folder of the model" if are_folders == {True} else "model"}, _without_owner):
        are_ids = all(any(not is_folder(whole.get(each)) for each in told.replicas) for told in draft.evidence)
        named = replace(draft, remedy=_whole_name(draft, whole))
        yield named if are_ids else _proven(pool, named)
    yield from drift(pool, {LOAD_FORMAT: "setting load_format"}, weights_format)


def _proven(pool: PoolSubject, draft: Draft) -> Draft:
    """Add the architecture that differs; without one, models of which one is a folder may be the same."""
    concerned = {replica for each in draft.evidence for replica in each.replicas}
    shown = [list(_shown(pool, path, concerned)) for path in ARCHITECTURE]
    proof = [each for evidence in shown if len(evidence) > 1 for each in evidence]
    if not proof:
        return replace(draft, assumptions=(OTHER_FOLDER,))
    return replace(draft, evidence=(*draft.evidence, *proof), confidence=Confidence.DERIVED)


def _shown(pool: PoolSubject, path: str, replicas: Collection[str]) -> Iterator[Evidence]:
    for told, held in pool.values(path).items():
        if told.state is State.REPORTED and (part := tuple(each for each in held if each in replicas)):
            yield Evidence(path, *told, part)


def _whole_name(draft: Draft, whole: Mapping[str, object]) -> Remedy:
    """Paste the model as the reference itself names it: with its owner or its whole path."""
    wanted = [whole[each.replicas[0]] for each in draft.evidence if each.is_reference]
    snippets = tuple(Snippet("flag", f"--model {shlex.quote(name)}") for name in wanted if isinstance(name, str))
    return draft.remedy._replace(snippets=snippets)


def _of_code(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Take the model's own revision, which the code has where none is set, for not set."""
    own = settings.get(REVISION)
    follows = DEFAULT_BRANCH if own is None or own.state is State.NULL else SettingValue(own.value, own.state)
    return NOT_SET if told == follows else told


def _without_owner(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    if not isinstance(json.loads(told.value), str):
        return told
    return SettingValue(
        json.dumps(json.loads(told.value).rstrip("/").rpartition("/")[2], ensure_ascii=False), told.state
    )
