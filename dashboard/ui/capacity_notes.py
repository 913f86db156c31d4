"""What stands around the bars, as HTML: who holds less, what is an upper bound, what is not known and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING

from dashboard import wording
from dashboard.capacity.outliers import outliers
from dashboard.ui import links, markup
from dashboard.ui.capacity_bars import MOST_BARS, devices_of, held_of
from dashboard.ui.capacity_ranks import Measure, is_at_most, value, why_unknown
from dashboard.ui.capacity_words import name_of, outlier_sentence, percent, rank_name
from dashboard.ui.totals import device_noun, short_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.capacity.outliers import Outlier
    from dashboard.models import Replica
    from dashboard.ui.capacity_bars import OnDevice
    from dashboard.ui.capacity_ranks import Rank

MOST_OUTLIERS = 6  # named one by one; all of them stand in the table of ranks
MOST_NAMED = 4  # ranks named in one line
MOST_KINDS = 6  # rows of the share of device memory
NO_DEVICES = "No reply tells its devices. A stock vLLM names neither devices nor bytes; the provider names both."


def outlier_entries(ranks: Sequence[Rank], found: Mapping[int, Outlier], measure: Measure) -> str:
    """List the ranks beyond the tolerance, the furthest first."""
    order = sorted(found, key=lambda place: -abs(found[place].share))
    rows = [("warning", *_outlier(ranks[place], found[place], measure)) for place in order[:MOST_OUTLIERS]]
    if len(order) > MOST_OUTLIERS:
        rows.append(("warning", markup.muted(f"{len(order) - MOST_OUTLIERS:,} more, in the table of ranks"), ""))
    return markup.entries(rows) if rows else ""


def _outlier(rank: Rank, outlier: Outlier, measure: Measure) -> tuple[str, str]:
    name = _link(rank.replica, rank_name(rank))
    sentence = markup.text(outlier_sentence(rank, outlier, measure))
    return f"{markup.glyph('warning', 'outlier:')} {name} {sentence}", markup.bold(percent(outlier.share))


def lines(ranks: Sequence[Rank], silent: Sequence[Replica], measure: Measure, left_out: int) -> str:
    """Say in small print what the bars do not show. `silent` are replicas of which no engine is known."""
    said = []
    if left_out:
        said.append(markup.text(f"The {MOST_BARS:,} that hold least; {left_out:,} more stand in the table of ranks."))
    bounds = Counter(
        rank.engine.reason or "" for rank in ranks if value(rank, measure) is not None and is_at_most(rank, measure)
    )
    for reason, number in bounds.most_common(MOST_NAMED):
        said.append(markup.text(f"Hatched, {wording.count(number, 'rank')}: at most. {reason}"))
    missing: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if value(rank, measure) is None:
            missing[why_unknown(rank, measure)].append(rank)
    for reason, members in sorted(missing.items(), key=lambda item: -len(item[1])):
        names = _some([_link(rank.replica, rank_name(rank)) for rank in members])
        said.append(
            f"{markup.glyph('unknown', 'not known:')} {_not_known(len(members))}: {names}. {markup.text(reason)}"
        )
    if silent:
        names = _some([_link(replica, name_of(replica.name)) for replica in silent])
        said.append(f"{markup.glyph('unknown', 'not known:')} No engine is known of {names}.")
    return "".join(map(_line, said)) + not_counted(ranks)


def not_counted(ranks: Sequence[Rank]) -> str:
    """Name the ranks that are drawn pale, and say why no sum and no median counts them."""
    old = [rank for rank in ranks if not rank.counts and not rank.replica.fresh]
    twice = [rank for rank in ranks if not rank.counts and rank.replica.fresh]
    why = ((old, "they were last read too long ago"), (twice, "they are second addresses of one process"))
    return "".join(
        _line(f"Pale and not counted, for {reason}: {_some([_link(rank.replica, rank_name(rank)) for rank in pale])}.")
        for pale, reason in why
        if pale
    )


def device_shares(ranks: Sequence[Rank]) -> str:
    """Draw how much of the devices' memory the KV cache takes, a row per kind; or say why that is not known.

    A row counts the devices whose KV cache is told, as the pools' GiB do. What is far from the median of its kind
    gets a row of its own.
    """
    found = [one for one in devices_of(ranks) if one.rank.counts]
    if not found:
        return f'<div class="foot">{markup.text(NO_DEVICES)}</div>'
    kinds = [(short_device(name_of(one.device.name)), one.device.total_memory_bytes or 1) for one in found]
    held = [one.rank.engine.kv_cache_bytes_per_device for one in found]
    apart = {outlier.place for outlier in outliers(kinds, held)}
    rows = [
        _kind_row(kind, [size for place, size in enumerate(held) if kinds[place] == kind and place not in apart])
        for kind in dict.fromkeys(kinds)
    ]
    rows += [_share(_device_name(found[place]), held[place], kinds[place][1]) for place in sorted(apart)]
    more = f" {len(rows) - MOST_KINDS:,} more rows are shown per GPU." if len(rows) > MOST_KINDS else ""
    some = _telling(found, sum(rank.counts for rank in ranks))
    note = f"Solid: KV cache. The rest: weights, activations, graphs, other processes.{some}{more}"
    return f'{"".join(rows[:MOST_KINDS])}<div class="foot" style="margin-top:.6rem">{markup.text(note)}</div>'


def _telling(found: Sequence[OnDevice], counted: int) -> str:
    """Say of how many ranks the rows are, where they are not of all."""
    both = {
        (one.rank.replica.id, one.rank.engine.dp_rank)
        for one in found
        if one.rank.engine.kv_cache_bytes_per_device is not None
    }
    if len(both) == counted:
        return ""
    tell = "tells" if len(both) == 1 else "tell"
    return f" {len(both):,} of {wording.count(counted, 'rank')} {tell} devices and KV cache bytes."


def _kind_row(kind: tuple[str, int], held: Sequence[int | None]) -> str:
    known = [size for size in held if size is not None]
    return _share(f"{kind[0]} ×{len(known) or len(held):,}", int(median(known)) if known else None, kind[1])


def _device_name(one: OnDevice) -> str:
    several = len([each for each in one.rank.replica.devices if each.dp_rank == one.rank.engine.dp_rank]) > 1
    return f"{rank_name(one.rank)}, {device_noun([one.device])} {one.device.rank}" if several else rank_name(one.rank)


def _share(name: str, held: int | None, total: int) -> str:
    share = min((held or 0) / total, 1) * 100
    return (
        '<div style="display:flex;flex-wrap:wrap;justify-content:space-between;column-gap:.7rem;margin-top:.5rem">'
        f"<span>{markup.text(name)}</span>{markup.muted(held_of(held, total))}</div>"
        '<div class="bar" style="height:.6rem;gap:0" aria-hidden="true">'
        f'<span class="c0" style="flex:{share:.2f};min-width:0;padding:0"></span>'
        f'<span class="rest" style="flex:{100 - share:.2f};min-width:0;padding:0"></span></div>'
    )


def _line(content: str) -> str:
    return f'<div class="foot">{content}</div>'


def _not_known(number: int) -> str:
    return f"{wording.count(number, 'rank')} {'is' if number == 1 else 'are'} not known"


def _link(replica: Replica, name: str) -> str:
    return markup.link(links.to(links.REPLICA_PAGE, replica=replica.id), markup.text(name))


def _some(names: Sequence[str]) -> str:
    """Join the first names; HTML. The rest is counted."""
    names = list(dict.fromkeys(names))
    shown = names if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1:,} more"]
    return wording.joined(shown)
