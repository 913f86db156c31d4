"""CO-15: replicas of one pool set the model up differently."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue
from dashboard.rules.connectors import value
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart, drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import told_of
from dashboard.rules.meanings import AUTO, without_empty
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

OVERRIDES = {
    "model_config.hf_overrides": "setting hf_overrides",
    "model_config.model_class_overrides": "setting model_class_overrides",
    "model_config.hf_config_path": "setting hf_config_path",
}
RUNNER, CONVERT = "model_config.runner", "model_config.convert"
RESOLVED_RUNNER = "scheduler_config.runner_type"
POOLER = {
    f"model_config.pooler_config.{name}": f"setting pooler_config.{name}"
    for name in (
        "task",
        "pooling_type",
        "seq_pooling_type",
        "tok_pooling_type",
        "normalize",
        "use_activation",
        "dimensions",
        "enable_chunked_processing",
        "max_embed_len",
        "logit_bias",
        "logit_mean",
        "logit_sigma",
        "step_tag_id",
        "returned_token_ids",
    )
}
LESSER = {"model_config.skip_tokenizer_init": "setting skip_tokenizer_init"}


@rule(
    id="CO-15",
    name="model-setup-differs",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(*OVERRIDES, RUNNER, CONVERT, *LESSER),
)
def model_setup_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool set the model up differently.

    Compared are overrides of the model's configuration (`hf_overrides`), the runner, conversion and pooler. The runner
    counts as vLLM resolved it. `skip_tokenizer_init` is a warning.

    Why it matters:
        - any pool: Another rope scaling, runner or pooler computes other results from the same weights. Requests
          succeed, and the answer depends on the replica.

    How to fix:
        Give every replica of the pool the same `--hf-overrides`, `--runner`, `--convert` and `--pooler-config`.

    Exceptions:
        `--convert auto` of a pooling model resolves to a value that no endpoint reports. Such a difference is assumed.

    Evidence:
        - vllm/config/model.py (`hf_overrides` are applied to the model's configuration; how runner and convert resolve)
        - vllm/config/pooler.py (what a pooler can be set to)

    Example:
        One of four replicas runs with `--hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4}}'`. Its long
        answers differ from those of the others.
    """
    yield from drift(pool, OVERRIDES, without_empty)
    tasks = {
        RUNNER: ("setting runner", pool.values(RUNNER, _resolved)),
        CONVERT: ("setting convert", pool.values(CONVERT, _converted)),
    }
    drafts = list(apart({path: told for path, told in tasks.items() if not pool.is_ignored(path)}))
    yield from map(_assumed_if_auto, drafts)
    if not drafts:  # without a pooling runner there is no pooler
        yield from drift(pool, POOLER)
    for draft in drift(pool, LESSER):
        yield replace(draft, severity=Severity.WARNING)


def _resolved(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return the runner that `auto` resolved to, where it is reported."""
    runner = value(settings, RESOLVED_RUNNER)
    return told_of(runner) if told == AUTO and runner is not None else told


def _converted(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve `auto` to `none` for a model that generates; a pooling model may be converted or not."""
    return told_of("none") if told == AUTO and value(settings, RESOLVED_RUNNER) == "generate" else told


def _assumed_if_auto(draft: Draft) -> Draft:
    may_be_equal = any(each.value == AUTO.value for each in draft.evidence)
    return replace(draft, assumptions=("auto resolves to another value",)) if may_be_equal else draft
