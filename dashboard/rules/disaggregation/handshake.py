"""PD-02, PD-05, PD-06, PD-08, PD-13 and PD-15: what NIXL compares at the handshake of prefill and decode.

What it compares or asserts depends on the version of vLLM that runs: read in the source of the newest patch of each
minor version from 0.12 to 0.33. Until 0.19 the files below `nixl/` were one:
vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum

from dashboard.compare.equality import AUTO, CACHE_DTYPE, resolved_kv_dtype
from dashboard.compare.holders import Holders
from dashboard.fleet import Setting, SettingValue, State
from dashboard.fleet.formatting import joined
from dashboard.fleet.pieces import value
from dashboard.rules import remedy
from dashboard.rules.connector_options import CONNECTOR, EXTRA, SECTION, connectors, native, option
from dashboard.rules.differences import pair_differences
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import setting_piece, write
from dashboard.rules.subject import YES, PairSubject, PoolSubject, group_by_native
from dashboard.vllm.versions import History, answer_at
from vllm_fleet_provider.shared.spelling import canonical_text

MODEL = "model_config.model"
BACKEND = "attention_config.backend"
BACKEND_VARIABLE = "env.VLLM_ATTENTION_BACKEND"  # before the option existed
ONE_BACKEND = Snippet("flag", "--attention-backend FLASH_ATTN")  # runs on most GPUs
METHOD, DRAFT_MODEL = "speculative_config.method", "speculative_config.model"
DRAFT_DTYPE = "speculative_config.kv_cache_dtype"
# Other settings of a draft model that NIXL compares.
DRAFT_SETTINGS = (
    "speculative_config.revision",
    "speculative_config.code_revision",
    "speculative_config.parallel_drafting",
)
# Methods that read the model's hidden state, which has to be transferred (vllm/config/speculative.py, use_eagle).
HIDDEN_STATE = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
IN_THE_MODEL = "mtp"  # its draft model is the model itself
LAYOUT, LAYOUT_VARIABLE = "cache_config.kv_cache_layout", "env.VLLM_KV_CACHE_LAYOUT"
PERMUTE = f"{SECTION}.enable_permute_local_kv"
# Every version accepts these two names (vllm/envs.py); newer ones also one letter per dimension.
HND, NHD = SettingValue('"HND"', State.REPORTED), SettingValue('"NHD"', State.REPORTED)
LAYOUTS = {"LBHNC": HND, "LBNHC": NHD, "HND": HND, "NHD": NHD}
CHECK = "enforce_handshake_compat"
ASSUMED_COMPARED = "NIXL of these versions compares it"
NIXL = frozenset({"NixlConnector", "NixlPullConnector", "NixlPushConnector"})


class NixlFact(StrEnum):
    """One fact about a version's NIXL connector."""

    COMPARES_BACKEND = "compares backend"
    TRANSFERS_DRAFT_STATE = "transfers draft state"
    HASHES_CONFIG = "hashes config"
    HASHES_HYBRID_MANAGER = "hashes hybrid manager"
    HASHES_CROSS_LAYERS = "hashes cross layers"
    ASSERTS_RANKS = "asserts ranks"
    LEASES_BLOCKS = "leases blocks"


HISTORY: dict[NixlFact, History] = {
    # nixl/metadata.py, compute_nixl_compatibility_hash: attn_backend_name; in 0.12 _validate_remote_agent_handshake
    NixlFact.COMPARES_BACKEND: (((0, 12, 0), True),),
    # nixl/metadata.py, _get_speculative_compatibility_factors since 0.28; before that decode crashed (vllm#49230)
    NixlFact.TRANSFERS_DRAFT_STATE: (((0, 12, 0), True),),
    # nixl/metadata.py, compute_nixl_compatibility_hash: version, model, dtype, cache_dtype. 0.12 has no hash.
    NixlFact.HASHES_CONFIG: (((0, 12, 0), False), ((0, 13, 0), True)),
    # nixl/metadata.py, compute_nixl_compatibility_hash: is_hma_enabled
    NixlFact.HASHES_HYBRID_MANAGER: (((0, 12, 0), False), ((0, 17, 1), False), ((0, 18, 1), True)),
    # nixl/metadata.py, compute_nixl_compatibility_hash: cross_layers_blocks (connector.py, prefer_cross_layer_blocks)
    NixlFact.HASHES_CROSS_LAYERS: (
        *(((0, 12, 0), False), ((0, 15, 1), False), ((0, 16, 0), True)),
        *(((0, 28, 0), True), ((0, 29, 0), False)),
    ),
    # nixl_connector.py, _validate_remote_agent_handshake: tp_ratio > 0 ("Decode TP cannot be smaller than prefill TP")
    NixlFact.ASSERTS_RANKS: (((0, 12, 0), True), ((0, 13, 0), True), ((0, 14, 1), False)),
    # nixl/base_scheduler.py (nixl/scheduler.py until 0.23), __init__: kv_lease_duration. Until 0.21 vllm/envs.py:
    # VLLM_NIXL_ABORT_REQUEST_TIMEOUT
    NixlFact.LEASES_BLOCKS: (((0, 12, 0), False), ((0, 21, 0), False), ((0, 22, 1), True)),
}


