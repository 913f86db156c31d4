"""PD-08: prefill and decode speculate differently."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connectors import value
from dashboard.rules.disaggregation.handshake import as_checked
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.meanings import CACHE_DTYPE
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

METHOD, MODEL = "speculative_config.method", "speculative_config.model"
DRAFT_DTYPE = "speculative_config.kv_cache_dtype"
NOUN = {METHOD: "speculation method"}
# What else NIXL compares of a draft model.
DRAFT_MODEL = {
    "speculative_config.revision": "draft model revision",
    "speculative_config.code_revision": "draft model code revision",
    "speculative_config.parallel_drafting": "parallel drafting",
}
# They look into the model's own state, which has to move too (vllm/config/speculative.py, use_eagle).
HIDDEN_STATE = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
IN_THE_MODEL = "mtp"  # its draft model is the model itself


@rule(
    id="PD-08",
    name="prefill-decode-speculation-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(METHOD,),
)
def speculation_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode speculate differently.

    Methods that guess from the prompt alone (ngram, suffix) move no state: a difference in them is only told.

    Why it matters:
        - disaggregated: Draft heads such as EAGLE and MTP have KV cache of their own, which has to come from prefill
          too: NIXL's handshake is refused, and before it checked this, decode crashed on long prompts.

    How to fix:
        Give both pools the same `--speculative-config`, also where prefill itself has no use for it.

    Exceptions:
        Connectors other than NIXL do not compare it: there it is a warning.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (what of it is a factor of the hash)
        - vllm-project/vllm#49230
        - vllm-project/vllm#54926
        - ai-dynamo/dynamo#12198

    Example:
        Decode runs with EAGLE-3 for speed; prefill was left without, because it generates one token only.
    """
    methods = {json.loads(told.value) for side in pair.sides for told in side.values(METHOD) if _is_text(told)}
    drafts = list(across(pair, NOUN))
    if methods.isdisjoint(HIDDEN_STATE):
        yield from (replace(draft, severity=Severity.INFO) for draft in drafts)
        return
    if not drafts:
        drafts += across(pair, DRAFT_MODEL if IN_THE_MODEL in methods else {MODEL: "draft model", **DRAFT_MODEL})
        drafts += across(pair, {DRAFT_DTYPE: "KV cache dtype of the draft model"}, _inherited)
    yield from as_checked(pair, drafts)


def _is_text(told: SettingValue) -> bool:
    return told.state is State.REPORTED and told.value.startswith('"')


def _inherited(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve what is not set: the draft model takes the KV cache dtype of the model."""
    if told.state is State.NULL and isinstance(value(settings, CACHE_DTYPE), str):
        return SettingValue(settings[CACHE_DTYPE].value, State.REPORTED)
    return told
