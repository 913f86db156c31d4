"""The pools in a review: their differences, and their KV cache capacity, ranks with less first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import without_fed
from dashboard.compare import PREFIX_PATHS, Share
from dashboard.fleet import Pool
from dashboard.fleet.formatting import MOST, count, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.rules.findings import Severity
from dashboard.views import pool_comparison
from dashboard.views.blocks import Block, DifferenceTable, Paragraph, Section
from dashboard.views.capacity import outlier_entries, pools_table, ranks_table
from dashboard.views.capacity_blocks import charts, is_uneven, notes, ranks_by_pool
from dashboard.views.capacity_text import Measure, lead, pools_of, ranks_of, title
from dashboard.views.compare import cohorts_table, sharing_band
from dashboard.views.names import brief, slugs
from dashboard.views.pages import CAPACITY as CAPACITY_PAGE
from dashboard.views.pages import COMPARE, POOL
from dashboard.views.pool_text import pools_by_urgency, sharing_severity
from dashboard.views.since import ANYTHING, Recency, newest, newest_first
from dashboard.views.summary import is_split
from dashboard.views.traffic import WITHOUT_DECODE, rate_hint, rate_text, traffic_of, traffic_table, why_no_traffic

CAPACITY = "capacity"
TRAFFIC = "traffic"
CAPACITY_TITLE = "Capacity by pool"
MEASURE = Measure.TOKENS
MOST_OUTLIERS = 12  # ranks named one by one
MOST_CHARTS = 8  # pools with a chart, those with the least KV cache first
DIFFERENCES = "differences"
DIFFERENCES_TITLE = "Differences by pool"
MOST_ROWS = 8  # settings of one pool that no finding names; the appendix has all
ALL_DIFFERENCES, ALL_RANKS = "All differences", "All DP ranks"  # appendices, on a page links at its end
MOST_POOLS = 24  # different ways to differ; more are counted


def differences_parts(
    fleet: Fleet, notes: tuple[Block, ...], recency: Recency = ANYTHING
) -> tuple[Section, tuple[Section, ...]]:
    """Return the section of the review, and its appendix with all rows of the tables that are cut.

    Each way to differ has its own heading; uniform and unreadable pools are in a sentence.
    """
    groups = _alike_pools(fleet, recency)
    names = slugs(pool.name for pool in fleet.pools)
    parts, cut = [], []
    for pools in groups[:MOST_POOLS]:
        part, whole = _differences_of(fleet, pools, names[pools[0].name], recency)
        parts.append(part)
        cut += [whole] if whole else []
    lines = list(_without_differences(fleet))
    if split := sum(map(is_split, fleet.pools)):
        lines[:0] = filter(None, [recency.shown_text(sum(map(len, groups)), count(split, "split pool"))])
    if left := groups[MOST_POOLS:]:
        lines.append(f"{count(sum(map(len, left)), 'more pool')} differ in other ways.")
    blocks = (*(Paragraph(plain(line)) for line in lines), *notes)
    appendix = Section("all-differences", ALL_DIFFERENCES, tuple(cut), is_appendix=True, link=page(COMPARE))
    return Section(DIFFERENCES, DIFFERENCES_TITLE, blocks, tuple(parts)), (appendix,) if cut else ()


def _alike_pools(fleet: Fleet, recency: Recency) -> list[list[Pool]]:
    """Group the pools with several cohorts that differ in the same settings in the same way, the worst first."""
    groups: dict[object, list[Pool]] = {}
    pools = [each for each in pools_by_urgency(fleet) if has_recent(fleet, each, recency)]
    if recency.is_newest_first:
        pools.sort(key=lambda each: newest_first(newest(pool_comparison.difference_sightings(fleet, each).values())))
    for pool in pools:
        named = pool_comparison.worst_by_path(fleet.inspection, pool.name)
        rows = []
        for each in pool.differences:
            values = each.values
            rows.append((each.path, each.majority, tuple((one.value, one.state, one.cohorts) for one in values)))
        seen = pool_comparison.difference_sightings(fleet, pool)
        recent = tuple(each.path for each in pool.differences if recency.keeps(seen.get(each.path)))
        letters = tuple(cohort.letter for cohort in pool.cohorts)
        kind = sharing_severity(fleet.sharing[pool.name], named)
        groups.setdefault((tuple(rows), recent, letters, kind, tuple(sorted(named.items()))), []).append(pool)
    return list(groups.values())


def has_recent(fleet: Fleet, pool: Pool, recency: Recency) -> bool:
    """Return whether the cohorts of a pool have a difference that is shown."""
    if recency.new_since is None:
        return is_split(pool)
    return is_split(pool) and any(map(recency.keeps, pool_comparison.difference_sightings(fleet, pool).values()))


def _differences_of(
    fleet: Fleet, pools: Sequence[Pool], slug: str, recency: Recency
) -> tuple[Section, DifferenceTable | None]:
    """Compare the first of some pools that differ alike; return all its rows too, where its table is cut.

    Rows of findings and of prefix sharing are the first ones.
    """
    pool, more_pools = pools[0], len(pools) - 1
    title = f"{brief(pool.name)}{f' and {more_pools:,} more like it' if more_pools else ''}"
    found, _ = pool_comparison.compare_chosen(fleet, pool)
    rows = tuple(row for row in found.matrix.rows if recency.keeps(found.sightings.get(row.path)))
    if recency.is_newest_first:
        rows = tuple(sorted(rows, key=lambda row: newest_first(found.sightings.get(row.path))))
    main = {row.path for row in rows if row.path in found.kinds or row.path in PREFIX_PATHS}
    others = [row.path for row in rows if row.path not in main][: max(MOST_ROWS - len(main), 0)]
    shown = found.with_rows(row for row in rows if row.path in main.union(others))
    hidden = len(found.matrix.rows) - len(shown.matrix.rows)

    members = pool_comparison.members_of(fleet, pool)
    text = pool_comparison.head_text(pool, members, fleet.inspection.domains.get(pool.name))
    blocks: list[Block] = [Paragraph((Piece(text, Style.MUTED),))]
    if more_pools:
        names = shortlist([brief(each.name) for each in pools[1:]], MOST)
        blocks.append(Paragraph(plain(f"{names} differ in the same way; {brief(pool.name)} is shown.")))
    if fleet.sharing[pool.name].share is not Share.YES:
        blocks.append(sharing_band(fleet, pool))
    more = [f"{count(hidden, 'more setting')}: see {ALL_DIFFERENCES}."] if hidden else []
    blocks.append(
        replace(
            shown,
            name=f"settings-{slug}",
            caption=f"Settings that differ in {brief(pool.name)}",
            notes=(*more, pool_comparison.hidden_text(found.matrix, members), *pool_comparison.uncovered_text(shown)),
        )
    )
    cohorts = cohorts_table(pool, fleet.names, slug, found.column_sightings)
    part = Section(f"cohorts-{slug}", cohorts.caption, (cohorts,), is_exported_only=True)
    whole = replace(
        found.with_rows(found.matrix.rows),
        name=f"all-settings-{slug}",
        caption=f"All settings that differ in {title}",
    )
    section = Section(f"pool-{slug}", title, tuple(blocks), (part,), link=Link(Kind.POOL, pool.name))
    return section, whole if hidden else None


def _without_differences(fleet: Fleet) -> Iterator[str]:
    """Yield the uniform pools, those of them with findings, and the unreadable pools."""
    if not fleet.pools:
        yield "There is no pool to compare."
    uniform = [pool.name for pool in fleet.pools if len(pool.cohorts) == 1]
    if uniform:
        yield f"{count(len(uniform), 'uniform pool')}: {shortlist(map(brief, uniform), MOST)}."
    tallies = fleet.inspection.tallies
    found = []
    for name in uniform:
        counts = ((tallies[name].critical, Severity.CRITICAL), (tallies[name].warning, Severity.WARNING))
        if words := ", ".join(f"{number:,} {severity}" for number, severity in counts if number):
            found.append(f"{brief(name)} ({words})")
    if found:
        yield f"Uniform pools with findings: {shortlist(found, MOST)}."
    if unread := [pool.name for pool in fleet.pools if not pool.cohorts]:
        yield f"Unknown (settings not reported): {shortlist(map(brief, unread), MOST)}."


def capacity_parts(fleet: Fleet, notes: tuple[Block, ...]) -> tuple[Section, tuple[Section, ...]]:
    """Return the section of the review, and its appendix with every rank."""
    ranks = ranks_of(fleet)
    pools = ranks_by_pool(fleet, ranks)
    uneven = _alike({name: own for name, own in pools.items() if is_uneven(own)})
    text = f" {lead(ranks, fleet.total.silent)}"
    head = Paragraph((Piece(f"{title(ranks)}.", Style.STRONG), Piece(text)))
    sums = pools_of(fleet, ranks, None)
    ordered = [rank for own in pools.values() for rank in own]
    blocks = (
        head,
        *notes,
        *outlier_entries(ordered, MEASURE, MOST_OUTLIERS, has_pools=len(pools) > 1),
        *([pools_table(fleet, sums, None)] if sums else []),
        *_without_chart(pools, uneven),
    )
    uneven_pools = tuple(_capacity_of(fleet, names, pools[names[0]]) for names in uneven[:MOST_CHARTS])
    table = cache(lambda: (ranks_table(ordered, "all-ranks", ALL_RANKS),))
    link = page(CAPACITY_PAGE)
    appendix = (Section("all-ranks", ALL_RANKS, table, is_appendix=True, link=link),) if ordered else ()
    return Section(CAPACITY, CAPACITY_TITLE, blocks, uneven_pools), appendix


def traffic_part(fleet: Fleet, notes: tuple[Block, ...]) -> Section:
    """Return the section of the review on traffic: a row per pool, those with the lowest hit rate first."""
    if why := why_no_traffic(fleet):
        return Section(TRAFFIC, "Traffic", (Paragraph(plain(f"Prefix hit rates: {why}.")), *notes))
    replicas = without_fed(fleet, [each.id for each in fleet.replicas])
    every = fleet.traffic_of(replicas)
    rows = []
    for name, members in ((each.name, each.replicas) for each in fleet.pools):
        row = traffic_of(fleet, brief(name), name, members, link=Link(Kind.POOL, name))
        rows.append(row._replace(share=None))
    rows.sort(key=lambda row: math.inf if (rate := row.traffic.hit_rate) is None else rate)
    left_out = f", {WITHOUT_DECODE}" if len(replicas) < len(fleet.replicas) else ""
    head = (
        Piece(f"Prefix hit rate: {rate_text(every)}.", Style.STRONG),
        Piece(f" {rate_hint(every).rstrip('.')}{left_out}."),
    )
    table = traffic_table(rows, "Pool", "traffic", "Traffic of the pools", is_past=fleet.past is not None)
    return Section(TRAFFIC, "Traffic", (Paragraph(head), *notes, table))


def _alike(pools: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Group pools whose ranks have the same KV cache, cohort by cohort."""
    groups: dict[object, list[str]] = {}
    for name, ranks in pools.items():
        same = [(rank.cohort or "", rank.kv_cache_size_tokens or 0, rank.basis, rank.counts) for rank in ranks]
        groups.setdefault(tuple(sorted(same)), []).append(name)
    return list(groups.values())


