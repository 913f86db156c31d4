"""The engines, devices and KV cache groups of one replica, as HTML tables."""

from collections.abc import Sequence

from dashboard.fleet import Basis, Device, Engine, KVCacheGroup, Replica, formatting
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.views.capacity_data import GIB
from dashboard.web import markup

MOST_ROWS = 64  # of one table: eight GPUs on eight DP ranks
MOST_NAMES = 12
LONGEST = 60  # characters of a foreign text
NO_ENGINES = "No engine is known: no reply tells its blocks."
_ONLY_WHERE_TOLD = {  # columns of devices that only the provider fills
    "Compute units": "compute_units",
    "TP rank": "tensor_parallel_rank",
    "PP rank": "pipeline_parallel_rank",
}
NO_GROUPS = "No reply tells its KV cache groups; where they are known, tokens can be derived for any length."

# By table: what its titles mean, where the page has not said it yet.
_TERMS = {
    "Engines": {"Block size": "block size", "Blocks × size": "naive tokens", "Basis": "basis"},
    "KV cache groups": {"Group": "KV cache group"},
}


def served(replica: Replica) -> str:
    """Name the models and adapters that the replica serves."""
    adapters = _names(tuple(replica.adapters)) if replica.adapters else markup.muted("none")
    names = _names(replica.served_model_names) if replica.served_model_names else markup.muted(formatting.NOT_KNOWN)
    return f"<p>Served as {names}. LoRA adapters: {adapters}.</p>"


def engines_table(engines: Sequence[Engine]) -> str:
    """Draw the capacity of every DP rank, with the basis of its tokens and the reason where they are a bound."""
    head = (
        ("DP rank", ""),
        ("Blocks", "number"),
        ("Block size", "number"),
        ("KV tokens", "number"),
        ("Blocks × size", "number"),
        ("Own length", "number"),
        ("Requests at own length", "number"),
        ("KV GiB", "number"),
        ("On each device", "number"),
        ("Basis", "short"),
        ("Reason", ""),
    )
    return _table("Engines", head, [_engine(each) for each in engines[:MOST_ROWS]], len(engines), NO_ENGINES)


def devices_table(devices: Sequence[Device], engines: Sequence[Engine]) -> str:
    """Draw every accelerator with its memory and the part of it that is KV cache; its TP and PP rank where told."""
    held = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in engines}
    told = [
        (title, field)
        for title, field in _ONLY_WHERE_TOLD.items()
        if any(getattr(each, field) is not None for each in devices)
    ]
    head = (
        ("DP rank", ""),
        ("Device", "number"),
        ("Name", ""),
        ("Memory", "number"),
        ("KV cache", "number"),
        ("Share", "number"),
        ("Capability", ""),
        *((title, "number") for title, _ in told),
    )
    rows = [
        [*_device(each, held.get(each.dp_rank)), *(_number(getattr(each, field)) for _, field in told)]
        for each in devices[:MOST_ROWS]
    ]
    return _table("Devices", head, rows, len(devices), NO_DEVICES)


def groups_table(groups: Sequence[KVCacheGroup]) -> str:
    """Draw every KV cache group: what it keeps, and how much room a block of it takes."""
    head = (
        ("DP rank", ""),
        ("Group", "number"),
        ("Kind", ""),
        ("Block size", "number"),
        ("Page", "number"),
        ("Layers", "number"),
        ("Window", "number"),
        ("KV heads", "number"),
        ("Head size", "number"),
        ("dtype", ""),
    )
    return _table("KV cache groups", head, [_group(each) for each in groups[:MOST_ROWS]], len(groups), NO_GROUPS)


def _table(
    title: str, head: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], number: int, nothing: str
) -> str:
    if not rows:
        return f'{markup.section(title)}<div class="foot">{markup.text(nothing)}</div>'
    left = number - len(rows)
    more = f'<div class="foot">{left:,} more are not shown.</div>' if left else ""
    return markup.section(title) + markup.table(title, head, rows, _TERMS.get(title, markup.NO_TERMS)) + more


def _engine(engine: Engine) -> list[str]:
    bound = Basis.ASSUMED if engine.basis is Basis.ASSUMED else Basis.REPORTED
    requests = engine.max_concurrency
    return [
        f"{engine.dp_rank}",
        _number(engine.num_gpu_blocks),
        _number(engine.block_size),
        _number(engine.kv_cache_size_tokens, bound),
        _number(engine.naive_tokens),
        _number(engine.max_model_len),
        markup.muted("?") if requests is None else markup.text(formatting.at_most(f"{requests:,.2f}", bound)),
        _gib(engine.kv_cache_bytes),
        _gib(engine.kv_cache_bytes_per_device),
        markup.text(engine.basis),
        markup.muted(engine.reason or ""),
    ]


def _device(device: Device, held: int | None) -> list[str]:
    total = device.total_memory_bytes
    share = f"{held / total * 100:.0f} %" if held is not None and total else ""
    capability = markup.text(_cut(device.compute_capability)) if device.compute_capability else markup.muted("?")
    return [
        f"{device.dp_rank}",
        f"{device.rank}",
        markup.text(_cut(device.name)),
        _gib(total, " GiB"),
        _gib(held, " GiB"),
        markup.text(share) or markup.muted("?"),
        capability,
    ]


def _group(group: KVCacheGroup) -> list[str]:
    window = group.sliding_window or group.attention_chunk_size
    return [
        f"{group.dp_rank}",
        f"{group.group_id}",
        markup.code(_cut(group.spec_type)),
        _number(group.block_size),
        markup.text(formatting.size(group.page_size_bytes)) if group.page_size_bytes is not None else markup.muted("?"),
        _number(group.layers),
        markup.text(f"{window:,}") if window else markup.muted("–"),
        _number(group.num_kv_heads),
        _number(group.head_size),
        markup.code(_cut(group.dtype)) if group.dtype else markup.muted("?"),
    ]


def _number(number: int | None, basis: Basis = Basis.REPORTED) -> str:
    return markup.muted("?") if number is None else markup.text(formatting.exact(number, basis))


def _gib(size: int | None, unit: str = "") -> str:
    return markup.muted("?") if size is None else markup.text(f"{size / GIB:,.1f}{unit}")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(markup.code(_cut(name)) for name in names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else shown


def _cut(text: str) -> str:
    return formatting.middle_cut(formatting.one_line(text), LONGEST)
