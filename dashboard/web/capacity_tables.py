"""The tables of Capacity: the pools as HTML, the ranks as a dataframe."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dashboard.capacity.outliers import Outlier
from dashboard.fleet import formatting
from dashboard.report.capacity.pools import PoolCapacity, Sum
from dashboard.report.capacity.ranks import GIB, Measure, Rank
from dashboard.report.capacity.words import length_words, naive_sentence, name_of, percent, ranks_text, sum_text
from dashboard.web import markup
from dashboard.web.capacity_controls import Choice, address

NOT_SERVED = "not served"
_NAIVE = "Blocks × block size would say"
_TERMS = {"Ranks": "DP rank", "KV tokens": "capacity", "Basis": "basis", _NAIVE: "naive tokens"}


def pools_table(pools: Sequence[PoolCapacity], choice: Choice) -> str:
    """Draw the table of pools as HTML, with what blocks x block size would say beside vLLM's own tokens."""
    head = (
        ("Pool", ""),
        ("Ranks", "number"),
        ("KV tokens", "number"),
        (f"Requests at {length_words(choice.length)}", "number"),
        ("KV GiB", "number"),
        ("Basis", "short"),
        (_NAIVE, ""),
    )
    return markup.table("KV cache capacity of the pools", head, [_row(pool, choice) for pool in pools], _TERMS)


def ranks_table(ranks: Sequence[Rank], found: Mapping[int, Outlier]) -> pd.DataFrame:
    """Return a row per rank: what the bars show, and the rest. Foreign text only in plain columns."""
    rows = [
        (
            name_of(rank.replica.name),
            rank.engine.dp_rank,
            rank.letter,
            rank.engine.kv_cache_size_tokens,
            percent(found[place].share) if place in found else "",
            rank.at.requests,
            rank.engine.kv_cache_bytes / GIB if rank.engine.kv_cache_bytes is not None else None,
            rank.engine.naive_tokens,
            str(rank.engine.basis),
            name_of(rank.kind),
            rank.engine.reason or "",
        )
        for place, rank in enumerate(ranks)
    ]
    table = pd.DataFrame(rows, columns=pd.Index(_RANK_COLUMNS))
    return table.astype({name: dtype for name, dtype in _RANK_COLUMNS.items() if dtype != "string"})


_RANK_COLUMNS = {
    "Replica": "string",
    "Rank": "Int64",
    "Cohort": "string",
    "KV tokens": "Int64",
    "to the median": "string",
    "Requests": "Float64",
    "KV GiB": "Float64",
    "Blocks × size": "Int64",
    "Basis": "string",
    "Device": "string",
    "Reason": "string",
}


def _row(pool: PoolCapacity, choice: Choice) -> list[str]:
    misleads, naive = naive_sentence(pool)
    name = markup.link(address(choice, pool.name), markup.bold(name_of(pool.name)))
    said = f"{markup.glyph('warning', 'misleads:')} {markup.text(naive)}" if misleads else markup.muted(naive)
    return [
        name,
        markup.text(ranks_text(pool)),
        _number(sum_text(pool.tokens, Measure.TOKENS)),
        _requests(pool),
        _bytes(pool.bytes, pool.ranks),
        f'<span class="tag">{markup.text(pool.basis)}</span>' if pool.tokens.known else markup.muted(pool.basis),
        said,
    ]


def _number(text: str) -> str:
    return markup.muted(text) if text in {formatting.NOT_KNOWN, NOT_SERVED} else markup.text(text)


def _requests(pool: PoolCapacity) -> str:
    if pool.not_served == pool.ranks:
        return _number(NOT_SERVED)
    served = pool.ranks - pool.not_served
    beside = [f"{pool.not_served:,} {NOT_SERVED}"] if pool.not_served else []
    beside += _some(pool.requests.known, served)
    return _number(sum_text(pool.requests, Measure.REQUESTS)) + _beside(beside)


def _bytes(total: Sum, ranks: int) -> str:
    if total.value is None:
        return _number(formatting.NOT_KNOWN)
    text = sum_text(total._replace(value=total.value / GIB), Measure.GIB)
    return _number(text) + _beside(_some(total.known, ranks))


def _some(known: int, ranks: int) -> list[str]:
    return [f"{known:,} of {ranks:,} ranks"] if 0 < known < ranks else []


def _beside(words: Sequence[str]) -> str:
    return f"<br><small>{markup.muted(', '.join(words))}</small>" if words else ""
