"""Rules on what clients request: names, lengths, limits, adapters, sampling defaults and chat templates."""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import AUTO
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Replica, Setting, SettingValue, Source, State
from dashboard.fleet.pieces import join_texts, shortlist_texts, value
from dashboard.rules.connector_options import native
from dashboard.rules.differences import extended, pool_differences
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.selection import evidence_of
from dashboard.rules.sentences import ADAPTERS, MAX_VALUES, name_piece, names_text, setting_piece, write
from dashboard.rules.subject import PoolSubject, setting_value
from dashboard.rules.value_equivalence import assume_if_auto, empty_is_unset
from vllm_fleet_provider.shared.identity import is_folder
from vllm_fleet_provider.shared.spelling import canonical_text

MAX_MODEL_LEN = "model_config.max_model_len"
TOO_LONG = "If vLLM then reports too little memory, set the length that fits there on the whole pool."
NAMES = "served_model_names"
FIRST_NAME_DIFFERS = "The first name labels all metrics, so queries by name miss some replicas."
MAX_NAMES = 3  # names in a sentence before the rest is counted
UNKNOWN_PATH = "/path/to/it"  # where no replica reports the path, or several differ (SH-05)
MAX_RANK = "lora_config.max_lora_rank"  # null only where LoRA is not enabled
LORA_LIMITS = (
    MAX_RANK,
    "lora_config.max_loras",
    "lora_config.max_cpu_loras",
    "lora_config.lora_dtype",
    "lora_config.target_modules",
)
ENABLE_LORA = Remedy("Enable LoRA on all replicas of the pool or on none.", (Snippet("flag", "--enable-lora"),))
RANKS = "parallel_config.data_parallel_size"
SCALE_LIMITS = Remedy(
    "Choose one limit per DP rank for the pool and set it times `--data-parallel-size` on each replica."
)
QUEUE_LIMITS = ("scheduler_config.max_num_queued_reqs", "scheduler_config.max_num_queued_tokens")
MODEL = "model_config.model"
GENERATION_CONFIG = "model_config.generation_config"
OVERRIDE = "model_config.override_generation_config"
DIGEST = "chat_template_digest"
CONTENT_FORMAT = "chat_template_content_format"
SAME_FILE = (
    Snippet("flag", "--chat-template /etc/vllm/chat_template.jinja"),
    Snippet(
        "yaml",
        "volumes:\n- name: chat-template\n  configMap:\n    name: chat-template\n"
        "volumeMounts:\n- name: chat-template\n  mountPath: /etc/vllm",
    ),
)


@rule("CO-01", needs=(MAX_MODEL_LEN,))
def context_length_differs(pool: PoolSubject, *, length_aware: bool = False) -> Iterator[Draft]:
    """Replicas of one pool accept requests of different lengths.

    The effective length is compared. It counts the tokens of prompt and answer together.

    Why it matters:
        - any pool (critical): One replica answers a long request, another refuses it with 400, so clients see
          intermittent errors. A router that reads one replica's limit is wrong about the others.

    How to fix:
        Set the same `--max-model-len` on every replica. With `-1` or `auto` vLLM reduces the length to what fits into
        memory, so equal command lines give different lengths: set the number that fits on the smallest replica.

    Exceptions:
        Where the router routes by length, set the parameter `length_aware`: the finding is then a warning. Or use one
        pool per length with the label `pool`.

    Evidence:
        - vllm/renderers/params.py (a longer prompt is refused)
        - vllm/v1/core/kv_cache_utils.py (the length is reduced to the available memory)
        - vllm/v1/engine/core_client.py (the front end uses the reduced length)
        - llm-d/llm-d-router#710 (lengths that differ on purpose)

    Example:
        Four replicas run with `--max-model-len 131072`, one with 32768. A prompt of 60,000 tokens succeeds four times
        of five. The fifth time it fails with 400: the maximum context length is 32768 tokens.
    """
    for draft in pool_differences(pool, [MAX_MODEL_LEN]):
        lengths = {length for each in draft.evidence if type(length := json.loads(each.value)) is int}
        refused = f" Requests above {min(lengths)} tokens fail with 400 there." if len(lengths) > 1 else ""
        yield replace(
            draft,
            text=write(draft.text, refused),
            remedy=draft.remedy._replace(sentence=f"{draft.remedy.sentence} {TOO_LONG}"),
            severity=Severity.WARNING if length_aware else None,
        )