def _capacity_of(fleet: Fleet, alike: Sequence[str], ranks: Sequence[Any]) -> Section:
    """Return the charts of pools that are alike; a page folds them, for its table of pools has the same numbers."""
    first, *others = alike
    named = shortlist(map(brief, others), MOST)
    same = [Paragraph(plain(f"The same in {named}."))] if others else []
    more = f" and {len(others):,} more like it" if others else ""
    slug = slugs(pool.name for pool in fleet.pools)[first]
    return Section(
        f"capacity-{slug}",
        f"KV cache of {brief(first)}{more}",
        (*same, *charts(first, slug, ranks), *notes(fleet, first, ranks)),
        is_aside=True,
        link=page(CAPACITY_PAGE, **{POOL: first}),
    )


def _without_chart(pools: Mapping[str, Sequence[Any]], uneven: Sequence[Sequence[str]]) -> Iterator[Block]:
    """Yield which pools have no chart, and why."""
    if left := sum(map(len, uneven[MOST_CHARTS:])):
        yield Paragraph(plain(f"{count(left, 'more pool')} with uneven ranks: see {ALL_RANKS}."))
    even = [brief(name) for name, ranks in pools.items() if len(ranks) and not is_uneven(ranks)]
    if even:
        yield Paragraph(plain(f"Even ranks, no chart: {shortlist(even, MOST)}."))
