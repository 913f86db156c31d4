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
from dashboard.rules.selection import evidence_of
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

    Why it matters:
        - kv-store (critical): Store keys do not include the revision. A replica can read KV cache of different weights
          and answer from it without an error.
        - any pool (critical): Other weights give different answers without an error, so answers depend on the replica.

    How to fix:
        Pin a commit with `--revision` (and `--code-revision` for the model's code) on every replica of the pool. A
        branch can change between two downloads.

    Exceptions:
        A folder with a different name may have the same weights: such a difference is assumed, unless the reported
        architecture differs too. A model in a folder has no revision and is not compared. Use a separate pool
        for a rollout of new weights.

    Evidence:
        - vllm/config/load.py (`dummy` initializes the weights with random values)
        - vllm/config/model.py (`revision`, `code_revision`: a branch, a tag or a commit)
        - vllm/v1/kv_offload/file_mapper.py (the keys of the file tier do not include the revision)
        - ai-dynamo/dynamo#799 (the hub's content changed after one worker had downloaded it)
        - vllm-project/vllm#48306

    Example:
        Four replicas run with `--revision 8c22764`, one without. A month later the repository has new weights, and the
        one that restarts on a fresh disk loads them.
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
    rows = [[e for e in evidence_of(pool, [p], concerned) if e.state is State.REPORTED] for p in ARCHITECTURE]
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

    Why it matters:
        - any pool (warning): Answer quality depends on the replica, as does the memory that is left for the KV cache.

    How to fix:
        Set the same `--quantization`, `--dtype` and `--kv-cache-dtype` on every replica of the pool, with the same
        model files: a quantized checkpoint sets the first two by itself. Or serve the quantized model under another
        name.

    Exceptions:
        Accelerators without `bfloat16` use `float16`: use one pool per type. With a KV store or disaggregation, other
        rules report the KV cache dtype.

    Evidence:
        - vllm/config/model.py (`dtype` and `quantization` are resolved from the model's own configuration)
        - vllm/config/cache.py (`cache_dtype`, `kv_cache_dtype_skip_layers`, `mamba_ssm_cache_dtype`)
        - vllm-project/vllm#38149 (readers of configurations asked for both)

    Example:
        Eight replicas run the model in `bfloat16`. One was started with `--quantization fp8` as a trial and stayed
        behind the same router.
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

    Why it matters:
        - any pool (info): Even with temperature 0 the same request can get different words on different replicas. This
          is harmless for chats, but breaks tests and evaluations that expect one answer.

    How to fix:
        Where answers must be equal, use one accelerator type, the same `--tensor-parallel-size` and
        `--attention-backend`, and `VLLM_BATCH_INVARIANT=1` on every replica, which costs speed.

    Exceptions:
        Pools that mix accelerators on purpose: disable the rule.

    Evidence:
        - vllm/v1/attention/selector.py (the backend is chosen per device where none is set)
        - vllm-project/vllm#44189
        - vllm-project/vllm#48613
        - vllm-project/vllm#11526

    Example:
        Three replicas run on H100 and two on L40S. A regression test with temperature 0 passes or fails depending on
        the replica.
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

    Why it matters:
        - any pool (critical): Another rope scaling, runner or pooler computes other results from the same weights.
          Requests succeed, and the answer depends on the replica.

    How to fix:
        Set the same `--hf-overrides`, `--runner`, `--convert` and `--pooler-config` on every replica of the pool.

    Exceptions:
        `--convert auto` of a pooling model resolves to a value that no endpoint reports. Such a difference is assumed,
        as is another folder for `--hf-config-path`.

    Evidence:
        - vllm/config/model.py (`hf_overrides` are applied to the model's configuration; how runner and convert resolve)
        - vllm/config/pooler.py (what a pooler can be set to)

    Example:
        One of four replicas runs with `--hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4}}'`. Its long
        answers differ from those of the others.
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