def holds(fact: NixlFact, *pools: PoolSubject) -> bool | None:
    """Return whether a fact is true of all members; False where it is untrue of any, None where unknown of any."""
    answers = {answer_at(HISTORY[fact], member.version) for pool in pools for member in pool.members}
    return next((answer for answer in (False, None) if answer in answers), True)


def has_nixl(pair: PairSubject) -> bool:
    """Return whether a side uses NIXL; also where no connector is reported."""
    names = _names(pair)
    return not names or not NIXL.isdisjoint(names)


def reports_nixl(pair: PairSubject) -> bool:
    return not NIXL.isdisjoint(_names(pair))


def _names(pair: PairSubject) -> set[str]:
    return {each.name for side in pair.subjects for found in side.connectors.values() for each in found}


def warn_unless_compared(fact: NixlFact, pair: PairSubject, drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Yield drafts; as warnings with other connectors and versions of NIXL, which do not compare these settings.

    Where the versions are unknown, the findings are assumed.
    """
    is_compared = holds(fact, *pair.subjects) if has_nixl(pair) else False
    for draft in drafts:
        if is_compared is None:
            yield replace(draft, assumptions=(*draft.assumptions, ASSUMED_COMPARED))
        else:
            yield draft if is_compared else replace(draft, severity=Severity.WARNING)


def has_group(pair: PairSubject, kind: str) -> bool:
    """Return whether a replica of either side has a KV cache group of a kind: `mla`, `mamba`."""
    members = (member for side in pair.subjects for member in side.members)
    return any(kind in group.spec_type.lower() for member in members for group in member.kv_cache_groups)


@rule("PD-02", needs=(MODEL,), scope=Scope.PAIR)
def prefill_decode_model_path_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different model paths.

    The whole text of `--model` is compared.
    """
    sides = [group_by_native(side.identity(MODEL)) for side in pair.subjects]
    yield from warn_unless_compared(NixlFact.HASHES_CONFIG, pair, pair_differences(pair, {MODEL: sides}))


@rule("PD-05", needs=(CACHE_DTYPE,), scope=Scope.PAIR)
def prefill_decode_kv_cache_dtype_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different KV cache dtypes.

    With NIXL the option is compared as written: `auto` differs from `bfloat16`, even where both mean the same.
    """
    is_hashed = holds(NixlFact.HASHES_CONFIG, *pair.subjects) if has_nixl(pair) else False
    if is_hashed is False:
        yield from pair_differences(pair, [CACHE_DTYPE], resolved_kv_dtype)
        return
    is_same = len({each for side in pair.subjects for each in side.values(CACHE_DTYPE, resolved_kv_dtype)}) == 1
    for draft in pair_differences(pair, [CACHE_DTYPE]):
        if is_same and is_hashed is None:
            yield replace(draft, assumptions=(ASSUMED_COMPARED,))
        else:
            yield replace(draft, confidence=Confidence.DERIVED) if is_same else draft


@rule("PD-06", needs=(BACKEND, BACKEND_VARIABLE), needs_any=True, scope=Scope.PAIR)
def prefill_decode_attention_backend_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different attention backends.

    No replica reports a backend that vLLM chose. Where neither side sets one, their GPU generations are compared.
    """
    backends = {
        path: [_configured(side.values(path)) for side in pair.subjects] for path in (BACKEND, BACKEND_VARIABLE)
    }
    yield from warn_unless_compared(NixlFact.COMPARES_BACKEND, pair, pair_differences(pair, backends))
    if not any(any(sides) for sides in backends.values()):
        yield from _different_generations(pair)


def _configured(holders: Holders) -> Holders:
    """Return the values that are set and not `auto`."""
    return {each: ids for each, ids in holders.items() if each.state is State.REPORTED and each != AUTO}


def _different_generations(pair: PairSubject) -> Iterator[Draft]:
    """Warn where the GPUs of both sides are of different generations, by which vLLM chooses."""
    sides = [_gpus(side) for side in pair.subjects]
    generations = [{generation for generation, _ in gpus} for gpus in sides]
    if not all(sides) or not generations[0].isdisjoint(generations[1]):
        return
    prefill, decode = (joined(sorted({name for _, name in gpus})) for gpus in sides)
    evidence = (
        Evidence("devices", canonical_text(gpu[1]), State.REPORTED, tuple(sorted(ids)), side.name, side is pair.decode)
        for side, gpus in zip(pair.subjects, sides, strict=True)
        for gpu, ids in sorted(gpus.items())
    )
    gpus = write(value(prefill), " on prefill, ", value(decode), " on decode")
    yield Draft(
        tuple(sorted(each.id for side in pair.subjects for each in side.members)),
        write(setting_piece(BACKEND), " is unset; vLLM chooses by GPU: ", gpus, "."),
        tuple(evidence),
        Remedy("Set one attention backend that runs on both and restart the changed replicas.", (ONE_BACKEND,)),
        severity=Severity.WARNING,
        assumptions=("vLLM chooses a different backend on each",),
    )


def _gpus(side: PoolSubject) -> dict[tuple[str, str], set[str]]:
    """Return the replicas by generation (the first number of the compute capability) and name of their GPUs."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for member in side.members:
        for device in member.devices:
            if device.compute_capability is not None:
                found[device.compute_capability.partition(".")[0], device.name].add(member.id)
    return found


@rule("PD-08", needs=(METHOD,), scope=Scope.PAIR)
def prefill_decode_speculation_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different speculative decoding.

    Methods that use the prompt alone (ngram, suffix) transfer no state: a difference between them is info.
    """
    values = (each.value for side in pair.subjects for each in side.values(METHOD))
    methods = {json.loads(text) for text in values if text.startswith('"')}
    drafts = list(pair_differences(pair, [METHOD]))
    if methods.isdisjoint(HIDDEN_STATE):
        yield from (replace(draft, severity=Severity.INFO) for draft in drafts)
        return
    if not drafts:
        own_model = () if IN_THE_MODEL in methods else (DRAFT_MODEL,)
        drafts += pair_differences(pair, (*own_model, *DRAFT_SETTINGS))
        drafts += pair_differences(pair, [DRAFT_DTYPE], _inherited_dtype)
    yield from warn_unless_compared(NixlFact.TRANSFERS_DRAFT_STATE, pair, drafts)


def _inherited_dtype(dtype: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Resolve an unset dtype: the draft model takes the KV cache dtype of the model."""
    if dtype.state is State.NULL and isinstance(native(settings, CACHE_DTYPE), str):
        return SettingValue(settings[CACHE_DTYPE].value, State.REPORTED)
    return dtype


@rule("PD-13", needs=(LAYOUT, LAYOUT_VARIABLE, "version"), needs_any=True, scope=Scope.PAIR)
def prefill_decode_layout_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different KV cache layouts.

    The effective layout is compared, else the variable that requests one. NIXL's default without the variable is HND.
    """
    if has_group(pair, "mla"):
        return
    resolved = [side.conclude(_resolved_layout) for side in pair.subjects]
    is_resolved = all(resolved)
    path = LAYOUT if is_resolved else LAYOUT_VARIABLE
    sides = resolved if is_resolved else [side.conclude(_requested_layout) for side in pair.subjects]
    permutes = [each.value == "true" for each in pair.decode.values(PERMUTE)]
    if set(sides[0]) == {HND} and set(sides[1]) <= {HND, NHD} and permutes and all(permutes):
        return
    for draft in pair_differences(pair, {path: sides}):
        how = remedy.set_to([(LAYOUT_VARIABLE, next(iter(sides[1])))], draft.remedy.sentence)
        yield replace(draft, remedy=how, confidence=Confidence.REPORTED if is_resolved else Confidence.DERIVED)


def _resolved_layout(settings: Mapping[str, Setting]) -> SettingValue | None:
    layout = native(settings, LAYOUT)
    return LAYOUTS.get(layout) if isinstance(layout, str) else None


def _requested_layout(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the layout of the variable; NIXL's default where other variables are reported and this one is not."""
    layout = native(settings, LAYOUT_VARIABLE)
    if isinstance(layout, str):
        return LAYOUTS.get(layout)
    is_nixl = any(each.name in NIXL for each in connectors(settings))
    return HND if is_nixl and any(path.startswith("env.VLLM_") for path in settings) else None


@rule("PD-15", needs=(CONNECTOR,), least=1)
def handshake_check_is_off(pool: PoolSubject) -> Iterator[Draft]:
    """NIXL's compatibility check of prefill and decode is off."""
    path = f"{EXTRA}.{CHECK}"
    values = pool.of_documents(lambda settings: option(settings, CHECK))
    off = tuple(replica for replica, each in values.items() if each is False)
    if off and not pool.is_ignored(path):
        yield Draft(
            off,
            write(setting_piece(path), " is ", value("false"), "; NIXL does not check compatibility."),
            (Evidence(path, "false", State.REPORTED, off),),
            remedy.set_to([(path, YES)], "Switch the check on and restart these replicas."),
        )
