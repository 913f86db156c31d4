"""RT-14: replicas of one pool turn the same text into different tokens."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart, drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import NOT_SET
from dashboard.rules.meanings import revisions
from dashboard.rules.registry import rule
from dashboard.rules.subject import Meaning, PoolSubject
from dashboard.vllm.identity import SNAPSHOT_PATHS, is_folder

TOKENIZER = "model_config.tokenizer"
MODE = "model_config.tokenizer_mode"
REVISION = "model_config.tokenizer_revision"
AUTO = '"auto"'


@rule(
    id="RT-14",
    name="tokenizer-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.MODEL: Severity.CRITICAL,
    },
    needs=(TOKENIZER, MODE, REVISION),
)
def tokenizer_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different tokenizers, or another mode or revision of one.

    The folder that a tokenizer lies in means nothing, and a folder `llama` counts as the `llama` of any organisation.
    A snapshot in the hub's cache, which vLLM loads offline, is its id and its commit.

    Why it matters:
        - prefix-hash: The hashes are made of token ids: where the replica makes other ids of a text than the router,
          no prefix is ever found.
        - kv-events: Events name token ids: where a replica makes other ids of a text than the router, its blocks are
          never found.
        - any pool: The same text is cut into other tokens, so answers, token counts, prices and length limits depend
          on which replica answers.

    How to fix:
        Use one `--tokenizer`, one `--tokenizer-mode` and one pinned `--tokenizer-revision` on every replica, and let
        the router use the same tokenizer, or ask a replica for the tokens.

    Exceptions:
        `auto` and the mode that it stands for are the same, but no replica tells which one that is: such a difference
        is reported as assumed. So is a folder of another name, which may hold a copy.

    Evidence:
        - vllm/tokenizers/registry.py (how the mode is resolved)
        - vllm-project/production-stack#1052
        - vllm-project/production-stack#1045

    Example:
        One replica follows the tokenizer repository's main branch, the others a pinned commit. After a fix of the
        special tokens there, its prompts begin with other ids.
    """
    folders = {replica for replica, name in pool.identity(TOKENIZER).items() if is_folder(name)}
    for draft in drift(pool, {TOKENIZER: "tokenizer"}, _without_organisation(pool)):
        is_folder_in = any(not folders.isdisjoint(each.replicas) for each in draft.evidence)
        yield replace(draft, assumptions=("another name is another tokenizer",)) if is_folder_in else draft
    if not pool.is_ignored(REVISION):
        told = revisions(pool, REVISION, SNAPSHOT_PATHS[TOKENIZER], NOT_SET)
        yield from apart({REVISION: ("tokenizer revision", told)})
    for draft in drift(pool, {MODE: "tokenizer mode"}):
        is_auto = any(each.value == AUTO for each in draft.evidence)
        yield replace(draft, assumptions=("auto resolves to another mode",)) if is_auto else draft


def _without_organisation(pool: PoolSubject) -> Meaning:
    """Compare `meta/llama` as `llama` where another replica has a folder `llama`: it may well be a copy."""
    folders = {told.value for told in pool.values(TOKENIZER) if told.state is State.REPORTED and "/" not in told.value}

    def meaning(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
        value = json.loads(told.value)
        if not isinstance(value, str):
            return told
        name = json.dumps(value.rpartition("/")[2], ensure_ascii=False)
        return SettingValue(name, told.state) if name in folders else told

    return meaning
