"""The findings of a fleet as a list: keys for the URL, filters, groups by rule and cause, entries."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note, cohort_letters
from dashboard.fleet.formatting import count, iso, joined, natural, shortlist
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, join_texts, plain, replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import CohortShare, Finding, Inspection, Remedy, Severity
from dashboard.views import since
from dashboard.views.blocks import Entries, Entry, Tone
from dashboard.views.effect import findings_effect
from dashboard.views.filters import EVERYTHING, FilterKey, Search
from dashboard.views.finding_text import (
    MOST_PLACES,
    are_few,
    findings_data,
    has_several_pools,
    note_lines,
    pools_of,
    remarks,
    rule_problem,
    rule_title,
    tags,
    where_of,
    with_code,
)
from dashboard.views.names import brief, in_natural_order, names_of
from dashboard.views.pool_text import context_text

FindingGroup = Sequence["ListedFinding"]  # findings of one rule on the same settings, whatever the pools and values


class ListedFinding(NamedTuple):
    """A finding of a list. `key` is its value in the URL; `searched` is the text that a search reads, in lower case.

    `sighting` is None without a history.
    """

    key: str
    finding: Finding
    searched: str
    sighting: Sighting | None = None

    @property
    def group_key(self) -> tuple[object, ...]:
        """Return rule and cause: what a list shows of the finding, except places, values and addresses."""
        finding = self.finding
        tags = (finding.is_rollout, finding.confidence, finding.expired is not None, finding.assumptions)
        cause = finding.rule, tuple(sorted(finding.paths)) or finding.sentence, finding.explained_by
        return (finding.severity, *cause, *tags)


WORST_FIRST = ""  # no sort in the URL
SORTS: Mapping[str, tuple[str, Callable[[ListedFinding], Any]]] = {  # what a reader is shown, and the key
    WORST_FIRST: ("worst first", lambda _: 0),
    since.NEWEST_FIRST: ("newest first", lambda listed: since.newest_first(listed.sighting)),
    "rule": ("rule", lambda listed: listed.finding.rule),
    "pool": ("pool", lambda listed: [natural(each) for each in listed.finding.pools]),
    "-replicas": ("most replicas", lambda listed: -len(listed.finding.replicas)),
}


class FindingFilter(NamedTuple):
    """What a reader selects: a search (`finding_keys`), the pool of all pages, and what came at a time or later."""

    search: Search = EVERYTHING
    pool: str | None = None
    new_since: datetime | None = None

    @property
    def choices(self) -> list[tuple[str, str | None]]:
        new = iso(self.new_since) if self.new_since else ""
        return [("search", self.search.text), ("pool", self.pool), ("new_since", new)]

    def matches(self, listed: ListedFinding) -> bool:
        finding, search = listed.finding, self.search
        return (
            search.allows("severity", finding.severity)
            and search.allows("rule", finding.rule)
            and search.allows("pool", *finding.pools)
            and (self.pool is None or self.pool in finding.pools)
            and since.Recency(self.new_since).keeps(listed.sighting)
            and search.is_in(listed.searched)
        )


def finding_keys(fleet: Fleet, rules: Sequence[str]) -> dict[str, FilterKey]:
    """Return the filters of a search among findings; by time only with a history."""
    keys = {
        "severity": FilterKey(list(Severity)),
        "rule": FilterKey(rules),
        "pool": FilterKey([each.name for each in fleet.pools]),
    }
    if since.has_history(fleet):
        keys["new"] = FilterKey([each for each in since.RANGE_WORDS if each], since.PERIOD)
    return keys


class FindingList(NamedTuple):
    """The findings of one fleet. `names`, `pools` and `letters` (of cohorts) are by replica id; `rules` are ids.

    `sightings` are by fingerprint.
    """

    active: tuple[ListedFinding, ...]
    suppressed: tuple[ListedFinding, ...]
    names: Mapping[str, str]
    pools: Mapping[str, str]
    letters: Mapping[str, str]
    rules: tuple[str, ...]
    sightings: Mapping[str, Sighting]

    def find(self, key: str) -> ListedFinding | None:
        """Return the finding with this key, also a suppressed one."""
        return next((each for each in (*self.active, *self.suppressed) if each.key == key), None)

    def group_of(self, listed: ListedFinding) -> FindingGroup:
        """Return the active findings of the same rule and cause, this one among them; a suppressed one is alone."""
        if listed not in self.active:
            return [listed]
        return [each for each in self.active if each.group_key == listed.group_key]


MOST_POOLS = 2  # pools in the head of one entry; more are counted there, and named below
MOST_VALUES = 4  # findings of one entry whose values it has; the pools of the rest are named
MOST_CHIPS = 4  # cohorts at the side of an entry
NO_NOTES: Mapping[str, Note] = MappingProxyType({})
EITHER = "One of these is enough:"


def finding_anchor(key: str) -> str:
    return f"finding-{key.replace('.', '-')}"


def row_entries(
    groups: Iterable[FindingGroup],
    names: Mapping[str, str],
    choices: tuple[tuple[str, str], ...],
    opened: str | None,
) -> Entries:
    """Return one row a group for the page Findings. Links keep the `choices` of the URL; `opened` is a key."""
    items = []
    known = list(groups)
    times = {each.since for group in known if (each := newest_of(group))}
    for group in known:
        findings = _findings(group)
        keys = [each.key for each in group]
        is_current = opened in keys
        pools = pools_of(findings)
        where = "\n".join(map(brief, pools)) if len(pools) <= MOST_POOLS else count(len(pools), "pool")
        items.append(
            Entry(
                tone=Tone(findings[0].severity),
                head=text_of(findings),
                side=side_of(findings, names),
                lines=((Piece(rule_title(findings[0].rule)), *tags(findings[0]), *_row_time(newest_of(group), times)),),
                link=Link(Kind.FINDING, opened if opened and is_current else keys[0], choices=choices),
                where=where,
                is_current=is_current,
            )
        )
    return Entries(tuple(items), is_grid=True, test_id="finding")


def _row_time(sighting: Sighting | None, times: Collection[datetime]) -> Text:
    """Return since when a row is there, if that tells it from the other rows, and a tag if its begin was recorded."""
    if sighting is None or len(times) > 1:
        return since.since_pieces(sighting)
    return () if sighting.absent_at is None else (Piece(" "), Piece("new", Style.TAG))


def full_entries(
    groups: Iterable[FindingGroup],
    fleet: Fleet,
    listed: Iterable[ListedFinding] | None = None,
    notes: Mapping[str, Note] = NO_NOTES,
    before_notes: Mapping[str, Note] = NO_NOTES,
) -> Entries:
    """Return findings with cause and fix, an entry for each of `fix_groups`.

    `listed` are the findings for programs, if they are more than those of the groups. Notes are by finding id,
    `before_notes` those of the last review.
    """
    own = list(groups)
    every = [each for group in own for each in group] if listed is None else list(listed)
    names = fleet.names
    items = []
    for group in own:
        ids = [each.finding.id for each in group]
        lines = [line for key in ids for line in note_lines(notes.get(key), before_notes.get(key))]
        items.append(replace(_full(group, fleet), notes=tuple(dict.fromkeys(lines))))
    return Entries(tuple(items), lambda: findings_data(_findings(every), names, fleet.sightings.findings))


def head_of(findings: Sequence[Finding], link: Link | None = None) -> Text:
    """Return the pools of the findings of a group, with a `link`, and their text."""
    pools = pools_of(findings)
    where = joined([brief(pool) for pool in pools]) if len(pools) <= MOST_POOLS else f"{len(pools):,} pools"
    return (Piece(where or "fleet", Style.STRONG, link), Piece(" "), *text_of(findings))


def text_of(findings: Sequence[Finding]) -> Text:
    """Return the text of the findings of a group; with several texts the problem of their rule, without values."""
    first = findings[0]
    is_known = first.rule in BY_ID and len({each.sentence for each in findings}) > 1
    return with_code(rule_problem(first.rule)) if is_known else first.text


def side_of(findings: Sequence[Finding], names: Mapping[str, str]) -> Text:
    """Return the cohorts of a finding, with their replicas if these are few, or the number of several findings."""
    first = findings[0]
    if len(findings) > 1:
        return plain(count(len(_replicas(findings)), "replica"))
    several = has_several_pools(first.cohorts)
    if not are_few(first):
        chips = [_chip(share, several=several) for share in first.cohorts[:MOST_CHIPS]]
        more = len(first.cohorts) - MOST_CHIPS
        return join_texts([*chips, *([plain(f"and {more:,} more cohorts")] if more > 0 else [])], last=", ")
    cohorts = []
    for share in first.cohorts:
        members = in_natural_order(share.replicas, names)
        replicas = join_texts([(replica(brief(names.get(each, each)), each),) for each in members], last=", ")
        cohorts.append((*_chip(share, several=several), Piece(" "), *replicas))
    return join_texts(cohorts, last=", ")


def replica_lines(findings: Sequence[Finding], names: Mapping[str, str]) -> list[Text]:
    """Return the names of replicas in a line, if the side of the entry only counts them."""
    if len(findings) == 1 and are_few(findings[0]):
        return []
    replicas = _replicas(findings)
    shown = shortlist(map(brief, names_of(replicas, names)), MOST_PLACES)
    return [labelled("Replicas", plain(f"{count(len(replicas), 'replica')}: {shown}."))]


def has_alternatives(remedy: Remedy) -> bool:
    return remedy.any_of and len(remedy.snippets) > 1


def _full(group: FindingGroup, fleet: Fleet) -> Entry:
    findings = _findings(group)
    measured = findings_effect(fleet, findings)
    first = findings[0]
    pools = sorted(pools_of(findings), key=natural)
    common = [each for each in first.remedy.snippets if all(each in other.remedy.snippets for other in findings)]
    sentence = first.remedy.sentence if len(findings) == 1 else _without_addresses(first)
    remedy = first.remedy._replace(sentence=sentence, snippets=tuple(common))
    lines = [
        (Piece(rule_title(first.rule), Style.MUTED), *since.whole_since_pieces(newest_of(group))),
        *replica_lines(findings, fleet.names),
        *([labelled("Where", plain(f"{_first_places(pools)}."))] if len(pools) > MOST_POOLS else []),
        *_values(findings),
        labelled("Why it matters", with_code(first.why)),
        *map(plain, _common_remarks(findings, fleet.inspection)),
        *([labelled("Effect, measured", plain(measured))] if measured else []),
        labelled("What to do", with_code(remedy.sentence)),
        *([plain(EITHER)] if has_alternatives(remedy) else []),
    ]
    return Entry(
        tone=Tone(first.severity),
        head=head_of(findings),
        side=side_of(findings, fleet.names),
        lines=tuple(lines),
        snippets=tuple(snippet.text for snippet in remedy.snippets),
        anchor=finding_anchor(group[0].key),
    )


def _common_remarks(findings: Sequence[Finding], inspection: Inspection) -> list[str]:
    first, *rest = ([*filter(None, [context_text(each, inspection)]), *remarks(each, inspection)] for each in findings)
    return [remark for remark in first if all(remark in each for each in rest)]


def _values(findings: Sequence[Finding]) -> list[Text]:
    """Return the texts of findings whose values differ, the first ones, and the pools of the rest."""
    texts = grouped((each.sentence, each) for each in findings)
    if len(texts) == 1:
        return []
    shown = list(texts.values())
    lines: list[Text] = [
        (Piece(joined([where_of(each) for each in same[:MOST_POOLS]]), Style.STRONG), Piece(" "), *same[0].text)
        for same in shown[:MOST_VALUES]
    ]
    rest = [each for same in shown[MOST_VALUES:] for each in same]
    return [*lines, *([plain(f"Other values in {_first_places(pools_of(rest))}.")] if rest else [])]


def _first_places(pools: Iterable[str]) -> str:
    return shortlist(map(brief, pools), MOST_PLACES)


def labelled(label: str, line: Text) -> Text:
    return (Piece(f"{label}: ", Style.STRONG), *line)


def _findings(group: Iterable[ListedFinding]) -> list[Finding]:
    return [each.finding for each in group]


def _replicas(findings: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(replica for each in findings for replica in each.replicas))


def _chip(share: CohortShare, *, several: bool) -> Text:
    where = [Piece(f"{brief(share.pool)} ")] if several and share.pool else []
    letter = cohort(share.letter, share.pool) if share.letter else Piece("not reported", Style.MUTED)
    return (*where, letter, *([Piece(f" ×{share.number:,}")] if share.number > 1 else []))


def list_findings(fleet: Fleet) -> FindingList:
    inspection = fleet.inspection
    seen: Counter[str] = Counter()
    active, suppressed = (
        tuple(_listed(each, seen, fleet) for each in found) for found in (inspection.findings, inspection.suppressed)
    )
    rules = {each.rule for each in inspection.outcomes}
    rules |= {each.rule for each in (*inspection.findings, *inspection.suppressed)}
    pools = {each.id: each.pool for each in fleet.replicas if each.pool}
    letters, sightings = cohort_letters(fleet.pools), fleet.sightings.findings
    return FindingList(active, suppressed, fleet.names, pools, letters, tuple(sorted(rules)), sightings)


def sort_findings(listed: Iterable[ListedFinding], sort: str) -> list[ListedFinding]:
    """Return findings sorted by one of `SORTS`; equal ones keep their order, the worst first."""
    return sorted(listed, key=SORTS[sort][1])


def group_findings(listed: Iterable[ListedFinding]) -> list[FindingGroup]:
    """Return groups of findings of the same rule and cause, in the order of their first ones."""
    groups = grouped((each.group_key, each) for each in listed)
    return list(groups.values())


def fix_groups(listed: Iterable[ListedFinding]) -> list[FindingGroup]:
    """Return the same groups, divided where the reason or the fix differs by more than addresses."""
    groups: list[FindingGroup] = []
    for group in group_findings(listed):
        same = grouped(((each.finding.why, _without_addresses(each.finding)), each) for each in group)
        groups += same.values()
    return groups


def _without_addresses(finding: Finding) -> str:
    """Return what to do, in words that hold for other replicas, too."""
    return finding.remedy.sentence.replace(joined([*finding.replicas]), "their addresses")


def newest_of(group: FindingGroup) -> Sighting | None:
    return since.newest(each.sighting for each in group)


def _listed(finding: Finding, seen: Counter[str], fleet: Fleet) -> ListedFinding:
    """Return a finding under its id; parts that a suppression divided are numbered."""
    seen[finding.id] += 1
    key = finding.id if seen[finding.id] == 1 else f"{finding.id}.{seen[finding.id]}"
    rule = BY_ID.get(finding.rule)
    own = [fleet.by_id[each] for each in finding.replicas if each in fleet.by_id]
    texts = [finding.rule, rule.name if rule else "", finding.sentence, *finding.paths, *finding.pools]
    texts += [text for each in own for text in (each.name, each.id, *each.labels.values())]
    sightings = fleet.sightings.findings
    sighting = sightings.get(finding.fingerprint) if sightings else None  # a fingerprint takes time
    return ListedFinding(key, finding, "\n".join(texts).lower(), sighting)
