"""The search of every page: pages, pools, replicas, versions, settings, rules, findings, snapshots with some words."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.clusters import clusters_of
from dashboard.fleet import CLUSTER, ReplicaState
from dashboard.fleet.formatting import count, end_cut, joined, natural, short_id
from dashboard.fleet.pieces import Kind, Link, page
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Severity
from dashboard.store.packing import StoredSnapshot
from dashboard.views import pages
from dashboard.views.chosen_columns import MOST_CHOSEN, write_chosen
from dashboard.views.filters import write_filter
from dashboard.views.finding_list import FindingList
from dashboard.views.finding_text import rule_title
from dashboard.views.names import brief
from dashboard.views.setting import similar_settings
from dashboard.views.snapshots import describe_snapshot

MOST_HITS = 6  # of one kind
MOST_POOLS = 100  # in the list of scopes
LONGEST = 120  # characters of a sentence
SEPARATOR = ","  # between the names of replicas to compare
ALL_POOLS, ALL_CLUSTERS = "All pools", "All clusters"


class Hit(NamedTuple):
    """One thing that matches: its name, a remark, what it opens, the text that was searched, and its pools.

    `typed` is what a reader who means it types: its short name in lower case. `pools` are those that have it; None for
    a thing of every pool.
    """

    name: str
    remark: str
    link: Link
    searched: str
    typed: str = ""
    pools: frozenset[str] | None = None


class HitGroup(NamedTuple):
    """The first hits of one kind, the best first, and the number of further ones."""

    title: str
    hits: tuple[Hit, ...]
    more: int = 0


def search_hits(
    fleet: Fleet, text: str, known: FindingList, snapshots: Sequence[StoredSnapshot] = ()
) -> tuple[HitGroup, ...]:
    """Return what matches every word of a text, the group with the best hit first; suggestions for an empty text.

    Where nothing matches, similar settings are suggested. `known` are the findings of the fleet. A hit whose short
    name equals the text is better than one that begins so.
    """
    words = text.lower().split()
    if not words:
        return (HitGroup("Suggested", tuple(_suggested(fleet))),)
    typed = " ".join(words)

    def rank(hit: Hit) -> int:
        return 0 if hit.typed == typed else 1 if hit.typed.startswith(typed) else 2

    groups = [HitGroup("Compare", chosen)] if (chosen := tuple(_compared(fleet, text))) else []
    for title, hits in (*_kinds(fleet, known), ("Snapshots", lambda: _snapshots(snapshots))):
        found = sorted((each for each in hits() if all(word in each.searched for word in words)), key=rank)
        if found:
            groups.append(HitGroup(title, tuple(found[:MOST_HITS]), max(len(found) - MOST_HITS, 0)))
    if not groups and (similar := similar_settings(fleet, typed)):
        return (HitGroup("Similar settings", tuple(_setting(path) for path in similar)),)
    return tuple(sorted(groups, key=lambda group: rank(group.hits[0])))


def scope_hits(fleet: Fleet, text: str, current: str | None, whole: Fleet) -> tuple[HitGroup, ...]:
    """Return the clusters and the pools that match every word, as scopes of a page; all of them for an empty text.

    With a `current` scope the way to all pools is first. The link of a hit is its pool, or has the choice of a cluster;
    that of all has no key. The clusters are those of the `whole` fleet, the pools those of its cluster `fleet`.
    """
    words = text.lower().split()
    clusters = tuple(each for each in _clusters(whole, fleet.cluster) if all(word in each.searched for word in words))
    found = [each for each in _pools(fleet) if all(word in each.searched for word in words)]
    every = Hit(ALL_POOLS, count(len(fleet.pools), "pool"), Link(Kind.POOL, ""), ALL_POOLS.lower())
    first = [every] if current is not None and all(word in every.searched for word in words) else []
    shown = (*first, *found[:MOST_POOLS])
    title = "Limit every page to"
    groups = [HitGroup("Clusters", clusters[:MOST_POOLS], max(len(clusters) - MOST_POOLS, 0))] if clusters else []
    return (*groups, *([HitGroup(title, shown, max(len(found) - MOST_POOLS, 0))] if shown else []))


def _clusters(fleet: Fleet, current: str) -> Iterator[Hit]:
    sizes = Counter(each.labels.get(CLUSTER, "") for each in fleet.replicas)
    if current:
        link = page(pages.OVERVIEW, **{pages.CLUSTER: ""})
        yield Hit(ALL_CLUSTERS, count(len(clusters_of(fleet)), "cluster"), link, ALL_CLUSTERS.lower())
    for name in clusters_of(fleet):
        link = page(pages.OVERVIEW, **{pages.CLUSTER: name})
        yield Hit(brief(name), count(sizes[name], "replica"), link, name.lower(), name.lower())


def _suggested(fleet: Fleet) -> Iterator[Hit]:
    critical = fleet.inspection.tally.critical
    if critical:
        link = page(pages.FINDINGS, search=write_filter("severity", Severity.CRITICAL))
        yield Hit("Critical findings", f"{critical:,}", link, "")
    for state in (ReplicaState.DOWN, ReplicaState.PARTIAL):
        if number := sum(each.state is state for each in fleet.replicas):
            yield Hit(f"Replicas {state}", f"{number:,}", page(pages.REPLICAS, search=write_filter("state", state)), "")
    for name in (pages.COMPARE, pages.SETTINGS, pages.CHANGES, pages.HELP):
        yield Hit(pages.TITLES[name], "page", page(name), "")


def _compared(fleet: Fleet, text: str) -> Iterator[Hit]:
    """Yield a comparison of the replicas whose whole names are listed, if there are at least two."""
    by_name: Mapping[str, str] = {each.name.lower(): each.id for each in reversed(fleet.replicas)}
    names = [each.strip().lower() for each in text.split(SEPARATOR)]
    ids = list(dict.fromkeys(by_name[each] for each in names if each in by_name))[:MOST_CHOSEN]
    if len(ids) > 1:
        name, link = joined([brief(fleet.names[each]) for each in ids]), page(pages.COMPARE, replicas=write_chosen(ids))
        yield Hit(name, "", link, "", " ".join(text.lower().split()))


def _kinds(fleet: Fleet, known: FindingList) -> Iterator[tuple[str, Callable[[], Iterable[Hit]]]]:
    yield "Pages", _pages
    yield "Clusters", lambda: _clusters(fleet, "")
    yield "Pools", lambda: _pools(fleet)
    yield "Versions", lambda: _versions(fleet)
    yield "Replicas", lambda: _replicas(fleet)
    yield "Settings", lambda: _settings(fleet)
    yield "Findings", lambda: _findings(known)
    yield "Rules", _rules


def _pages() -> Iterator[Hit]:
    for name, title in pages.TITLES.items():
        if name != pages.REPLICA_PAGE:  # it needs a replica
            yield Hit(title, "", page(name), title.lower(), title.lower())
    yield Hit("Review", "meeting mode", page(pages.REVIEW, **{pages.MEETING: "1"}), "review meeting mode", "meeting")


def _pools(fleet: Fleet) -> Iterator[Hit]:
    for pool in fleet.pools:
        remark = f"{count(len(pool.replicas), 'replica')}, {count(len(pool.cohorts), 'cohort')}"
        yield Hit(brief(pool.name), remark, Link(Kind.POOL, pool.name), pool.name.lower(), pool.name.lower())


def _versions(fleet: Fleet) -> Iterator[Hit]:
    pools: dict[str, list[str]] = {}
    for each in fleet.replicas:
        if each.version:
            pools.setdefault(each.version, []).append(each.pool or "")
    for version, of in sorted(pools.items(), key=lambda item: natural(item[0]), reverse=True):
        link = page(pages.REPLICAS, search=write_filter("version", version))
        searched = f"vllm {version}".lower()
        yield Hit(f"vLLM {brief(version)}", count(len(of), "replica"), link, searched, version.lower(), frozenset(of))


def _replicas(fleet: Fleet) -> Iterator[Hit]:
    for each in fleet.replicas:
        labels = " ".join(f"{key}={text}" for key, text in each.labels.items())
        searched = f"{each.name} {each.id} {labels} {each.version or ''}".lower()
        remark = " · ".join(filter(None, (str(each.state), brief(each.pool or ""), each.version)))
        link = Link(Kind.REPLICA, each.id)
        yield Hit(brief(each.name), remark, link, searched, each.name.lower(), frozenset([each.pool or ""]))


def _settings(fleet: Fleet) -> Iterator[Hit]:
    differing: Counter[str] = Counter(path for pool in fleet.pools for path in {each.path for each in pool.differences})
    paths = {path for document in fleet.documents.values() for path in document.settings}
    for path in sorted(paths, key=lambda each: (-differing[each], each)):
        remark = f"differs in {count(differing[path], 'pool')}" if differing[path] else ""
        yield _setting(path, remark)


def _setting(path: str, remark: str = "") -> Hit:
    link = page(pages.SETTINGS, **{pages.PATH: path})
    return Hit(path, remark, link, path.lower(), path.lower().rpartition(".")[2])


def _snapshots(known: Iterable[StoredSnapshot]) -> Iterator[Hit]:
    for each in known:
        link = page(pages.OVERVIEW, **{pages.SNAPSHOT: short_id(each.id)})
        name = describe_snapshot(each)
        yield Hit(name, each.metadata.fleet, link, f"{name} {each.id} {each.metadata.fleet}".lower(), short_id(each.id))


def _findings(known: FindingList) -> Iterator[Hit]:
    for each in known.active:
        finding = each.finding
        remark = f"{finding.severity} · {finding.rule}{f' · {brief(finding.pools[0])}' if finding.pools else ''}"
        link, pools = Link(Kind.FINDING, each.key), frozenset(finding.pools) or None
        yield Hit(end_cut(finding.sentence, LONGEST), remark, link, each.searched, pools=pools)


def _rules() -> Iterator[Hit]:
    for rule in ALL_RULES:
        title = rule_title(rule.id)
        yield Hit(title, str(rule.family), Link(Kind.RULE, rule.id), title.lower(), rule.id.lower())
