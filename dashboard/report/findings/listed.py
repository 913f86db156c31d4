"""Which findings a list holds: each with a key for the address, filtered, equal ones of many pools together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, cohort_letters
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Family, Finding, Severity


class Listed(NamedTuple):
    """One finding of the list. `key` names it in the address; `haystack` is what a search looks in, in lower case."""

    key: str
    finding: Finding
    family: Family | None
    haystack: str


class Known(NamedTuple):
    """What is derived of one fleet's findings."""

    active: tuple[Listed, ...]
    suppressed: tuple[Listed, ...]
    names: Mapping[str, str]  # replica id -> name
    letters: Mapping[str, str]  # replica id -> letter of its cohort
    rules: tuple[str, ...]  # ids of all rules that have an outcome or a finding

    def find(self, key: str) -> Listed | None:
        """Return the finding that an address names, a suppressed one included."""
        return next((each for each in (*self.active, *self.suppressed) if each.key == key), None)

    def alike(self, listed: Listed) -> list[Listed]:
        """Return all findings that say the same, of whatever pool; a suppressed one stands alone."""
        said = _said(listed)
        return [each for each in self.active if _said(each) == said] if listed in self.active else [listed]


class Choice(NamedTuple):
    """What the reader filters by; None is everything."""

    severity: Severity | None = None
    family: Family | None = None
    pool: str | None = None
    rule: str | None = None
    search: str = ""


def known_findings(fleet: Fleet) -> Known:
    """Derive the list for one fleet."""
    replicas = {each.id: each for each in fleet.replicas}
    inspection = fleet.inspection
    seen: Counter[str] = Counter()
    active = tuple(_listed(each, seen, replicas) for each in inspection.findings)
    suppressed = tuple(_listed(each, seen, replicas) for each in inspection.suppressed)
    told = {each.rule for each in inspection.outcomes}
    told |= {each.rule for each in (*inspection.findings, *inspection.suppressed)}
    names = {key: each.name for key, each in replicas.items()}
    return Known(active, suppressed, names, cohort_letters(fleet.pools), tuple(sorted(told)))


def kept(listed: Iterable[Listed], choice: Choice) -> list[Listed]:
    """Return what the filters leave: a search keeps what holds every one of its words."""
    words = choice.search.lower().split()
    return [
        each
        for each in listed
        if choice.severity in {None, each.finding.severity}
        and choice.family in {None, each.family}
        and (choice.pool is None or choice.pool in each.finding.pools)
        and choice.rule in {None, each.finding.rule}
        and all(word in each.haystack for word in words)
    ]


def grouped(listed: Iterable[Listed]) -> list[Sequence[Listed]]:
    """Put findings together that say the same of several pools; the order of the first ones stays."""
    groups: dict[tuple[object, ...], list[Listed]] = defaultdict(list)
    for each in listed:
        groups[_said(each)].append(each)
    return list(groups.values())


def _said(listed: Listed) -> tuple[object, ...]:
    """Return what a reader of the list sees of a finding, but for where it is."""
    finding = listed.finding
    tags = (finding.is_rollout, finding.confidence, finding.expired is not None, finding.assumptions)
    return (finding.severity, finding.rule, finding.sentence, *tags)


def _listed(finding: Finding, seen: Counter[str], replicas: Mapping[str, Replica]) -> Listed:
    """Name a finding by its id; parts of one that a suppression has cut in two are numbered."""
    seen[finding.id] += 1
    key = finding.id if seen[finding.id] == 1 else f"{finding.id}.{seen[finding.id]}"
    rule = BY_ID.get(finding.rule)
    haystack = _haystack(finding, rule.name if rule else "", replicas)
    return Listed(key, finding, rule.family if rule else None, haystack)


def _haystack(finding: Finding, rule_name: str, replicas: Mapping[str, Replica]) -> str:
    concerned = [replicas[each] for each in finding.replicas if each in replicas]
    texts = [finding.rule, rule_name, finding.sentence, *finding.paths, *finding.pools]
    texts += [text for each in concerned for text in (each.name, each.id, *each.labels.values())]
    return "\n".join(texts).lower()
