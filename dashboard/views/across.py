"""Pools of one name across clusters: what differs between clusters, named on Overview and compared on Compare."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dashboard import compare
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import plan_of
from dashboard.capacity.sums import capacity_of
from dashboard.compare import sum_counts
from dashboard.compare.clusters import ClusterSplit, cluster_columns, cluster_name, cluster_splits, prefix_order
from dashboard.compare.prefix import short_name
from dashboard.fleet import CLUSTER as LABEL
from dashboard.fleet import Pool, SettingChange, formatting
from dashboard.fleet.formatting import natural
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Link, Piece, Style, Text, page, plain, shortlist_texts
from dashboard.views import pages
from dashboard.views.blocks import (
    MOST_COLUMNS,
    Cell,
    DifferenceTable,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    number_cell,
)
from dashboard.views.context import context_of
from dashboard.views.names import brief, slug
from dashboard.views.pool_comparison import (
    ONLY_DIFFERENCES,
    SettingChoice,
    equal_text,
    hidden_text,
    measures_of,
    unmatched_text,
)
from dashboard.views.pool_text import versions_text
from dashboard.views.summary import counts_text, found_text
from dashboard.views.table import Field, to_table

CLUSTERS, BETWEEN, WITHIN = "clusters", "between-clusters", "within-clusters"  # anchors
MOST_NAMES = 3  # clusters and settings in one line
MOST_SPLITS = 3  # lines of one pool
MOST_ENTRIES, MOST_POOLS = 5, 5  # on Overview, and in one entry
MOST_LISTED = 50  # pools that Overview lists one by one; more are listed by cluster
ONE = "No other cluster has a pool of this name."
SAME = "Most replicas of each cluster have the same settings."


def cluster_pools(fleet: Fleet, name: str) -> tuple[Pool, ...]:
    """Return the pools of one name within their clusters, by cluster; `name` is that, or the key of one of them."""
    within = next((each.name_within for each in fleet.pools if each.name == name), name)
    found = (each for each in fleet.pools if each.name_within == within)
    return _by_cluster(found)


def _by_cluster(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    return tuple(sorted(pools, key=lambda each: natural(each.cluster)))


def as_one(fleet: Fleet, pools: Sequence[Pool]) -> Pool:
    """Return all replicas of some pools compared as those of one pool."""
    members = [fleet.by_id[each] for pool in pools for each in pool.replicas]
    return compare.compare_pool(pools[0].name_within, pools[0].role, members, fleet.documents, fleet.ignored)


def clusters_section(fleet: Fleet) -> tuple[Section, ...]:
    """Return the pools that differ between clusters, a line each that opens the comparison; empty without any."""
    found: dict[tuple[ClusterSplit, ...], list[str]] = defaultdict(list)  # pools that differ alike are one entry
    for name, pools in grouped((each.name_within, each) for each in fleet.pools).items():
        if sum(bool(each.cohorts) for each in pools) > 1:
            ordered = _by_cluster(pools)
            splits = cluster_splits(as_one(fleet, ordered), ordered)
            if splits:
                found[splits].append(name)
    if not found:
        return ()
    changes = {splits: [change for each in splits for change in each.settings] for splits in found}
    # Those that decide prefix sharing come first.
    order = sorted(found, key=lambda each: (changes[each][0].path not in compare.PREFIX_PATHS, -len(changes[each])))
    more = sum(len(found[each]) for each in order[MOST_ENTRIES:])
    hidden = f"; {formatting.count(more, 'more pool')}" if more else ""
    note = plain(f"pools of one name, by the value that most replicas of a cluster have{hidden}")
    shown = tuple(_entry(found[each], each) for each in order[:MOST_ENTRIES])
    return (Section(CLUSTERS, "Differs between clusters", (Entries(shown),), note=note),)


def _entry(names: Sequence[str], splits: Sequence[ClusterSplit]) -> Entry:
    links = {name: page(pages.COMPARE, **{pages.POOL: name, pages.ACROSS: pages.CLUSTER}) for name in names}
    heads = [(Piece(brief(name), Style.STRONG, link),) for name, link in links.items()]
    return Entry(Tone.PLAIN, shortlist_texts(heads, MOST_POOLS, "pool"), lines=(_splits_text(splits),))


def _splits_text(splits: Sequence[ClusterSplit]) -> Text:
    return shortlist_texts(map(split_text, splits), MOST_SPLITS, "group of clusters", "\n", "\n")


def split_text(split: ClusterSplit) -> Text:
    """Return `eu: vLLM version 0.32.0 (us and ap: 0.33.0), block_size 32 (16) and 2 more settings`."""
    own, others = (_names(each) for each in (split.clusters, split.others))
    settings = [_change_text(each, "" if place else f"{others}: ") for place, each in enumerate(split.settings)]
    return (Piece(f"{own}: "), *shortlist_texts(settings, MOST_NAMES, "setting"))


def _names(clusters: Sequence[str]) -> str:
    return formatting.shortlist(map(cluster_name, clusters), MOST_NAMES)


def _change_text(change: SettingChange, whose: str) -> Text:
    own, other = (formatting.setting_text(*each) for each in (change.after, change.before))
    style = Style.PLAIN if change.path == compare.PREFIX_PATHS[0] else Style.CODE
    return (Piece(short_name(change.path), style), Piece(f" {own} ({whose}{other})"))


def clusters_table(fleet: Fleet) -> Table:
    """Return a row for each cluster, with its share of the fix plan, which opens it; and one for pools of none."""
    members = grouped((each.labels.get(LABEL, ""), each) for each in fleet.replicas)
    pools = grouped((each.cluster, each) for each in fleet.pools)
    plan = plan_of(fleet)
    held = {name: capacity_of(own) for name, own in members.items()}

    def causes(name: str) -> Cell:
        ids = {each.id for each in members[name]}
        own = [each for each in plan.causes if not ids.isdisjoint(each.replicas)]
        restarts = len(plan.restarts & ids)
        return Cell(
            f"{formatting.count(len(own), 'cause')}, {restarts:,} to restart" if own else "none", value=restarts
        )

    def findings(name: str) -> Cell:
        ids = {each.name for each in pools[name]} if name in pools else set()
        found = found_text(each for each in fleet.inspection.findings if not ids.isdisjoint(each.pools))
        return Cell(found or "none")

    def sharing(name: str) -> str:
        return counts_text(sum_counts(fleet.sharing_counts[each.name] for each in pools.get(name, ())))

    def tokens(name: str) -> Cell:
        return number_cell(formatting.short(held[name].tokens.value, held[name].basis), held[name].tokens.value)

    fields: tuple[Field, ...] = (
        Field("", "Cluster", cluster_name, link=cluster_link, term="cluster"),
        Field("", "Pools", lambda name: f"{len(pools.get(name, ())):,}", is_number=True),
        Field("", "Replicas", lambda name: f"{len(members[name]):,}", is_number=True),
        Field("", "vLLM", lambda name: versions_text(members[name]) or formatting.NOT_KNOWN),
        Field("", "Findings", findings),
        Field("", "Fix plan", causes),
        Field("", "Prefix sharing", sharing, term="prefix sharing"),
        Field("", "KV tokens", tokens, is_number=True, term="capacity"),
    )
    note = f"A fleet of more than {MOST_LISTED} pools is listed by cluster; a cluster lists its pools."
    return to_table(sorted(members, key=natural), fields, "clusters", "Clusters of the fleet", note)


def cluster_link(name: str) -> Link | None:
    return page(pages.OVERVIEW, **{pages.CLUSTER: name}) if name else None


def read_reference(pools: Sequence[Pool], text: str) -> compare.Reference:
    """Return the largest cohort of a cluster, which its replica stands for; without a cluster the majority."""
    cohorts = next((each.cohorts for each in pools if each.cluster == text and each.cluster), ())
    if not cohorts:
        return compare.MAJORITY
    replicas = cohorts[0].documents_by_replica
    key = next(each for each in cohorts[0].replicas if replicas[each] == cohorts[0].document)
    return compare.Reference(compare.ReferenceKind.REPLICA, key)


def across_report(fleet: Fleet, name: str, choice: SettingChoice = ONLY_DIFFERENCES, reference: str = "") -> View:
    """Return how the pools of one name differ, a column for each cluster and cohort.

    First the settings on which clusters differ, by the value of most of their replicas. `reference` is a cluster, empty
    for the majority.
    """
    pools = cluster_pools(fleet, name)
    whole = as_one(fleet, pools)
    splits = cluster_splits(whole, pools)
    between = {each.path for split in splits for each in split.settings}
    columns = cluster_columns(pools, fleet.documents)
    if len(columns) > MOST_COLUMNS:  # the largest cohort of each cluster first: the rest is in the CSV
        first = {f"{each.name} {each.cohorts[0].letter}" for each in pools if each.cohorts}
        columns = tuple(sorted(columns, key=lambda column: column.key not in first))
    matrix = compare.lay_out(whole, fleet.documents, read_reference(pools, reference), as_columns=columns)
    listed = matrix.table(only_differences=choice.only_differences, section=choice.section, search=choice.search)
    table = DifferenceTable(
        f"across-{slug(whole.name)}",
        f"Settings of {whole.name} across clusters",
        replace(listed, rows=()),
        {},
        measures=measures_of(fleet, whole, listed.columns),
        is_interactive=True,
    )
    lead = plain(SAME if len(pools) > 1 else ONE) if not splits else _splits_text(splits)
    sections = [Section(CLUSTERS, "", (Paragraph(lead, Tone.INFO),))]
    for anchor, title, are_between in (
        (BETWEEN, "Differs between clusters", True),
        (WITHIN, "Differs within clusters" if choice.only_differences else "Other settings", False),
    ):
        rows = [row for row in listed.rows if (row.path in between) is are_between]
        if rows:
            rows.sort(key=lambda row: prefix_order(row.path))
            shown = replace(table, name=f"{table.name}-{anchor}").with_rows(rows)
            shown = shown if len(sections) == 1 else replace(shown, measures=())
            sections.append(Section(anchor, title, (shown,), note=plain(f"{formatting.count(len(rows), 'setting')}")))
    members = [fleet.by_id[each] for each in whole.replicas]
    if len(sections) == 1:
        text = unmatched_text(listed, choice) if choice.is_filtered else equal_text(listed, members)
        sections.append(Section(BETWEEN, "Settings", (Paragraph(plain(text)),)))
    else:
        sections.append(Section("hidden-settings", "", (Paragraph(plain(hidden_text(listed, members))),)))
    cohorts = sum(len(each.cohorts) for each in pools)
    sizes = ((len(pools), "cluster"), (len(whole.replicas), "replica"), (cohorts, "cohort"))
    chosen = {pages.POOL: whole.name, pages.ACROSS: pages.CLUSTER}
    chosen |= {pages.SEARCH: choice.search, pages.REFERENCE: reference}
    return View(
        title="Compare",
        headline=f"{brief(whole.name)} across clusters",
        lead=" · ".join(formatting.count(*each) for each in sizes),
        context=context_of(fleet, filters=chosen.items()),
        parts=tuple(sections),
    )
