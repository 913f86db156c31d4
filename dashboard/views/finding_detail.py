"""One finding on its page: replicas, cause, evidence, fix, and the page of its rule."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import State
from dashboard.fleet.formatting import STATE_WORDS, count, middle_cut, natural, one_line, whole_text
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, join_texts, page, plain, pool, replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Evidence, Finding, Remedy
from dashboard.views import pages
from dashboard.views.blocks import Banner, Block, Cell, Column, Entries, Entry, Paragraph, Section, Table, Tone
from dashboard.views.domain_text import context_text
from dashboard.views.finding_entries import EITHER, finding_anchor, has_alternatives, tags, where_of
from dashboard.views.finding_list import FindingList, ListedFinding
from dashboard.views.finding_text import remarks, rule_title, with_code
from dashboard.views.names import brief
from dashboard.views.rule_page import rule_section
from dashboard.views.setting_replicas import affected_section
from dashboard.views.since import since_paragraphs
from dashboard.views.trait_text import trait_paragraphs

MOST_NAMED = 60  # replicas of one finding by name
MOST_POOLS = 24  # other pools with the same finding
MOST_ODD, MOST_OF_REFERENCE = 12, 3  # replicas of one value by name
MOST_ROWS = 24  # values of one finding
MOST_COHORTS = 12  # of one list, the largest first
LONGEST_VALUE = 160  # characters of a value; Compare has all of it
COUNTED = ("engines.", "devices.")  # paths of computed numbers
ROUTER = "router"  # the holder of what a router was configured with
SNIPPETS = {"flag": "Flag", "env": "Environment variable", "yaml": "YAML", "shell": "Command"}
# The page of values that are not settings, by the first part of their path.
PAGES = {"engines": pages.CAPACITY, "devices": pages.CAPACITY, "replicas": pages.REPLICAS, "findings": pages.FINDINGS}

Choices = tuple[tuple[str, str], ...]  # parameters of the URL that links keep


class Members(NamedTuple):
    """Names, pools and cohort letters by replica id, and the settings that Compare has, by pool."""

    names: Mapping[str, str]
    pools: Mapping[str, str]
    letters: Mapping[str, str]
    compared: Mapping[str, Collection[str]]

    def setting(self, path: str, pools: Iterable[str]) -> Link | None:
        """Return where a setting is compared, in the first of the pools that has it."""
        own = next((each for each in pools if path in self.compared.get(each, ())), None)
        return Link(Kind.SETTING, path, own) if own else None


def finding_section(
    fleet: Fleet, known: FindingList, listed: ListedFinding, choices: Choices, now: datetime | None = None
) -> Section:
    """Return all about one finding. Links within the page keep the `choices` of the URL.

    Its age counts from `now`; without it only times are shown.
    """
    finding = listed.finding
    members = Members(
        known.names,
        {each.id: each.pool for each in fleet.replicas if each.pool},
        known.letters,
        _compared(fleet, finding),
    )
    context = context_text(finding, fleet.inspection)
    why = [Paragraph(with_code(finding.why)), *([Paragraph((Piece(context, Style.MUTED),))] if context else [])]
    parts = [
        Section("why", "Why it matters here", tuple(why)),
        Section("evidence", "Evidence", evidence_blocks(finding, members)),
        Section("remedy", "What to do", _remedy(finding.remedy)),
        affected_section(fleet, finding),
    ]
    if finding.rule in BY_ID:
        parts.append(rule_section(BY_ID[finding.rule], finding.context))
    shared = trait_paragraphs(fleet, finding.replicas, finding.pools)
    since = since_paragraphs(listed.sighting, now)
    blocks = (_banner(finding, choices), *since, *_replicas(finding, members), *shared, *_same(known, listed, choices))
    return Section(finding_anchor(listed.key), "", (*blocks, *_remarks(fleet, finding)), tuple(parts))


def missing_finding(choices: Choices) -> Paragraph:
    """Return the message that the finding of the URL does not exist."""
    close = Piece("Close", link=Link(Kind.PAGE, pages.FINDINGS, choices=choices))
    text = (Piece("Finding not found.", Style.STRONG), Piece(" Fixed, or the configuration changed. "), close)
    return Paragraph(text, Tone.INFO)


def replica_text(replicas: Iterable[str], members: Members, most: int) -> Text:
    """Return replicas by cohort, a line each: letter, number, the first `most` names, and a link to the rest.

    A cohort with one replica always has its name.
    """
    by_cohort: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in replicas:
        by_cohort[members.letters.get(each, ""), members.pools.get(each, "")].append(each)
    order = sorted(by_cohort, key=lambda key: (not key[0], len(key[0]), key))  # replicas without cohort are last
    lines: list[Text] = []
    left = most
    for letter, pool_name in order[:MOST_COHORTS]:
        own = sorted(by_cohort[letter, pool_name], key=lambda each: natural(members.names.get(each, each)))
        shown = own if len(own) == 1 else own[:left]
        left = max(left - len(shown), 0)
        names = join_texts([(replica(brief(members.names.get(each, each)), each),) for each in shown], last=", ")
        mark = cohort(letter, pool_name) if letter else Piece("not read", Style.MUTED)
        number = (Piece(f" ×{len(own):,}"),) if len(own) > 1 or not shown else ()
        rest = _rest(letter, pool_name, len(own) - len(shown), is_first=not shown)
        lines.append((mark, *number, *((Piece(" "), *names) if names else ()), *rest))
    if beyond := sum(len(by_cohort[key]) for key in order[MOST_COHORTS:]):
        lines.append((Piece(f"and {count(beyond, 'replica')} in other cohorts", Style.MUTED),))
    return join_texts(lines, "\n", "\n")


def _rest(letter: str, pool_name: str, number: int, *, is_first: bool) -> Text:
    """Return a link to the replicas of a cohort that have no name in the line."""
    if not number:
        return ()
    link = None
    if pool_name:
        link = Link(Kind.COHORT, letter, pool_name) if letter else page(pages.REPLICAS, pool=pool_name)
    text = "show them" if is_first else f"and {number:,} more"
    if link and link.kind is Kind.COHORT:  # a piece with such a link is a letter
        link = page(pages.COMPARE, pool=pool_name, cohort=letter)
    return (Piece(" "), Piece(text, Style.PLAIN if link else Style.MUTED, link)) if link or not is_first else ()


def _banner(finding: Finding, choices: Choices) -> Banner:
    line = (Piece(rule_title(finding.rule), Style.MUTED), *tags(finding))
    return Banner(Tone(finding.severity), line, finding.text, Link(Kind.PAGE, pages.FINDINGS, choices=choices))


def _replicas(finding: Finding, members: Members) -> tuple[Block, ...]:
    pools = join_texts([(pool(each, brief(each)),) for each in finding.pools])
    head = (Piece(count(len(finding.replicas), "replica"), Style.STRONG), *((Piece(" of "), *pools) if pools else ()))
    names = replica_text(finding.replicas, members, MOST_NAMED)
    return (Paragraph(head), *([Paragraph(names)] if names else []))


def _same(known: FindingList, listed: ListedFinding, choices: Choices) -> tuple[Block, ...]:
    others = known.same_in_other_pools(listed)
    links: list[Text] = [
        (Piece(where_of(each.finding), link=Link(Kind.FINDING, each.key, choices=choices)),)
        for each in others[:MOST_POOLS]
    ]
    more = len(others) - MOST_POOLS
    links += [plain(f"{more:,} more")] if more > 0 else []
    return (Paragraph((Piece("Same finding in "), *join_texts(links), Piece("."))),) if others else ()


def _remarks(fleet: Fleet, finding: Finding) -> list[Paragraph]:
    paragraphs = []
    if (by := finding.suppression) is not None:
        paragraphs.append(Paragraph(plain(f"Suppressed until {by.until} by {by.owner}: {by.reason}"), Tone.INFO))
    texts = remarks(finding, fleet.inspection)
    tones = [Tone.WARNING if finding.expired and not place else Tone.INFO for place in range(len(texts))]
    if finding.unknown:
        tones[-1] = Tone.UNKNOWN
    return [*paragraphs, *(Paragraph(plain(text), tone) for text, tone in zip(texts, tones, strict=True))]


def evidence_blocks(finding: Finding, members: Members) -> tuple[Block, ...]:
    """Return the values with their replicas; values that differ from a reference have the tone of the finding."""
    by_path: dict[str, list[Evidence]] = defaultdict(list)
    for each in finding.evidence:
        by_path[each.path].append(each)
    references = {each.path for each in finding.evidence if each.is_reference}
    rows = []
    for path, own in by_path.items():
        own.sort(key=lambda each: _order(each, members))
        for number, each in enumerate(own):
            setting = Cell("", hint=path) if number else Cell(path, link=_place(path, finding, members))
            is_odd = not each.is_reference and path in references and each.state not in STATE_WORDS
            tone = Tone(finding.severity) if is_odd else Tone.PLAIN
            rows.append((setting, Cell("", tone, pieces=_value(each)), Cell("", pieces=_source(each, members))))
    left = len(rows) - MOST_ROWS
    note = f"{left:,} more values: see Compare." if left > 0 else ""
    columns = (Column("Setting", is_code=True), Column("Value"), Column("Reported by"))
    links: list[Text] = [
        (
            Piece(
                f"{path}{f' in {brief(each)}' if len(finding.pools) > 1 else ''}",
                link=Link(Kind.SETTING, path, each),
            ),
        )
        for path in finding.paths
        for each in finding.pools
        if path in members.compared.get(each, ())
    ]
    compare = Paragraph((Piece("Open in Compare: ", Style.MUTED), *join_texts(links[:MOST_ROWS], " · ", " · ")))
    table = Table("evidence", "Evidence", columns, tuple(rows[:MOST_ROWS]), note)
    return (table, *([compare] if links else []))


def _place(path: str, finding: Finding, members: Members) -> Link | None:
    """Return where a value is shown: in Compare, or on the page of values that are not settings."""
    if link := members.setting(path, finding.pools):
        return link
    name = PAGES.get(path.partition(".")[0])
    return page(name, **({"pool": finding.pools[0]} if finding.pools else {})) if name else None


def _order(evidence: Evidence, members: Members) -> tuple[object, ...]:
    """Return the key of sorting: the rarest value first, equally rare ones by their first replica, references last."""
    names = sorted(natural(members.names.get(each, each)) for each in evidence.replicas)
    return (evidence.is_reference, len(evidence.replicas), names[:1], evidence.value)


def _value(evidence: Evidence) -> Text:
    tag = (Piece(" "), Piece("reference", Style.TAG)) if evidence.is_reference else ()
    if evidence.state in STATE_WORDS:
        return (Piece(STATE_WORDS[evidence.state], Style.MUTED), *tag)
    text = middle_cut(one_line(whole_text(evidence.value, evidence.state)), LONGEST_VALUE)
    if evidence.path.startswith(COUNTED) and text.isdecimal():  # of a setting the number is as vLLM writes it
        text = f"{int(text):,}"
    unset = (Piece(" not set", Style.MUTED),) if evidence.state is State.NULL else ()
    return (Piece(text, Style.CODE), *unset, *tag)


def _source(evidence: Evidence, members: Members) -> Text:
    holder = "the router (fleet.yaml)" if evidence.holder == ROUTER else brief(evidence.holder)
    comment = f"“{middle_cut(one_line(evidence.comment), LONGEST_VALUE)}”" if evidence.comment else ""
    most = MOST_OF_REFERENCE if evidence.is_reference else MOST_ODD
    lines = ((Piece(holder, Style.MUTED),) if holder else (), plain(comment) if comment else ())
    return join_texts(
        [*filter(None, lines), *filter(None, [replica_text(evidence.replicas, members, most)])], "\n", "\n"
    )


def _remedy(remedy: Remedy) -> tuple[Block, ...]:
    items = tuple(
        Entry(Tone.PLAIN, (Piece(SNIPPETS[each.kind], Style.MUTED),), snippets=(each.text,)) for each in remedy.snippets
    )
    either = [Paragraph(plain(EITHER))] if has_alternatives(remedy) else []
    return (Paragraph(with_code(remedy.sentence)), *either, *([Entries(items)] if items else []))


def _compared(fleet: Fleet, finding: Finding) -> dict[str, set[str]]:
    """Return per pool of the finding those of its paths that Compare has."""
    return {
        each.name: {path for path in finding.paths if any(path in cohort.settings for cohort in each.cohorts)}
        for each in fleet.pools
        if each.name in finding.pools
    }
