"""Rules on what clients request: names, lengths, limits, adapters, sampling defaults and chat templates."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import AUTO
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Replica, Setting, SettingValue, Source, State
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import join_texts, shortlist_texts, value
from dashboard.rules.connector_options import native
from dashboard.rules.differences import extended, pool_differences
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
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
    """
    if pool.is_ignored(ADAPTERS):
        return
    asked = [each for each in pool.members if Source.MODELS in each.sources]
    everything = frozenset().union(*(each.adapters for each in asked))
    lacking = grouped((tuple(sorted(everything.difference(each.adapters))), each) for each in asked)
    lacking.pop((), None)
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
    loaded = grouped(((each.id not in odd, tuple(sorted(each.adapters))), each.id) for each in asked)
    for (is_other, names), ids in sorted(loaded.items()):
        yield Evidence(ADAPTERS, *setting_value(list(names)), tuple(ids), is_reference=is_other)


@rule("CO-10", needs=(MAX_RANK,))
def lora_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different LoRA limits.

    Where only some replicas enable LoRA, that is reported first, without the limits.
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
            evidence=pool.evidence([MAX_RANK]),
            remedy=ENABLE_LORA,
        )


def _enabled(rank: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return setting_value("disabled" if rank.state is State.NULL else "enabled")


@rule("CO-11", needs=QUEUE_LIMITS)
def queue_limits_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool refuse requests at different loads.

    Without a limit nothing is refused. vLLM has these limits since 0.29.
    """
    if len(pool.values(RANKS)) <= 1:
        yield from pool_differences(pool, QUEUE_LIMITS)
        return
    for draft in pool_differences(pool, QUEUE_LIMITS, _per_rank):
        paths = (*dict.fromkeys(each.path for each in draft.evidence), RANKS)
        text = extended(draft.text, " (per DP rank, by ", setting_piece(RANKS), ").")
        yield replace(
            draft, text=text, evidence=pool.evidence(paths), remedy=SCALE_LIMITS, confidence=Confidence.DERIVED
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
    """
    sentence = "Start every replica of the pool with the same template file."
    for draft in pool_differences(pool, [DIGEST]):
        yield replace(draft, remedy=Remedy(sentence, (*SAME_FILE, *draft.remedy.snippets)))
    for draft in pool_differences(pool, [CONTENT_FORMAT]):
        yield assume_if_auto(draft, "auto resolves to a different format")
