"""The page Search: pages, pools, replicas, versions, settings, rules and findings that match some words."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, end_cut, joined, middle_cut, natural
from dashboard.fleet.pieces import Kind, Link, Piece, page, plain
from dashboard.rules.catalogue import ALL_RULES
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, Tone, View
from dashboard.views.chosen_columns import MOST_CHOSEN, write_chosen
from dashboard.views.context import context_of
from dashboard.views.filters import write_filter
from dashboard.views.finding_list import FindingList, list_findings
from dashboard.views.finding_text import rule_title
from dashboard.views.names import brief

MOST_HITS = 8  # of one kind
LONGEST = 160  # characters of a sentence
SEPARATOR = ","  # between the names of replicas to compare
HINT = "Pages, pools, replicas, versions, settings, rules and findings. Names with commas between compare replicas."


class Hit(NamedTuple):
    """One thing that matches: its name, a remark, what it opens, and the text that was searched."""

    name: str
    remark: str
    link: Link
    searched: str


def search_report(fleet: Fleet, text: str, *, known: FindingList | None = None, name: str = "") -> View:
    """Return what matches every word of a text, by kind; equal names first. `known` are the findings of the fleet."""
    words = text.lower().split()
    sections = []
    if words:
        chosen = list(_compared(fleet, text))
        sections += [_section("compare", "Compare", chosen, len(chosen))] if chosen else []
        for anchor, title, hits in _kinds(fleet, known or list_findings(fleet)):
            found = [each for each in hits() if all(word in each.searched for word in words)]
            found.sort(key=lambda each: each.name.lower() != text.strip().lower())
            if found:
                sections.append(_section(anchor, title, found[:MOST_HITS], len(found)))
    if words and not sections:
        sections = [Section("nothing", "", (Paragraph(plain("Nothing matches."), Tone.UNKNOWN),))]
    return View(
        title="Search",
        headline=f"Search: {middle_cut(text.strip(), LONGEST)}" if words else "Search",
        lead=HINT,
        context=context_of(fleet, name=name, filters=[(pages.SEARCH, text)] if words else []),
        parts=tuple(sections),
    )


def _section(anchor: str, title: str, hits: Sequence[Hit], total: int) -> Section:
    entries = Entries(tuple(Entry(Tone.PLAIN, (Piece(each.name, link=each.link),), each.remark) for each in hits))
    more = total - len(hits)
    return Section(anchor, title, (entries, *([Paragraph(plain(f"{more:,} more match."))] if more else [])))


def _kinds(fleet: Fleet, known: FindingList) -> Iterator[tuple[str, str, Callable[[], Iterable[Hit]]]]:
    yield "pages", "Pages", _pages
    yield "pools", "Pools", lambda: _pools(fleet)
    yield "versions", "Versions", lambda: _versions(fleet)
    yield "replicas", "Replicas", lambda: _replicas(fleet)
    yield "settings", "Settings", lambda: _settings(fleet)
    yield "findings", "Findings", lambda: _findings(known)
    yield "rules", "Rules", _rules


def _pages() -> Iterator[Hit]:
    for name, title in pages.TITLES.items():
        if name != pages.REPLICA_PAGE:  # it needs a replica
            yield Hit(title, "", page(name), title.lower())


def _pools(fleet: Fleet) -> Iterator[Hit]:
    for pool in fleet.pools:
        remark = f"{count(len(pool.replicas), 'replica')}, {count(len(pool.cohorts), 'cohort')}"
        yield Hit(brief(pool.name), remark, Link(Kind.POOL, pool.name), pool.name.lower())


def _versions(fleet: Fleet) -> Iterator[Hit]:
    numbers = Counter(each.version for each in fleet.replicas if each.version)
    for version, number in sorted(numbers.items(), key=lambda item: natural(item[0]), reverse=True):
        link = page(pages.REPLICAS, search=write_filter("version", version))
        yield Hit(f"vLLM {brief(version)}", count(number, "replica"), link, f"vllm {version}".lower())


def _replicas(fleet: Fleet) -> Iterator[Hit]:
    for each in fleet.replicas:
        labels = " ".join(f"{key}={text}" for key, text in each.labels.items())
        searched = f"{each.name} {each.id} {labels} {each.version or ''}".lower()
        remark = " · ".join(filter(None, (str(each.state), brief(each.pool or ""), each.version)))
        yield Hit(brief(each.name), remark, Link(Kind.REPLICA, each.id), searched)


def _settings(fleet: Fleet) -> Iterator[Hit]:
    differing: Counter[str] = Counter(path for pool in fleet.pools for path in {each.path for each in pool.differences})
    paths = {path for document in fleet.documents.values() for path in document.settings}
    for path in sorted(paths, key=lambda each: (-differing[each], each)):
        remark = f"differs in {count(differing[path], 'pool')}" if differing[path] else ""
        yield Hit(path, remark, page(pages.SETTINGS, **{pages.PATH: path}), path.lower())


def _findings(known: FindingList) -> Iterator[Hit]:
    for each in known.active:
        finding = each.finding
        remark = f"{finding.severity} · {finding.rule}{f' · {brief(finding.pools[0])}' if finding.pools else ''}"
        yield Hit(end_cut(finding.sentence, LONGEST), remark, Link(Kind.FINDING, each.key), each.searched)


def _rules() -> Iterator[Hit]:
    for rule in ALL_RULES:
        title = rule_title(rule.id)
        yield Hit(title, str(rule.family), Link(Kind.RULE, rule.id), f"{title}".lower())


def _compared(fleet: Fleet, text: str) -> Iterator[Hit]:
    """Yield a comparison of the replicas whose whole names are listed, if there are at least two."""
    by_name: Mapping[str, str] = {each.name.lower(): each.id for each in reversed(fleet.replicas)}
    names = [each.strip().lower() for each in text.split(SEPARATOR)]
    ids = list(dict.fromkeys(by_name[each] for each in names if each in by_name))[:MOST_CHOSEN]
    if len(ids) > 1:
        shown = {each.id: each.name for each in fleet.replicas}
        yield Hit(
            joined([brief(shown[each]) for each in ids]),
            "",
            page(pages.COMPARE, **{pages.CHOSEN: write_chosen(ids)}),
            "",
        )
