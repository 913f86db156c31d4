"""What the Review page shows of a fleet: the sections of the exported review, made once for all sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note, ReplicaState
from dashboard.fleet.pieces import Style
from dashboard.fleet.pools import Notes
from dashboard.report.findings.listed import Listed, grouped
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Section, Table
from dashboard.views.capacity_text import name_of
from dashboard.views.finding_entries import finding_anchor, note_lines
from dashboard.views.review import AGENDA, FINDINGS, FINE, NOT_JUDGED, NOT_READ, SUPPRESSED, review_report
from dashboard.views.review_capacity import CAPACITY
from dashboard.views.review_differences import DIFFERENCES
from dashboard.views.review_new import CUT, NEW, Alone
from dashboard.views.slugs import slugs
from dashboard.web import findings_list, links, markup, review_blocks
from dashboard.web.review_blocks import Collapse, HtmlFragment, LinkMap, by_name, row_anchor
from dashboard.web.review_labels import labels
from dashboard.web.state import shared

Noted = tuple[tuple[str, Note], ...]  # notes as a part of a cache's key


class Topic(NamedTuple):
    """One entry on findings: the ids of these, what it is called, as HTML the entry and what was noted last."""

    ids: tuple[str, ...]
    label: str  # no other entry is called so
    entry: str
    noted: str


class Rank(NamedTuple):
    """The entries of one severity under their heading."""

    title: str
    is_quiet: bool  # for information: folded
    topics: tuple[Topic, ...]


class AgendaSection(NamedTuple):
    """One section: its anchor in the report, its titles, what it counts, what it says and folds, its entries."""

    anchor: str
    title: str
    short: str
    amount: str
    pieces: tuple[HtmlFragment, ...]
    folded: tuple[HtmlFragment, ...]
    ranks: tuple[Rank, ...]

    @property
    def key(self) -> str:
        """Return the key of its container."""
        return f"review_{self.anchor.replace('-', '_')}"


class Review(NamedTuple):
    """The whole page: what stands above as HTML, its sections in the order of the agenda, and where the rest is."""

    head: str
    sections: tuple[AgendaSection, ...]
    appendix: str


# What the agenda calls the sections: it has one line for all of them.
_SHORT = {
    FINE: "Is it fine?",
    NEW: "New",
    FINDINGS: "Findings",
    DIFFERENCES: "Differences",
    CAPACITY: "Capacity",
    NOT_READ: "Not read",
    SUPPRESSED: "Suppressed",
}
# What an exported review tells beside, and the app on a page that the section leads to.
_ELSEWHERE = frozenset({f"{NEW}-at-a-glance", f"{NEW}-replicas", f"{NEW}-capacity"})

# A meeting reads the critical findings whole; of the others the sentence and the rule, and the rest on demand.
_FOLDED = Collapse(1, "Why, and what to do")


class _Drawing(NamedTuple):
    """What drawing a part needs: findings by the anchor of their entry, where things lead, what was noted last.

    `names` is by the replicas' ids.
    """

    groups: Mapping[str, Sequence[Listed]]
    names: Mapping[str, str]
    leads: LinkMap
    before: Notes


@shared(max_entries=4)
def review(
    generation: int,
    since: datetime | None,
    before: str | None,
    noted: Noted,
    alone: Alone,
    _fleet: Fleet,
    _before: Fleet | None,
) -> Review:
    """Draw a fleet held against an earlier one and its notes; every session that shows both shares the result."""
    report = review_report(_fleet, before=_before, before_notes=dict(noted), alone=alone)
    known = findings_list.known(generation, since, _fleet)
    groups = {finding_anchor(group[0].key): group for group in grouped(known.active)}
    drawing = _Drawing(groups, known.names, _leads(_fleet, groups, before), dict(noted))
    amounts = _amounts(_fleet)
    return Review(
        head=markup.heading(markup.text(report.headline), markup.text(report.lead)),
        sections=tuple(_section(part, amounts, drawing) for part in report.parts if part.anchor in AGENDA),
        appendix=_appendix([part for part in report.parts if part.is_appendix], drawing.leads),
    )


def _section(part: Section, amounts: Mapping[str, str], drawing: _Drawing) -> AgendaSection:
    apart = _topics(part, drawing)
    rest = tuple(_on_page(inner) for inner in part.parts if inner.anchor not in apart.keys() | _ELSEWHERE)
    folds = part.anchor == CAPACITY  # the bars of every rank: the table above them says the same, and the outliers
    shown = replace(_on_page(part), parts=() if folds else rest)
    return AgendaSection(
        anchor=part.anchor,
        title=part.title,
        short=_SHORT[part.anchor],
        amount=amounts.get(part.anchor, ""),
        pieces=review_blocks.drawn(shown, drawing.leads),
        folded=review_blocks.drawn(replace(part, blocks=(), parts=rest), drawing.leads) if folds else (),
        ranks=tuple(
            Rank(inner.title, inner.anchor == f"severity-{Severity.INFO}", apart[inner.anchor])
            for inner in part.parts
            if inner.anchor in apart
        ),
    )


def _on_page(part: Section) -> Section:
    """Leave out of a part what the page says once: the worst findings have their section, cohorts have Compare."""
    if part.anchor == FINE:
        return replace(part, blocks=tuple(each for each in part.blocks if not _is_first(each)))
    if part.anchor.startswith("pool-"):
        return replace(part, blocks=tuple(each for each in part.blocks if not isinstance(each, Table)))
    return part


def _is_first(block: Block) -> bool:
    """Tell whether a block names the worst findings, or heads them."""
    if isinstance(block, Entries):
        return not any(entry.notes for entry in block.items)
    return isinstance(block, Paragraph) and block.line[0].style is Style.STRONG


def _topics(part: Section, drawing: _Drawing) -> dict[str, tuple[Topic, ...]]:
    """Draw the entries on findings of the inner parts, by their anchor; no two of a section are called the same."""
    entries = {inner.anchor: _on_findings(inner, drawing) for inner in part.parts}
    anchors = [entry.anchor for held in entries.values() for entry in held]
    called = dict(zip(anchors, labels([drawing.groups[each] for each in anchors], drawing.names), strict=True))
    return {
        anchor: tuple(_topic(entry, called[entry.anchor], drawing) for entry in held)
        for anchor, held in entries.items()
        if held
    }


def _on_findings(part: Section, drawing: _Drawing) -> list[Entry]:
    entries = (entry for block in part.blocks if isinstance(block, Entries) for entry in block.items)
    return [entry for entry in entries if entry.anchor in drawing.groups]


def _topic(entry: Entry, label: str, drawing: _Drawing) -> Topic:
    """Draw one entry; what was noted at the last review stands apart, beside the field of the new note."""
    group = drawing.groups[entry.anchor]
    ids = tuple(dict.fromkeys(each.finding.id for each in group))
    lines = {line for each in ids for line in note_lines(None, drawing.before.get(each))}
    own = replace(entry, notes=())
    noted = "".join(map(review_blocks.noted_html, sorted(lines)))
    fold = review_blocks.OPEN if group[0].finding.severity is Severity.CRITICAL else _FOLDED
    return Topic(ids, label, review_blocks.entries_html((own,), drawing.leads, fold), noted)


def _leads(fleet: Fleet, groups: Mapping[str, Sequence[Listed]], before: str | None) -> LinkMap:
    """Say where numbers, entries on findings, rows of pools and what stands in the appendix lead in the app.

    `before` is the id of the snapshot of the last review.
    """
    changed = links.to(pages.CHANGES, **{pages.FROM: before, pages.TO: fleet.snapshot or pages.LIVE})
    places = {
        NOT_READ: links.to(pages.REPLICAS),
        DIFFERENCES: links.to(pages.COMPARE),
        CAPACITY: links.to(pages.CAPACITY),
        "all-replicas": links.to(pages.REPLICAS),
        "all-ranks": links.to(pages.CAPACITY),
        "all-differences": links.to(pages.COMPARE),
        NOT_JUDGED: links.to(pages.FINDINGS, rules="Skipped"),
        **{f"{NEW}-{each}": changed for each in CUT},
        **{f"severity-{each}": links.to(pages.FINDINGS, severity=each) for each in Severity},
    }
    by_slug = slugs(pool.name for pool in fleet.pools)
    settings = {
        row_anchor(f"settings-{by_slug[pool.name]}", each.path): links.to(pages.COMPARE, pool=pool.name, path=each.path)
        for pool in fleet.pools
        for each in pool.differences
    }
    for name, slug in by_slug.items():
        places[f"pool-{slug}"] = links.to(pages.COMPARE, pool=name)
        places[f"capacity-{slug}"] = links.to(pages.CAPACITY, pool=name)
    findings = {anchor: links.to(pages.FINDINGS, finding=group[0].key) for anchor, group in groups.items()}
    pools = {name_of(pool.name): links.to(pages.CAPACITY, pool=pool.name) for pool in fleet.pools}
    names = by_name((each.name, links.to(pages.REPLICA_PAGE, replica=each.id)) for each in fleet.replicas)
    return LinkMap({**places, **findings, **settings}, pools, names)


def _amounts(fleet: Fleet) -> Mapping[str, str]:
    """Count what the agenda says beside its titles, by anchor; nothing where there is none."""
    counted = {
        FINDINGS: len(fleet.inspection.findings),
        DIFFERENCES: sum(len(pool.cohorts) > 1 for pool in fleet.pools),
        NOT_READ: sum(replica.state is not ReplicaState.UP for replica in fleet.replicas),
        SUPPRESSED: len(fleet.inspection.suppressed),
    }
    return {anchor: f"{number:,}" for anchor, number in counted.items() if number}


def _appendix(parts: Sequence[Section], leads: LinkMap) -> str:
    """Say where what an exported review holds in its appendix stands in the app."""
    told = [
        markup.link(leads.anchors[part.anchor], markup.text(part.title))
        for part in parts
        if part.anchor in leads.anchors
    ]
    return f'<p class="foot">Appendix: {" · ".join(told)}</p>' if told else ""
