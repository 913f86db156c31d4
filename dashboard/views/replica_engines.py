"""The engines of one replica: capacity, block hashes, devices, KV cache groups."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import dominant_of, effect_of
from dashboard.capacity.sums import GIB
from dashboard.compare.hashes import digests
from dashboard.fleet import Basis, Engine, Replica, ReplicaState, Setting, State, formatting
from dashboard.fleet.formatting import FEW, MOST, at_most, count, middle_cut, one_line, share, shortlist, size
from dashboard.fleet.pieces import Piece, Style, Text, plain, shortlist_texts
from dashboard.views.blocks import Block, Paragraph, Section, Tone, quiet_paragraph
from dashboard.views.capacity import ranks_table
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.views.capacity_text import ranks_of
from dashboard.views.names import slug
from dashboard.views.table import Field, to_table
from dashboard.views.traffic import TrafficRow, rate_in_sentence, traffic_table, why_no_rates

MOST_ROWS = 64  # of one table: eight GPUs on eight DP ranks
LONGEST = 60  # characters of a foreign text
LONGEST_REASON = 200
SEED = "seed_policy"  # reported by the provider only
UNKNOWN = "?"
NO_ENGINES = "No engine data: no reply reports KV cache blocks."
NO_TRAFFIC, UNREAD = "Counters of use not read twice yet.", "Counters of use not read: unreachable."
NO_HASHES = "Block hashes not reported. The provider reports them."
NO_GROUPS = "KV cache groups not reported. With them, tokens can be derived for any length."
SEEDS = {
    "default": "The hash seed is vLLM's default, equal on every engine. PYTHONHASHSEED is not needed.",
    "environment": "The hash seed is PYTHONHASHSEED: engines with the same value have the same block hashes.",
    "random": "The hash seed is random: every engine process has another one after every start.",
}
DIGESTS_NOTE = (
    "Engines with equal engine digests have equal block hashes for equal tokens. The canonical digest ignores the "
    "block size."
)
PROVIDER_COLUMNS = {  # of devices, reported by the provider only
    "compute_units": "Compute units",
    "tensor_parallel_rank": "TP rank",
    "pipeline_parallel_rank": "PP rank",
}
_text, _number = partial(Field, missing=UNKNOWN), partial(Field, missing=UNKNOWN, is_number=True)
RANK = Field("dp_rank", "DP rank", lambda row: str(row.dp_rank))


def engines_section(fleet: Fleet, replica: Replica, settings: Mapping[str, Setting]) -> Section:
    parts = (
        Section("ranks", "Engines", _engines(fleet, replica)),
        Section("traffic", "Traffic", _traffic(fleet, replica)),
        Section("block-hashes", "Block hashes", _hashes(fleet, replica, settings)),
        Section("devices", "Devices", _devices(fleet, replica)),
        Section("kv-cache-groups", "KV cache groups", _groups(fleet, replica)),
    )
    served = (Piece("Served as "), *_names(replica.served_model_names, formatting.NOT_KNOWN))
    adapters = (Piece(". LoRA adapters: "), *_names(tuple(replica.adapters), "none"), Piece("."))
    return Section("engines", "Engines and devices", (Paragraph((*served, *adapters)),), parts)


def comparable_replicas(replica: Replica, replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    same = {replica.id, *replica.same_process}
    return tuple(each for each in replicas if each.pool == replica.pool and each.id not in same and each.is_counted)


def hash_comparison(engines: Sequence[Engine], others: Sequence[Replica], seed: str | None = None) -> Paragraph:
    """Return how many of the `others` have the block hashes of these engines."""
    own = digests(engines)
    if own is None:
        return Paragraph(plain(_no_fingerprint(engines)), Tone.UNKNOWN)
    if len(own) > 1:
        is_random = seed in {None, "random"}
        cause = ": each engine process has its own hash seed." if is_random else ": they share no prefixes."
        return Paragraph(plain(f"Ranks have different block hashes{cause}"), Tone.INFO)
    if not others:
        return Paragraph(plain("No other replica in the pool to share prefixes with."), Tone.UNKNOWN)
    known = [(found, digests(each.engines, "canonical")) for each in others if (found := digests(each.engines))]
    if not known:
        return Paragraph(plain("No other replica of the pool reports block hashes."), Tone.UNKNOWN)
    same = sum(found == own for found, _ in known)
    near = sum(found != own and canonical == digests(engines, "canonical") is not None for found, canonical in known)
    silent = len(others) - len(known)
    words = f"Same block hashes as {same:,} of {count(len(known), 'other replica')} of the pool"
    words += f" ({silent:,} not reported)" if silent else ""
    words += f"; {near:,} {'differs' if near == 1 else 'differ'} only in block size" if near else ""
    return Paragraph(plain(f"{words}."), Tone.GOOD if same == len(known) else Tone.INFO)


def _engines(fleet: Fleet, replica: Replica) -> tuple[Block, ...]:
    if not replica.engines:
        return (quiet_paragraph(NO_ENGINES),)
    rows = _rows(fleet.frames.engines, replica)
    rows = rows.assign(
        kv_gib=rows["kv_cache_bytes"] / GIB,
        gib_per_device=rows["kv_cache_bytes_per_device"] / GIB,
    )
    fields = (
        RANK,
        _number("num_gpu_blocks", "Blocks"),
        _number("block_size", "Block size", term="block size"),
        _number(
            "kv_cache_size_tokens",
            "KV tokens",
            lambda row: at_most(f"{row.kv_cache_size_tokens:,}", Basis(row.basis)),
        ),
        _number("naive_tokens", "Naive estimate", term="naive tokens"),
        _number("max_model_len", "max_model_len"),
        _number(
            "max_concurrency",
            "Requests of max_model_len",
            lambda row: at_most(f"{row.max_concurrency:,.2f}", Basis(row.basis)),
        ),
        _number("kv_gib", "KV GiB", "{:,.1f}"),
        _number("gib_per_device", "KV GiB per device", "{:,.1f}"),
        Field("basis", "Basis", term="basis"),
        Field("reason", "Reason", lambda row: row.reason),
    )
    data = ranks_table(ranks_of(fleet, of=[replica]), f"engines-{slug(replica.name)}", "Engines")
    shown = to_table(rows, fields, data.name, "Engines", most=MOST_ROWS)
    return (replace(shown, for_programs=lambda: data),)


def _traffic(fleet: Fleet, replica: Replica) -> tuple[Block, ...]:
    """Return what each DP rank did, its part of the traffic of the pool, and what was not counted."""
    engines = fleet.traffic.get(replica.id, {})
    if not engines:
        is_down = replica.state is ReplicaState.DOWN
        missing = quiet_paragraph(why_no_rates(fleet) or (UNREAD if is_down else NO_TRAFFIC))
        return tuple(_share_of_pool(fleet, replica)) or (missing,)
    ranks = sorted(engines)[:MOST_ROWS]
    rows = [TrafficRow(f"{rank}", engines[rank], is_off=replica.id in fleet.without_cache) for rank in ranks]
    sentences = {sentence: [rank for rank in ranks if sentence in engines[rank].refused] for sentence in _refused(rows)}
    refused = [f"DP rank {shortlist(map(str, own), FEW)}: {sentence}." for sentence, own in sentences.items()]
    notices = [Paragraph(plain(f"Not counted. {each}"), Tone.WARNING) for each in refused[:MOST]]
    return (*_share_of_pool(fleet, replica), traffic_table(rows, "DP rank", "traffic", "Traffic"), *notices)


def _refused(rows: Iterable[TrafficRow]) -> list[str]:
    return list(dict.fromkeys(sentence for row in rows for sentence in row.traffic.refused))


def _share_of_pool(fleet: Fleet, replica: Replica) -> Iterator[Block]:
    pool = replica.pool or ""
    effect = effect_of(fleet, pool, [replica.id])
    if effect.prompt_share is None:
        return
    rates = f"{rate_in_sentence(effect.affected)}, unaffected replicas {rate_in_sentence(effect.rest)}"
    yield Paragraph(plain(f"{share(effect.prompt_share)} of the prompt tokens of {pool}. Prefix hit rate: {rates}."))
    dominant = dominant_of(fleet, [each.id for each in fleet.replicas if each.pool == pool])
    if dominant is not None and dominant[0] == replica.id:
        text = f"Has {share(dominant[1])} of the queried tokens of its pool: it decides the hit rate of the pool."
        yield Paragraph(plain(text), Tone.WARNING)


def _hashes(fleet: Fleet, replica: Replica, settings: Mapping[str, Setting]) -> tuple[Block, ...]:
    if all(engine.fingerprint is None for engine in replica.engines):
        return (quiet_paragraph(NO_HASHES),)
    setting = settings.get(SEED)
    policy = json.loads(setting.value) if setting is not None and setting.state is State.REPORTED else None
    seed = policy if isinstance(policy, str) else None
    comparison = hash_comparison(replica.engines, comparable_replicas(replica, fleet.replicas), seed)
    rows = _rows(fleet.frames.engines, replica)
    if rows[["fingerprint_engine", "fingerprint_canonical"]].isna().to_numpy().all():
        return (comparison,)  # without block hashes there is no seed
    is_silent = pd.Series([engine.fingerprint is None for engine in replica.engines])
    rows = rows.assign(fingerprint_reason=rows["fingerprint_reason"].mask(is_silent, "not reported"))
    fields = [
        replace(RANK, term="DP rank"),
        Field("fingerprint_engine", "Engine digest", is_hash=True),
        Field("fingerprint_canonical", "Canonical digest", is_hash=True),
    ]
    if rows["fingerprint_reason"].notna().any():
        fields.append(Field("fingerprint_reason", "Reason"))
    seed_text = (Paragraph(plain(SEEDS[seed])),) if seed in SEEDS else ()
    table = to_table(rows, fields, "block-hashes", "Block hashes", DIGESTS_NOTE, most=MOST_ROWS)
    return (comparison, *seed_text, table)


def _devices(fleet: Fleet, replica: Replica) -> tuple[Block, ...]:
    if not replica.devices:
        return (quiet_paragraph(NO_DEVICES),)
    rows = _rows(fleet.frames.devices, replica)
    rows = rows.assign(
        memory_gib=rows["total_memory_bytes"] / GIB,
        kv_gib=rows["kv_cache_bytes"] / GIB,
        share=rows["kv_cache_bytes"] / rows["total_memory_bytes"].replace(0, pd.NA) * 100,
    )
    fields = (
        RANK,
        _number("rank", "Device"),
        _text("name", "Name"),
        _number("memory_gib", "Memory GiB", "{:,.1f}"),
        _number("kv_gib", "KV GiB", "{:,.1f}"),
        _number("share", "KV share", "{:.0f}%", unit="%"),
        _text("compute_capability", "Capability"),
        *(_number(name, title) for name, title in PROVIDER_COLUMNS.items() if rows[name].notna().any()),
    )
    return (to_table(rows, fields, "devices", "Devices", most=MOST_ROWS),)


def _groups(fleet: Fleet, replica: Replica) -> tuple[Block, ...]:
    if not replica.kv_cache_groups:
        return (quiet_paragraph(NO_GROUPS),)
    rows = _rows(fleet.frames.kv_cache_groups, replica)
    windows = rows["sliding_window"].replace(0, pd.NA).fillna(rows["attention_chunk_size"]).replace(0, pd.NA)
    fields = (
        RANK,
        _number("group_id", "Group", term="KV cache group"),
        _text("spec_type", "Kind", is_code=True),
        _number("block_size", "Block size"),
        _number("page_size_bytes", "Page", lambda row: size(row.page_size_bytes)),
        _number("layers", "Layers"),
        _text("window", "Window", is_number=True, missing="–"),
        _number("num_kv_heads", "KV heads"),
        _number("head_size", "Head size"),
        _text("dtype", "dtype", is_code=True),
    )
    return (to_table(rows.assign(window=windows), fields, "kv-cache-groups", "KV cache groups", most=MOST_ROWS),)


def _rows(frame: pd.DataFrame, replica: Replica) -> pd.DataFrame:
    return frame[frame["replica"] == replica.id].reset_index(drop=True)


def _no_fingerprint(engines: Sequence[Engine]) -> str:
    silent = [engine for engine in engines if engine.fingerprint is None or engine.fingerprint.engine is None]
    found = [engine.fingerprint.reason for engine in silent if engine.fingerprint and engine.fingerprint.reason]
    reasons = [middle_cut(one_line(reason), LONGEST_REASON).rstrip(".") for reason in dict.fromkeys(found)]
    why = shortlist(reasons, FEW) or "reason not reported"
    if len(silent) == len(engines):
        return f"No fingerprint: {why}."
    ranks = shortlist((f"{engine.dp_rank}" for engine in silent), MOST)
    return f"No fingerprint on rank {ranks}: {why}."


def _names(names: Sequence[str], nothing: str) -> Text:
    if not names:
        return (Piece(nothing, Style.MUTED),)
    return shortlist_texts([(Piece(middle_cut(one_line(name), LONGEST), Style.CODE),) for name in names], MOST)
