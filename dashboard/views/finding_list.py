"""The findings of a fleet as a list: keys for the URL, filters, and groups of equal findings in several pools."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, cohort_letters
from dashboard.fleet.formatting import iso, natural
from dashboard.fleet.sightings import Sighting
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Family, Finding, Severity
from dashboard.views.since import NEWEST_FIRST, Recency, newest, newest_first

MOST_TOP = 8  # groups in the list of top findings
UNREACHABLE = "ID-05"  # not among the top findings: unreachable replicas have their own list

FindingGroup = Sequence["ListedFinding"]  # findings of several pools with the same text


class ListedFinding(NamedTuple):
    """A finding of a list. `key` is its value in the URL; `searched` is the text that a search reads, in lower case.

    `sighting` is None without a history.
    """

    key: str
    finding: Finding
    family: Family | None
    searched: str
    sighting: Sighting | None = None

    @property
    def group_key(self) -> tuple[object, ...]:
        """Return what a list shows of the finding, except its pool."""
        finding = self.finding
        tags = (finding.is_rollout, finding.confidence, finding.expired is not None, finding.assumptions)
        return (finding.severity, finding.rule, finding.sentence, *tags)


WORST_FIRST = ""  # no sort in the URL
SORTS: Mapping[str, Callable[[ListedFinding], Any]] = {
    WORST_FIRST: lambda _: 0,
    NEWEST_FIRST: lambda listed: newest_first(listed.sighting),
    "rule": lambda listed: listed.finding.rule,
    "pool": lambda listed: [natural(each) for each in listed.finding.pools],
    "-replicas": lambda listed: -len(listed.finding.replicas),
}


SORT_TEXTS = {
    WORST_FIRST: "worst first",
    NEWEST_FIRST: "newest first",
    "rule": "rule",
    "pool": "pool",
    "-replicas": "most replicas",
}


class FindingFilter(NamedTuple):
    """The filters of a reader; None selects everything. `new_since` selects what came at that time or later."""

    severity: Severity | None = None
    family: Family | None = None
    pool: str | None = None
    rule: str | None = None
    search: str = ""
    new_since: datetime | None = None

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the filters that select something, as text."""
        known = [(key, each) for key, each in self._asdict().items() if each]
        return [(key, iso(each) if isinstance(each, datetime) else str(each)) for key, each in known]

    def matches(self, listed: ListedFinding) -> bool:
        """Return whether a finding passes; a search needs every one of its words."""
        finding = listed.finding
        return (
            self.severity in {None, finding.severity}
            and self.family in {None, listed.family}
            and (self.pool is None or self.pool in finding.pools)
            and self.rule in {None, finding.rule}
            and Recency(self.new_since).keeps(listed.sighting)
            and all(word in listed.searched for word in self.search.lower().split())
        )


class FindingList(NamedTuple):
    """The findings of one fleet. `names` and `letters` (of cohorts) are by replica id; `rules` are ids.

    `sightings` are by fingerprint.
    """

    active: tuple[ListedFinding, ...]
    suppressed: tuple[ListedFinding, ...]
    names: Mapping[str, str]
    letters: Mapping[str, str]
    rules: tuple[str, ...]
    sightings: Mapping[str, Sighting]

    def find(self, key: str) -> ListedFinding | None:
        """Return the finding with this key, also a suppressed one."""
        return next((each for each in (*self.active, *self.suppressed) if each.key == key), None)

    def same_in_other_pools(self, listed: ListedFinding) -> list[ListedFinding]:
        """Return the other findings with the same text; none for a suppressed one."""
        if listed not in self.active:
            return []
        return [each for each in self.active if each.group_key == listed.group_key and each.key != listed.key]


class TopFindings(NamedTuple):
    """The worst groups; `left` counts the findings that are in none of them."""

    groups: tuple[FindingGroup, ...]
    left: int
    names: Mapping[str, str]


def list_findings(fleet: Fleet) -> FindingList:
    """Return the findings of a fleet."""
    replicas = {each.id: each for each in fleet.replicas}
    inspection = fleet.inspection
    seen: Counter[str] = Counter()
    sightings = fleet.sightings.findings
    active = tuple(_listed(each, seen, replicas, sightings) for each in inspection.findings)
    suppressed = tuple(_listed(each, seen, replicas, sightings) for each in inspection.suppressed)
    rules = {each.rule for each in inspection.outcomes}
    rules |= {each.rule for each in (*inspection.findings, *inspection.suppressed)}
    names = {key: each.name for key, each in replicas.items()}
    return FindingList(active, suppressed, names, cohort_letters(fleet.pools), tuple(sorted(rules)), sightings)


def sort_findings(listed: Iterable[ListedFinding], sort: str) -> list[ListedFinding]:
    """Return findings sorted by one of `SORTS`; equal ones keep their order, the worst first."""
    return sorted(listed, key=SORTS[sort])


def group_findings(listed: Iterable[ListedFinding]) -> list[FindingGroup]:
    """Return groups of findings with the same text, in the order of their first ones."""
    groups: dict[tuple[object, ...], list[ListedFinding]] = defaultdict(list)
    for each in listed:
        groups[each.group_key].append(each)
    return list(groups.values())


def newest_of(group: FindingGroup) -> Sighting | None:
    """Return the sighting of the finding of a group that came last."""
    return newest(each.sighting for each in group)


def top_findings(known: FindingList) -> TopFindings:
    """Return the worst findings; those of severity info only if there is nothing worse."""
    candidates = [each for each in known.active if each.finding.rule != UNREACHABLE]
    important = [each for each in candidates if each.finding.severity is not Severity.INFO]
    shown = group_findings(important or candidates)[:MOST_TOP]
    return TopFindings(tuple(shown), len(known.active) - sum(map(len, shown)), known.names)


def _listed(
    finding: Finding, seen: Counter[str], replicas: Mapping[str, Replica], sightings: Mapping[str, Sighting]
) -> ListedFinding:
    """Return a finding under its id; parts that a suppression divided are numbered."""
    seen[finding.id] += 1
    key = finding.id if seen[finding.id] == 1 else f"{finding.id}.{seen[finding.id]}"
    rule = BY_ID.get(finding.rule)
    own = [replicas[each] for each in finding.replicas if each in replicas]
    texts = [finding.rule, rule.name if rule else "", finding.sentence, *finding.paths, *finding.pools]
    texts += [text for each in own for text in (each.name, each.id, *each.labels.values())]
    sighting = sightings.get(finding.fingerprint) if sightings else None
    return ListedFinding(key, finding, rule.family if rule else None, "\n".join(texts).lower(), sighting)