@rule("CO-02", needs=(NAMES,))
def served_names_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool serve different model names.

    The first name is compared on its own: it is in answers and labels all metrics. The order of the others is ignored.

    Why it matters:
        - any pool (critical): Replicas without a name refuse requests for it with 404. With a different first name,
          metrics have a different label, and dashboards and autoscalers see only some replicas.

    How to fix:
        Set the same `--served-model-name` list on every replica, the name for metrics first.

    Exceptions:
        While clients move to a new name, serve both on every replica and suppress the finding until then.

    Evidence:
        - vllm/entrypoints/openai/models/serving.py (404 for a name that is not served)
        - vllm/v1/metrics/loggers.py (the first name is the label `model_name`)
        - llm-d/llm-d#2310

    Example:
        Four replicas serve `chat` and `chat-v2`, one was started before `chat-v2` was added. Every fifth request for
        `chat-v2` fails with 404.
    """
    for draft in pool_differences(pool, [NAMES], _first_then_sorted):
        here, *others = [_names(json.loads(each.value)) for each in draft.evidence]
        if any(each.is_reference for each in draft.evidence):
            unequal = {"here for ": others[0] - here, "on the others for ": here - others[0]}
        else:
            unequal = {"on some replicas for ": here.union(*others) - here.intersection(*others)}
        failing = [write(where, names_text(sorted(names), MAX_NAMES)) for where, names in unequal.items() if names]
        severity = None if failing else Severity.WARNING
        effect = write("404 ", join_texts(failing), ".") if failing else FIRST_NAME_DIFFERS
        yield replace(draft, text=write(draft.text, " ", effect), severity=severity)


def _first_then_sorted(names: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Sort the names after the first."""
    loaded = json.loads(names.value)
    if not isinstance(loaded, list):
        return names
    return setting_value([*loaded[:1], *sorted(loaded[1:], key=canonical_text)])


def _names(names: object) -> set[str]:
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


@rule("CO-09", needs=(NAMES,))
def adapters_differ(pool: PoolSubject, *, lora_aware: bool = False) -> Iterator[Draft]:
    """Replicas of one pool have different LoRA adapters loaded.

    Adapters are read from `/v1/models` in every poll, because they change at runtime. SH-05 compares their paths.

    Why it matters:
        - any pool (critical): Replicas without an adapter refuse requests for it with 404. Loading it through the API
          reaches only the replica that receives the call.

    How to fix:
        Load adapters on every replica: list them with `--lora-modules` at start, or let a controller call
        `/v1/load_lora_adapter` on each replica's own address, never on the pool's.

    Exceptions:
        A router that knows the adapters of each replica makes this harmless: set the parameter `lora_aware`. Adapters
        that a resolver plugin loads on the first request need no finding either.

    Evidence:
        - vllm/entrypoints/openai/models/serving.py (404 for an adapter that is not loaded)
        - vllm/entrypoints/serve/lora/api_router.py (loading is a call to one server)
        - vllm-project/vllm#12174
        - vllm-project/production-stack#708

    Example:
        The adapter `sql` was loaded with one POST to the pool's service. One replica of four has it, and three of four
        requests for `sql` fail with 404.
    """
    if pool.is_ignored(ADAPTERS):
        return
    asked = [each for each in pool.members if Source.MODELS in each.sources]
    everything = frozenset().union(*(each.adapters for each in asked))
    lacking: dict[tuple[str, ...], list[Replica]] = defaultdict(list)
    for replica in asked:
        if missing := everything - set(replica.adapters):
            lacking[tuple(sorted(missing))].append(replica)
    for names, replicas in sorted(lacking.items()):
        yield _missing_adapters(names, replicas, asked, Severity.INFO if lora_aware else None)


