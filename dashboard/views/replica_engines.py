"""The engines of one replica: capacity, block hashes, devices, KV cache groups."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.sums import GIB
from dashboard.compare.prefix import canonical_digests, digests
from dashboard.fleet import Basis, Engine, Replica, Setting, State, formatting
from dashboard.fleet.formatting import at_most, count, first_of, middle_cut, one_line, size
from dashboard.fleet.frames import devices_frame, engines_frame, kv_cache_groups_frame
from dashboard.fleet.pieces import Piece, Style, Text, join_texts, plain
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, Tone, number_cell, quiet_paragraph
from dashboard.views.capacity import ranks_table
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.views.capacity_text import ranks_of
from dashboard.views.slugs import slug

MOST_ROWS = 64  # of one table: eight GPUs on eight DP ranks
MOST_NAMES = 12
MOST_REASONS = 3
LONGEST = 60  # characters of a foreign text
LONGEST_REASON = 200
LONGEST_DIGEST = 128  # of a longer one the middle is cut
SEED = "seed_policy"  # reported by the provider only
UNKNOWN = "?"
NO_ENGINES = "No engine data: no reply reports KV cache blocks."
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
    "Compute units": "compute_units",
    "TP rank": "tensor_parallel_rank",
    "PP rank": "pipeline_parallel_rank",
}


def engines_section(fleet: Fleet, replica: Replica, settings: Mapping[str, Setting]) -> Section:
    """Return what is known of the engines of a replica."""
    parts = (
        ("ranks", "Engines", _engines(fleet, replica)),
        ("block-hashes", "Block hashes", _hashes(replica, comparable_replicas(replica, fleet.replicas), settings)),
        ("devices", "Devices", _devices(replica)),
        ("kv-cache-groups", "KV cache groups", _groups(replica)),
    )
    served = (Piece("Served as "), *_names(replica.served_model_names, formatting.NOT_KNOWN))
    adapters = (Piece(". LoRA adapters: "), *_names(tuple(replica.adapters), "none"), Piece("."))
    return Section(
        "engines",
        "Engines and devices",
        (Paragraph((*served, *adapters)),),
        tuple(Section(anchor, title, blocks) for anchor, title, blocks in parts),
    )


def comparable_replicas(replica: Replica, replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    """Return the other fresh replicas of its pool, each process once."""
    same = {replica.id, *replica.same_process}
    return tuple(
        each
        for each in replicas
        if each.pool == replica.pool and each.id not in same and each.fresh and not each.is_second_address
    )


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
    known = [(found, canonical_digests(each.engines)) for each in others if (found := digests(each.engines))]
    if not known:
        return Paragraph(plain("No other replica of the pool reports block hashes."), Tone.UNKNOWN)
    same = sum(found == own for found, _ in known)
    near = sum(found != own and canonical == canonical_digests(engines) is not None for found, canonical in known)
    silent = len(others) - len(known)
    words = f"Same block hashes as {same:,} of {count(len(known), 'other replica')} of the pool"
    words += f" ({silent:,} not reported)" if silent else ""
    words += f"; {near:,} {'differs' if near == 1 else 'differ'} only in block size" if near else ""
    return Paragraph(plain(f"{words}."), Tone.GOOD if same == len(known) else Tone.INFO)


def seed_policy(settings: Mapping[str, Setting]) -> str | None:
    """Return how vLLM chooses the hash seed; None where it is not reported."""
    setting = settings.get(SEED)
    policy = json.loads(setting.value) if setting is not None and setting.state is State.REPORTED else None
    return policy if isinstance(policy, str) else None


def _engines(fleet: Fleet, replica: Replica) -> tuple[Block, ...]:
    if not replica.engines:
        return (quiet_paragraph(NO_ENGINES),)
    rows = engines_frame([replica])
    columns = {
        Column("DP rank"): _texts(rows["dp_rank"]),
        Column("Blocks", is_number=True): _numbers(rows["num_gpu_blocks"]),
        Column("Block size", is_number=True, term="block size"): _numbers(rows["block_size"]),
        Column("KV tokens", is_number=True): _bounded(rows["kv_cache_size_tokens"], rows["basis"], ","),
        Column("Naive estimate", is_number=True, term="naive tokens"): _numbers(rows["naive_tokens"]),
        Column("max_model_len", is_number=True): _numbers(rows["max_model_len"]),
        Column("Requests of max_model_len", is_number=True): _bounded(rows["max_concurrency"], rows["basis"], ",.2f"),
        Column("KV GiB", is_number=True): _gib(rows["kv_cache_bytes"]),
        Column("KV GiB per device", is_number=True): _gib(rows["kv_cache_bytes_per_device"]),
        Column("Basis", term="basis"): _texts(rows["basis"]),
        Column("Reason"): [Cell(each) for each in rows["reason"].fillna("")],
    }
    data = ranks_table(ranks_of(fleet, of=[replica]), f"engines-{slug(replica.name)}", "Engines")
    return (_table(data.name, "Engines", columns, for_programs=lambda: data),)


def _hashes(replica: Replica, others: Sequence[Replica], settings: Mapping[str, Setting]) -> tuple[Block, ...]:
    if all(engine.fingerprint is None for engine in replica.engines):
        return (quiet_paragraph(NO_HASHES),)
    seed = seed_policy(settings)
    comparison = hash_comparison(replica.engines, others, seed)
    rows = engines_frame([replica])
    digests = rows[["fingerprint_engine", "fingerprint_canonical"]]
    if digests.isna().to_numpy().all():
        return (comparison,)  # without block hashes there is no seed
    is_silent = pd.Series([engine.fingerprint is None for engine in replica.engines])
    reasons = rows["fingerprint_reason"].mask(is_silent, "not reported")
    columns = {
        Column("DP rank", term="DP rank"): _texts(rows["dp_rank"]),
        Column("Engine digest", is_hash=True): _texts(rows["fingerprint_engine"], "", LONGEST_DIGEST),
        Column("Canonical digest", is_hash=True): _texts(rows["fingerprint_canonical"], "", LONGEST_DIGEST),
        Column("Reason"): _texts(reasons, "", LONGEST_REASON),
    }
    if reasons.isna().all():
        del columns[Column("Reason")]
    seed_text = (Paragraph(plain(SEEDS[seed])),) if seed in SEEDS else ()
    return (comparison, *seed_text, _table("block-hashes", "Block hashes", columns, DIGESTS_NOTE))


def _devices(replica: Replica) -> tuple[Block, ...]:
    if not replica.devices:
        return (quiet_paragraph(NO_DEVICES),)
    rows = devices_frame([replica])
    shares = rows["kv_cache_bytes"] / rows["total_memory_bytes"].replace(0, pd.NA) * 100
    columns = {
        Column("DP rank"): _texts(rows["dp_rank"]),
        Column("Device", is_number=True): _numbers(rows["rank"]),
        Column("Name"): _texts(rows["name"]),
        Column("Memory GiB", is_number=True): _gib(rows["total_memory_bytes"]),
        Column("KV GiB", is_number=True): _gib(rows["kv_cache_bytes"]),
        Column("KV share", is_number=True, unit="%"): _numbers(shares, lambda share: f"{share:.0f} %"),
        Column("Capability"): _texts(rows["compute_capability"]),
    }
    reported = {title: rows[name] for title, name in PROVIDER_COLUMNS.items() if rows[name].notna().any()}
    columns |= {Column(title, is_number=True): _numbers(values) for title, values in reported.items()}
    return (_table("devices", "Devices", columns),)


def _groups(replica: Replica) -> tuple[Block, ...]:
    if not replica.kv_cache_groups:
        return (quiet_paragraph(NO_GROUPS),)
    rows = kv_cache_groups_frame([replica])
    windows = rows["sliding_window"].replace(0, pd.NA).fillna(rows["attention_chunk_size"]).replace(0, pd.NA)
    columns = {
        Column("DP rank"): _texts(rows["dp_rank"]),
        Column("Group", is_number=True, term="KV cache group"): _numbers(rows["group_id"]),
        Column("Kind", is_code=True): _texts(rows["spec_type"]),
        Column("Block size", is_number=True): _numbers(rows["block_size"]),
        Column("Page", is_number=True): _numbers(rows["page_size_bytes"], size),
        Column("Layers", is_number=True): _numbers(rows["layers"]),
        Column("Window", is_number=True): _numbers(windows, missing="–"),
        Column("KV heads", is_number=True): _numbers(rows["num_kv_heads"]),
        Column("Head size", is_number=True): _numbers(rows["head_size"]),
        Column("dtype", is_code=True): _texts(rows["dtype"]),
    }
    return (_table("kv-cache-groups", "KV cache groups", columns),)


def _table(
    name: str,
    caption: str,
    columns: Mapping[Column, Sequence[Cell]],
    note: str = "",
    for_programs: Callable[[], Table] | None = None,
) -> Table:
    """Return a table of columns; rows beyond MOST_ROWS are counted in its note."""
    rows = tuple(zip(*columns.values(), strict=True))
    hidden = len(rows) - MOST_ROWS
    more = f"{hidden:,} more are not shown." if hidden > 0 else ""
    return Table(name, caption, tuple(columns), rows[:MOST_ROWS], " ".join(filter(None, (note, more))), for_programs)


def _no_fingerprint(engines: Sequence[Engine]) -> str:
    silent = [engine for engine in engines if engine.fingerprint is None or engine.fingerprint.engine is None]
    found = [engine.fingerprint.reason for engine in silent if engine.fingerprint and engine.fingerprint.reason]
    reasons = [middle_cut(one_line(reason), LONGEST_REASON).rstrip(".") for reason in dict.fromkeys(found)]
    why = first_of(reasons, MOST_REASONS) or "reason not reported"
    if len(silent) == len(engines):
        return f"No fingerprint: {why}."
    ranks = first_of((f"{engine.dp_rank}" for engine in silent), MOST_NAMES)
    return f"No fingerprint on rank {ranks}: {why}."


def _texts(values: "pd.Series[Any]", missing: str = UNKNOWN, longest: int = LONGEST) -> list[Cell]:
    return [Cell(missing if pd.isna(each) else middle_cut(one_line(str(each)), longest)) for each in values]


def _numbers(
    values: "pd.Series[Any]", write: Callable[[Any], str] = "{:,}".format, missing: str = UNKNOWN
) -> list[Cell]:
    return [number_cell(missing, None) if pd.isna(each) else number_cell(write(each), each) for each in values.tolist()]


def _bounded(values: "pd.Series[Any]", bases: "pd.Series[Any]", form: str) -> list[Cell]:
    """Return numbers, as upper bounds where their basis is assumed."""
    return [
        cell if value is pd.NA or basis != Basis.ASSUMED else cell._replace(text=at_most(cell.text, Basis.ASSUMED))
        for cell, value, basis in zip(_numbers(values, f"{{:{form}}}".format), values, bases, strict=True)
    ]


def _gib(values: "pd.Series[Any]") -> list[Cell]:
    return _numbers(values / GIB, "{:,.1f}".format)


def _names(names: Sequence[str], nothing: str) -> Text:
    if not names:
        return (Piece(nothing, Style.MUTED),)
    hidden = len(names) - MOST_NAMES
    shown = [(Piece(_cut(name), Style.CODE),) for name in names[:MOST_NAMES]]
    return join_texts([*shown, *([plain(f"{hidden:,} more")] if hidden > 0 else [])])


def _cut(text: str) -> str:
    return middle_cut(one_line(text), LONGEST)
