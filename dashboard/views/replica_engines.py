"""The engines of one replica: capacity, block hashes, devices, KV cache groups."""

import json
from collections.abc import Iterable, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare.prefix import canonical_digests, digests
from dashboard.fleet import Basis, Device, Engine, KVCacheGroup, Replica, Setting, State, formatting
from dashboard.fleet.formatting import at_most, count, exact, first_of, middle_cut, one_line, size
from dashboard.fleet.pieces import Piece, Style, Text, joined, plain
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, Tone, number_cell
from dashboard.views.capacity_blocks import NO_DEVICES, PoolRanks
from dashboard.views.capacity_data import GIB, ranks_of
from dashboard.views.capacity_tables import ranks_table
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
ENGINE_COLUMNS = (
    Column("DP rank"),
    Column("Blocks", is_number=True),
    Column("Block size", is_number=True, term="block size"),
    Column("KV tokens", is_number=True),
    Column("Naive estimate", is_number=True, term="naive tokens"),
    Column("max_model_len", is_number=True),
    Column("Requests of max_model_len", is_number=True),
    Column("KV GiB", is_number=True),
    Column("KV GiB per device", is_number=True),
    Column("Basis", term="basis"),
    Column("Reason"),
)
GROUP_COLUMNS = (
    Column("DP rank"),
    Column("Group", is_number=True, term="KV cache group"),
    Column("Kind", is_code=True),
    Column("Block size", is_number=True),
    Column("Page", is_number=True),
    Column("Layers", is_number=True),
    Column("Window", is_number=True),
    Column("KV heads", is_number=True),
    Column("Head size", is_number=True),
    Column("dtype", is_code=True),
)