def _missing_adapters(
    names: tuple[str, ...], replicas: Sequence[Replica], asked: Sequence[Replica], severity: Severity | None
) -> Draft:
    """Draft adapters that only other replicas have."""
    numbers = {name: sum(name in each.adapters for each in asked) for name in names}
    shown = [write(name_piece(name), f" (on {numbers[name]:,} of {len(asked):,} replicas)") for name in names]
    kind, verb, them = ("adapter", "is", "it") if len(names) == 1 else ("adapters", "are", "them")
    modules = " ".join(shlex.quote(f"{name}={_adapter_path(name, asked)}") for name in names[:MAX_VALUES])
    return Draft(
        tuple(sorted(each.id for each in replicas)),
        write(
            f"LoRA {kind} ",
            shortlist_texts(shown, MAX_VALUES),
            f" {verb} not loaded; requests for {them} fail with 404.",
        ),
        tuple(_adapter_evidence(replicas, asked)),
        Remedy(
            f"Load {them} on each of these replicas at its own address, and at start so that restarts keep {them}. "
            f"Or unload {them} from the others.",
            (Snippet("flag", f"--lora-modules {modules}"),),
        ),
        severity=severity,
    )


def _adapter_path(name: str, asked: Sequence[Replica]) -> str:
    """Return the path from which the others loaded an adapter, if it is one."""
    paths = {path for each in asked if (path := each.adapters.get(name)) is not None}
    return paths.pop() if len(paths) == 1 else UNKNOWN_PATH


def _adapter_evidence(replicas: Sequence[Replica], asked: Sequence[Replica]) -> Iterator[Evidence]:
    """Yield every set of loaded adapters, first that of these replicas; the others are the reference."""
    odd = {each.id for each in replicas}
    loaded: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
    for replica in asked:
        loaded[replica.id not in odd, tuple(sorted(replica.adapters))].append(replica.id)
    for (is_other, names), ids in sorted(loaded.items()):
        yield Evidence(ADAPTERS, *setting_value(list(names)), tuple(ids), is_reference=is_other)


@rule("CO-10", needs=(MAX_RANK,))
def lora_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different LoRA limits.

    Where only some replicas enable LoRA, that is reported first, without the limits.

    Why it matters:
        - any pool (warning): One replica loads an adapter that another refuses because of its rank, or requests queue
          because fewer adapters fit into a batch.

    How to fix:
        Set the same `--enable-lora`, `--max-lora-rank`, `--max-loras`, `--max-cpu-loras`, `--lora-dtype` and
        `--lora-target-modules` on every replica of the pool.

    Exceptions:
        A router that knows the adapters of each replica may use other limits on purpose: disable the rule.

    Evidence:
        - vllm/lora/peft_helper.py (an adapter of a higher rank is refused)
        - vllm/config/lora.py (the limits; without `max_cpu_loras` it is `max_loras`)

    Example:
        Four replicas run with `--max-lora-rank 64`, one with the default of 16. The adapter `sql`, of rank 32, loads on
        four of five.
    """
    enabled = pool.values(MAX_RANK, _enabled)
    if len(enabled) <= 1:
        yield from pool_differences(pool, LORA_LIMITS)
        return
    sides = join_texts(write(value(str(json.loads(each.value))), f" on {len(ids):,}") for each, ids in enabled.items())
    for draft in pool_differences(pool, [MAX_RANK], _enabled):
        yield replace(
            draft,
            text=write("LoRA support differs: ", sides, "."),
            evidence=evidence_of(pool, [MAX_RANK]),
            remedy=ENABLE_LORA,
        )


def _enabled(rank: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return setting_value("disabled" if rank.state is State.NULL else "enabled")


@rule("CO-11", needs=QUEUE_LIMITS)
def queue_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool refuse requests at different loads.

    Without a limit nothing is refused. vLLM has these limits since 0.29.

    Why it matters:
        - any pool (warning): Under the same load one replica answers 503 while the others accept requests, or one
          queues without limit while the others protect their latency.

    How to fix:
        Set the same `--max-num-queued-reqs` and `--max-num-queued-tokens` on every replica of the pool. They apply to
        one API server over all its DP ranks: scale them with `--data-parallel-size`.

    Exceptions:
        Limits that are equal per DP rank are no finding.

    Evidence:
        - vllm/config/scheduler.py (a request over the limit is rejected with 503; counted over all DP ranks)
        - vllm/v1/engine/async_llm.py (where it is decided)

    Example:
        Four replicas allow 512 requests, one was left at 64 after a test. In the evening peak every fifth request fails
        with 503 while the other four are half idle.
    """
    if len(pool.values(RANKS)) <= 1:
        yield from pool_differences(pool, QUEUE_LIMITS)
        return
    for draft in pool_differences(pool, QUEUE_LIMITS, _per_rank):
        paths = (*dict.fromkeys(each.path for each in draft.evidence), RANKS)
        text = extended(draft.text, " (per DP rank, by ", setting_piece(RANKS), ").")
        yield replace(
            draft, text=text, evidence=evidence_of(pool, paths), remedy=SCALE_LIMITS, confidence=Confidence.DERIVED
        )


