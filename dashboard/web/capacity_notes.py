"""What stands around the bars, as HTML: who holds less, what is an upper bound, what is not known and why."""

from collections.abc import Mapping, Sequence
from statistics import median

from dashboard.capacity.outliers import Outlier, outliers
from dashboard.fleet import Replica, formatting
from dashboard.report.capacity.ranks import Measure, Rank
from dashboard.report.capacity.remarks import Remark, first_of_names, remarks, uncounted
from dashboard.report.capacity.totals import device_noun, short_device
from dashboard.report.capacity.words import name_of, outlier_sentence, percent, rank_name
from dashboard.views import pages
from dashboard.web import links, markup
from dashboard.web.capacity_bars import OnDevice, devices_of, held_of

MOST_OUTLIERS = 6  # named one by one; all of them stand in the table of ranks
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
    return "".join(map(_remark, remarks(ranks, silent, measure, left_out))) + not_counted(ranks)


def not_counted(ranks: Sequence[Rank]) -> str:
    """Name the ranks that are drawn pale, and say why no sum and no median counts them."""
    return "".join(map(_remark, uncounted(ranks)))


def _remark(remark: Remark) -> str:
    glyph = f"{markup.glyph('unknown', 'not known:')} " if remark.is_unknown else ""
    who = first_of_names([_link(named.replica, named.name) for named in remark.who])
    return _line(f"{glyph}{markup.text(remark.before)}{who}{markup.text(remark.after)}")


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
    return f'{"".join(rows[:MOST_KINDS])}<div class="foot">{markup.text(note)}</div>'


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
    return f" {len(both):,} of {formatting.count(counted, 'rank')} {tell} devices and KV cache bytes."


def _kind_row(kind: tuple[str, int], held: Sequence[int | None]) -> str:
    known = [size for size in held if size is not None]
    return _share(f"{kind[0]} ×{len(known) or len(held):,}", int(median(known)) if known else None, kind[1])


def _device_name(one: OnDevice) -> str:
    several = len([each for each in one.rank.replica.devices if each.dp_rank == one.rank.engine.dp_rank]) > 1
    return f"{rank_name(one.rank)}, {device_noun([one.device])} {one.device.rank}" if several else rank_name(one.rank)


def _share(name: str, held: int | None, total: int) -> str:
    share = min((held or 0) / total, 1) * 100
    return (
        f'<div class="share"><span>{markup.text(name)}</span>{markup.muted(held_of(held, total))}</div>'
        f'<div class="share-bar" aria-hidden="true"><span style="width:{share:.2f}%"></span></div>'
    )


def _line(content: str) -> str:
    return f'<div class="foot">{content}</div>'


def _link(replica: Replica, name: str) -> str:
    return markup.link(links.to(pages.REPLICA_PAGE, replica=replica.id), markup.text(name))