def engines_section(fleet: Fleet, replica: Replica, settings: Mapping[str, Setting]) -> Section:
    """Return what is known of the engines of a replica."""
    parts = (
        ("ranks", "Engines", _engines(fleet, replica)),
        ("block-hashes", "Block hashes", _hashes(replica, comparable_replicas(replica, fleet.replicas), settings)),
        ("devices", "Devices", _devices(replica)),
        ("kv-cache-groups", "KV cache groups", _groups(replica.kv_cache_groups)),
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
    ranks = tuple(rank for rank in ranks_of(fleet, None) if rank.replica.id == replica.id)
    if not ranks:
        return (_quiet(NO_ENGINES),)
    data = ranks_table([PoolRanks("", "", ranks, {})], f"engines-{slug(replica.name)}", "Engines")
    return (_table(data.name, "Engines", ENGINE_COLUMNS, list(map(_engine, replica.engines)), data=data),)


def _hashes(replica: Replica, others: Sequence[Replica], settings: Mapping[str, Setting]) -> tuple[Block, ...]:
    known = [engine.fingerprint for engine in replica.engines if engine.fingerprint is not None]
    if not known:
        return (_quiet(NO_HASHES),)
    seed = seed_policy(settings)
    comparison = hash_comparison(replica.engines, others, seed)
    if not any(each.engine or each.canonical for each in known):
        return (comparison,)  # without block hashes there is no seed
    columns = [
        Column("DP rank", term="DP rank"),
        Column("Engine digest", is_hash=True),
        Column("Canonical digest", is_hash=True),
        Column("Reason"),
    ]
    rows = [_digests(engine) for engine in replica.engines]
    if not any(row[-1].text for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    seed_text = (Paragraph(plain(SEEDS[seed])),) if seed in SEEDS else ()
    return (comparison, *seed_text, _table("block-hashes", "Block hashes", columns, rows, DIGESTS_NOTE))


def _devices(replica: Replica) -> tuple[Block, ...]:
    if not replica.devices:
        return (_quiet(NO_DEVICES),)
    on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
    fields = {
        title: field
        for title, field in PROVIDER_COLUMNS.items()
        if any(getattr(each, field) is not None for each in replica.devices)
    }
    columns = (
        Column("DP rank"),
        Column("Device", is_number=True),
        Column("Name"),
        Column("Memory GiB", is_number=True),
        Column("KV GiB", is_number=True),
        Column("KV share", is_number=True, unit="%"),
        Column("Capability"),
        *(Column(title, is_number=True) for title in fields),
    )
    rows = [
        (*_device(each, on_each.get(each.dp_rank)), *(_number(getattr(each, field)) for field in fields.values()))
        for each in replica.devices
    ]
    return (_table("devices", "Devices", columns, rows),)


def _groups(groups: Sequence[KVCacheGroup]) -> tuple[Block, ...]:
    if not groups:
        return (_quiet(NO_GROUPS),)
    return (_table("kv-cache-groups", "KV cache groups", GROUP_COLUMNS, list(map(_group, groups))),)


def _table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[tuple[Cell, ...]],
    note: str = "",
    data: Table | None = None,
) -> Table:
    hidden = len(rows) - MOST_ROWS
    notes = [note] if note else []
    notes += [f"{hidden:,} more are not shown."] if hidden > 0 else []
    return Table(name, caption, tuple(columns), tuple(rows[:MOST_ROWS]), " ".join(notes), data)


def _engine(engine: Engine) -> tuple[Cell, ...]:
    bound = Basis.ASSUMED if engine.basis is Basis.ASSUMED else Basis.REPORTED
    requests = engine.max_concurrency
    return (
        Cell(f"{engine.dp_rank}"),
        _number(engine.num_gpu_blocks),
        _number(engine.block_size),
        _number(engine.kv_cache_size_tokens, bound),
        _number(engine.naive_tokens),
        _number(engine.max_model_len),
        number_cell(UNKNOWN if requests is None else at_most(f"{requests:,.2f}", bound), requests),
        _gib(engine.kv_cache_bytes),
        _gib(engine.kv_cache_bytes_per_device),
        Cell(f"{engine.basis}"),
        Cell(engine.reason or ""),
    )


def _digests(engine: Engine) -> tuple[Cell, ...]:
    found = engine.fingerprint
    values = (found.engine, found.canonical) if found else (None, None)
    reason = middle_cut(one_line(found.reason or ""), LONGEST_REASON) if found else "not reported"
    cells = [Cell(middle_cut(one_line(each), LONGEST_DIGEST)) if each else Cell("") for each in values]
    return (Cell(f"{engine.dp_rank}"), *cells, Cell(reason))


def _device(device: Device, kv_bytes: int | None) -> tuple[Cell, ...]:
    total = device.total_memory_bytes
    share = kv_bytes / total * 100 if kv_bytes is not None and total else None
    return (
        Cell(f"{device.dp_rank}"),
        number_cell(f"{device.rank}", device.rank),
        Cell(_cut(device.name)),
        _gib(total),
        _gib(kv_bytes),
        number_cell(UNKNOWN if share is None else f"{share:.0f} %", share),
        Cell(_cut(device.compute_capability) if device.compute_capability else UNKNOWN),
    )


def _group(group: KVCacheGroup) -> tuple[Cell, ...]:
    window = group.sliding_window or group.attention_chunk_size
    page = group.page_size_bytes
    return (
        Cell(f"{group.dp_rank}"),
        number_cell(f"{group.group_id}", group.group_id),
        Cell(_cut(group.spec_type)),
        _number(group.block_size),
        number_cell(UNKNOWN if page is None else size(page), page),
        _number(group.layers),
        number_cell(f"{window:,}" if window else "–", window),
        _number(group.num_kv_heads),
        _number(group.head_size),
        Cell(_cut(group.dtype) if group.dtype else UNKNOWN),
    )


def _no_fingerprint(engines: Sequence[Engine]) -> str:
    silent = [engine for engine in engines if engine.fingerprint is None or engine.fingerprint.engine is None]
    found = [engine.fingerprint.reason for engine in silent if engine.fingerprint and engine.fingerprint.reason]
    reasons = [middle_cut(one_line(reason), LONGEST_REASON).rstrip(".") for reason in dict.fromkeys(found)]
    why = first_of(reasons, MOST_REASONS) or "reason not reported"
    if len(silent) == len(engines):
        return f"No fingerprint: {why}."
    ranks = first_of((f"{engine.dp_rank}" for engine in silent), MOST_NAMES)
    return f"No fingerprint on rank {ranks}: {why}."


def _number(number: int | None, basis: Basis = Basis.REPORTED) -> Cell:
    return number_cell(UNKNOWN if number is None else exact(number, basis), number)


def _gib(number: int | None) -> Cell:
    return number_cell(UNKNOWN if number is None else f"{number / GIB:,.1f}", None if number is None else number / GIB)


def _names(names: Sequence[str], nothing: str) -> Text:
    if not names:
        return (Piece(nothing, Style.MUTED),)
    hidden = len(names) - MOST_NAMES
    shown = [(Piece(_cut(name), Style.CODE),) for name in names[:MOST_NAMES]]
    return joined([*shown, *([plain(f"{hidden:,} more")] if hidden > 0 else [])])


def _quiet(text: str) -> Paragraph:
    return Paragraph((Piece(text, Style.MUTED),))


def _cut(text: str) -> str:
    return middle_cut(one_line(text), LONGEST)