def _per_rank(limit: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Divide a limit by the number of DP ranks; one that is no number stays."""
    number, size = json.loads(limit.value), lookup_value(settings, RANKS)
    ranks = json.loads(size.value) if size is not None and size.state is State.REPORTED else 1
    if type(number) is not int or type(ranks) is not int or ranks < 1:
        return limit
    return setting_value(number // ranks)


@rule("CO-05", needs=(GENERATION_CONFIG, OVERRIDE))
def sampling_defaults_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different sampling defaults.

    An empty override equals none. `auto` equals the model's own folder or id.

    Why it matters:
        - any pool (warning): A request without temperature, top_p, penalties or token limit uses the replica's
          defaults, so the same prompt gets answers in a different style or length.

    How to fix:
        Set the same `--generation-config` and `--override-generation-config` on every replica of the pool.

    Exceptions:
        Where every client sends all sampling parameters, the defaults are never used: disable the rule.

    Evidence:
        - vllm/config/model.py (`auto` reads the model's own file, `vllm` reads none, overrides apply last)

    Example:
        Four replicas use the model's defaults, with temperature 0.6. One runs with `--generation-config vllm`, where
        the temperature is 1.0.
    """
    yield from pool_differences(pool, {GENERATION_CONFIG: _sources(pool)})
    yield from pool_differences(pool, [OVERRIDE], empty_is_unset)


def _sources(pool: PoolSubject) -> Holders:
    """Group replicas by source of the defaults; the model's own folder or id counts as `auto`."""
    whole, part = pool.identity(MODEL), pool.of_documents(lambda settings: native(settings, MODEL))

    def is_own(replica: str, source: object) -> bool:
        names = (whole.get(replica), None if is_folder(whole.get(replica)) else part[replica])
        return isinstance(source, str) and source.rstrip("/") in [str(name).rstrip("/") for name in names if name]

    values: dict[str, SettingValue] = {}
    for own, ids in pool.values(GENERATION_CONFIG).items():
        source = json.loads(own.value)
        values |= {each: AUTO if own != AUTO and is_own(each, source) else own for each in ids}
    return group_by_value(values)


@rule("CO-06", needs=(DIGEST, CONTENT_FORMAT))
def chat_template_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different chat templates.

    Compared is the digest of the template's text. Only the dashboard's provider reports it.

    Why it matters:
        - prefix-hash (critical): The router renders chats with one template. It never matches replicas with another
          one, which also answer differently.
        - kv-events (critical): The same chat has different tokens on each side, so blocks are never found for prompts
          that another replica rendered. Answers depend on the replica.
        - any pool (critical): The same chat becomes a different prompt, so answers depend on the replica.

    How to fix:
        Mount one template file into every replica of the pool, from one ConfigMap, and set it with `--chat-template`;
        set `--chat-template-content-format` where it is not detected. A router that renders chats needs the same file.

    Exceptions:
        Pools that only serve plain completions use no template: disable the rule for them. `auto` may equal the other
        format, because no replica reports what it resolves to: such a difference is assumed.

    Evidence:
        - vllm/entrypoints/launchers/cli_args.py (the options; they are not part of the engine's configuration)
        - ai-dynamo/dynamo#2934 (checksums of the template files)
        - vllm-project/production-stack#1045

    Example:
        The template was fixed on the model's hub. Replicas that started since then render the system prompt with one
        line break less, and match no cached prefix of the others.
    """
    sentence = "Start every replica of the pool with the same template file."
    for draft in pool_differences(pool, [DIGEST]):
        yield replace(draft, remedy=Remedy(sentence, (*SAME_FILE, *draft.remedy.snippets)))
    for draft in pool_differences(pool, [CONTENT_FORMAT]):
        yield assume_if_auto(draft, "auto resolves to a different format")
