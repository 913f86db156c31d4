"""Accepting a finding: the entry for fleet.yaml that suppresses it until a date, and what else it would cover."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

from dashboard.analysis.assembly import Fleet
from dashboard.compare.traits import NAMING
from dashboard.fleet.formatting import SOME, count, shortlist
from dashboard.rules.findings import Finding, Suppression
from dashboard.rules.policy import suppress

DAYS = 90  # of an acceptance, unless another date is chosen


def scopes(fleet: Fleet, finding: Finding) -> Mapping[str, Suppression]:
    """Return what an entry can cover, by its name on the page: replicas, common labels, the pool, or every pool."""
    entry = Suppression(finding.rule, "", "", date.max, finding.pools[0] if len(finding.pools) == 1 else None)
    members = [each for each in fleet.replicas if each.id in finding.replicas]
    found = {}
    if members:
        names = tuple(each.name for each in members)
        found[f"only {shortlist(names, SOME)}"] = replace(entry, replicas=names)
        common = set.intersection(*(set(each.labels.items()) for each in members))
        for key, text in sorted(common):
            if key not in NAMING:
                found[f"replicas with {key}={text}"] = replace(entry, labels={key: text})
    found[f"pool {entry.pool}" if entry.pool else "every pool"] = entry
    return found


def default_until(today: date) -> date:
    """Return the last day of an acceptance from today."""
    return today + timedelta(days=DAYS)


def covered_text(fleet: Fleet, finding: Finding, entry: Suppression) -> str:
    """Return which active findings the entry would suppress, in other pools too, and what would stay active."""
    replicas = {each.id: each for each in fleet.replicas}
    result = suppress(
        fleet.inspection.findings, [entry], entry.until, replicas, lambda each, part: replace(each, replicas=part)
    )
    this = (finding.id, finding.subject)
    own = [each for each in result.suppressed if (each.id, each.subject) == this]
    others = [each for each in result.suppressed if (each.id, each.subject) != this]
    left = set(finding.replicas).difference(*(each.replicas for each in own))
    texts = ["The entry suppresses this finding" + (f" except on {count(len(left), 'replica')}." if left else ".")]
    if others:
        named = [f"{each.rule} in {', '.join(each.pools) or 'the fleet'}" for each in others]
        texts.append(f"It also suppresses {count(len(others), 'finding')}: {shortlist(named, SOME)}.")
    return " ".join(texts)
