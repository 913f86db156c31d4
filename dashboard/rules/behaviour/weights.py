"""CO-03, CO-04, CO-13 and CO-15: weights, precision, numerics and setup of the model."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare import equality
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import DTYPE_PATH as DTYPE
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connector_options import native
from dashboard.rules.differences import DEVICES, pool_differences, split
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Confidence, Draft, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject, group_by_native, setting_value
from dashboard.rules.value_equivalence import assume_if_auto, assume_if_folder, empty_is_unset, names_as_one, revisions
from vllm_fleet_provider.shared.identity import is_folder

MODEL = "model_config.model"
REVISION = "model_config.revision"
CODE_REVISION = "model_config.code_revision"
LOAD_FORMAT = "load_config.load_format"
OTHER_FOLDER = "a different name is a different model"
# Where these differ, so do the models.
ARCHITECTURE = (
    "parallel_config.is_moe_model",
    "scheduler_config.is_multimodal_model",
    "cache_config.is_attention_free",
)
QUANTIZATION = "model_config.quantization"
SKIPPED_LAYERS = "cache_config.kv_cache_dtype_skip_layers"
MAMBA = ("cache_config.mamba_cache_dtype", "cache_config.mamba_ssm_cache_dtype")
MAMBA_BLOCK = "cache_config.mamba_block_size"
OTHER_RULES = {ImpactContext.KV_STORE, ImpactContext.DISAGGREGATED}  # SH-01, SH-03, PD-05 report the KV dtype there
MODEL_FILES = "Where no flag sets it, it is from the model's files: then use the same files."
BACKEND = "attention_config.backend"
TP = "parallel_config.tensor_parallel_size"
BATCH_INVARIANT = "env.VLLM_BATCH_INVARIANT"
ONE_TYPE = Remedy(
    "If answers must be equal, use one pool per accelerator type and enable batch invariance on every replica.",
    (Snippet("env", "export VLLM_BATCH_INVARIANT=1"),),
)
EFFECT = " Answers may differ slightly."
ON = ("true", "1", '"1"', '"true"', '"True"')  # canonical JSON of a switch; vllm/envs.py reads 1, replies have true
OVERRIDES = ("model_config.hf_overrides", "model_config.model_class_overrides")
RUNNER, CONVERT = "model_config.runner", "model_config.convert"
RESOLVED_RUNNER = "scheduler_config.runner_type"
POOLER = tuple(
    f"model_config.pooler_config.{name}"
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
)
SKIP_TOKENIZER = "model_config.skip_tokenizer_init"


@rule("CO-03", needs=(REVISION, CODE_REVISION, MODEL, LOAD_FORMAT))
def weights_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool loaded different models or revisions, or random weights.

    The owner of a model's name is ignored: a mirror has the same weights. Of a folder the last part of its path is
    compared. A snapshot in the hub's cache, which vLLM loads offline, counts as its id and commit.
    """
    whole = pool.identity(MODEL)
    hub = pool.only({member.id for member in pool.members if not is_folder(whole.get(member.id))})
    requested = {
        REVISION: revisions(pool, REVISION, MODEL, equality.DEFAULT_BRANCH),
        CODE_REVISION: hub.values(CODE_REVISION, equality.own_code_revision),
    }
    yield from pool_differences(pool, requested)
    for draft in pool_differences(pool, [MODEL], equality.without_owner):
        are_ids = all(any(not is_folder(whole.get(each)) for each in row.replicas) for row in draft.evidence)
        named = replace(draft, remedy=_whole_name(draft, whole))
        yield named if are_ids else _with_architecture(pool, named)
    yield from pool_differences(pool, [LOAD_FORMAT], equality.random_weights)


def _with_architecture(pool: PoolSubject, draft: Draft) -> Draft:
    """Add the architecture that differs; without one, a folder may be the same model."""
    concerned = {replica for each in draft.evidence for replica in each.replicas}
    rows = [[e for e in pool.evidence([p], concerned) if e.state is State.REPORTED] for p in ARCHITECTURE]
    proof = [row for part in rows if len(part) > 1 for row in part]
    if not proof:
        return replace(draft, assumptions=(OTHER_FOLDER,))
    return replace(draft, evidence=(*draft.evidence, *proof), confidence=Confidence.DERIVED)


