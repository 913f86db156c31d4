"""What the fields of a review are called for those who hear them: every finding by a name of its own."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dashboard.fleet.formatting import first_of
from dashboard.report.findings.listed import Listed
from dashboard.views.capacity_text import name_of
from dashboard.views.names import MOST_NAMED, brief, names_of

MOST_POOLS = 3  # that a label names
_NO_NAME = re.compile(r"[^\w./-]+")  # what could be Markdown, as which Streamlit reads a label


def labels(groups: Sequence[Sequence[Listed]], names: Mapping[str, str]) -> list[str]:
    """Name entries by rule and pools, those that would be called the same also by severity, replicas, a number.

    Each of these is told only where it tells entries apart. `names` is by the replicas' ids.
    """
    told = [_place(group) for group in groups]
    told = _told_apart(told, (group[0].finding.severity for group in groups))
    told = _told_apart(told, (_who(group, names) for group in groups))
    return _told_apart(told, _numbers(told))


def _told_apart(told: Sequence[str], details: Iterable[str]) -> list[str]:
    """Add its detail to each label that several have, where their details differ."""
    pairs = list(zip(told, details, strict=True))
    by_label: dict[str, set[str]] = defaultdict(set)
    for label, detail in pairs:
        by_label[label].add(detail)
    return [f"{label}, {detail}" if len(by_label[label]) > 1 else label for label, detail in pairs]


def _place(group: Sequence[Listed]) -> str:
    rule = group[0].finding.rule
    pools = dict.fromkeys(pool for each in group for pool in each.finding.pools)
    return f"{rule} in {first_of((_plain(name_of(each)) for each in pools), MOST_POOLS)}" if pools else rule


def _who(group: Sequence[Listed], names: Mapping[str, str]) -> str:
    replicas = dict.fromkeys(replica for each in group for replica in each.finding.replicas)
    return first_of((_plain(brief(name)) for name in names_of(replicas, names)), MOST_NAMED) or "no replica"


def _numbers(told: Iterable[str]) -> Iterable[str]:
    seen: Counter[str] = Counter()
    for label in told:
        seen[label] += 1
        yield f"{seen[label]}"


def _plain(name: str) -> str:
    return _NO_NAME.sub(" ", name).strip()