def _whole_name(draft: Draft, whole: Mapping[str, object]) -> Remedy:
    """Return the model with its owner or whole path, as the reference has it, to paste."""
    wanted = [whole[each.replicas[0]] for each in draft.evidence if each.is_reference]
    snippets = tuple(Snippet("flag", f"--model {shlex.quote(name)}") for name in wanted if isinstance(name, str))
    return draft.remedy._replace(snippets=snippets)


@rule("CO-04", needs=(QUANTIZATION, DTYPE, equality.CACHE_DTYPE))
def precision_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use different quantization or dtypes.

    The effective values are compared: vLLM resolves `auto` when it reads the model. The KV cache dtype and the layers
    left out of its quantization count too. The dtype of Mamba state is info.
    """
    for draft in pool_differences(pool, (QUANTIZATION, DTYPE)):
        yield replace(draft, remedy=draft.remedy._replace(sentence=f"{draft.remedy.sentence} {MODEL_FILES}"))
    if len(pool.values(equality.CACHE_DTYPE)) > 1 and pool.contexts.isdisjoint(OTHER_RULES):
        yield from pool_differences(pool, [equality.CACHE_DTYPE], equality.resolved_kv_dtype)
    yield from pool_differences(pool, [SKIPPED_LAYERS])
    yield from pool_differences(pool, MAMBA, _where_mamba, severity=Severity.INFO)


def _where_mamba(dtype: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a dtype of Mamba state as not set for models without it: vLLM sets no block size for them."""
    block = lookup_value(settings, MAMBA_BLOCK)
    return equality.NOT_SET if block is not None and block.state is State.NULL else dtype


@rule("CO-13", needs=(TP, BACKEND, DEVICES))
def numerics_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool add numbers in a different order, so answers may differ.

    The rule compares accelerators, attention backend and tensor parallelism. Not evaluated where batch invariance is on
    everywhere.
    """
    switches = pool.values(BATCH_INVARIANT)
    if switches and all(is_on(each) for each in switches):
        return
    drafts = list(pool_differences(pool, (BACKEND, TP)))
    names = {each.id: sorted({device.name for device in each.devices}) for each in pool.members if each.devices}
    devices = group_by_native(names)
    if len(devices) > 1 and not pool.is_ignored(DEVICES):
        drafts.append(
            split(DEVICES, devices, next(iter(devices)), write("Accelerators differ: "), ONE_TYPE, noun="type")
        )
    for draft in drafts:
        yield replace(draft, text=write(draft.text, EFFECT), confidence=Confidence.DERIVED)


def is_on(switch: SettingValue) -> bool:
    return switch.value in ON


@rule("CO-15", needs=(*OVERRIDES, equality.CONFIG_FILE, RUNNER, CONVERT, SKIP_TOKENIZER))
def model_setup_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool set the model up differently.

    The rule compares overrides of the model's configuration (`hf_overrides`), the runner, conversion and pooler. The
    runner counts as vLLM resolved it. Of `hf_config_path` the last part is compared. `skip_tokenizer_init` is a
    warning.
    """
    yield from pool_differences(pool, OVERRIDES, empty_is_unset)
    for draft in pool_differences(pool, {equality.CONFIG_FILE: names_as_one(pool.values(equality.CONFIG_FILE))}):
        yield assume_if_folder(draft, pool, equality.CONFIG_FILE)
    tasks = {RUNNER: pool.values(RUNNER, _resolved_runner), CONVERT: pool.values(CONVERT, _resolved_conversion)}
    drafts = list(pool_differences(pool, tasks))
    yield from (assume_if_auto(draft, "auto resolves to a different value") for draft in drafts)
    if not drafts:  # without a pooling runner there is no pooler
        yield from pool_differences(pool, POOLER)
    yield from pool_differences(pool, [SKIP_TOKENIZER], severity=Severity.WARNING)


def _resolved_runner(runner: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return the runner that `auto` resolved to, where reported."""
    resolved = native(settings, RESOLVED_RUNNER)
    return setting_value(resolved) if runner == equality.AUTO and resolved is not None else runner


def _resolved_conversion(convert: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve `auto` to `none` for a generating model; a pooling model may be converted or not."""
    is_generating = native(settings, RESOLVED_RUNNER) == "generate"
    return setting_value("none") if convert == equality.AUTO and is_generating else convert
