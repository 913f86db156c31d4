"""The worst findings on Overview, one entry each: what is wrong, what it breaks, on which replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.report.finding_words import ROUTER_ASSUMED
from dashboard.rules.findings import Severity
from dashboard.ui import findings_list, links, markup
from dashboard.ui.findings_rule import marked
from dashboard.ui.findings_words import MOST_NAMED, brief, chips, names_of, sentence_html
from dashboard.wording import count, joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.fleet import Fleet
    from dashboard.rules.findings import Finding
    from dashboard.ui.findings_list import Listed

MOST = 8  # entries on Overview; the page Findings lists all
UNREAD = "ID-05"  # replicas that could not be read have a list of their own beside this one
MOST_POOLS = 2  # pools of one entry that are named before they are counted


def first_things(fleet: Fleet) -> list[tuple[str, str, str]]:
    """Return (kind of stripe, what, whose) as HTML: the worst first, the same of many pools once.

    What is only for information is left to the page Findings as long as anything else was found. The last entry
    counts what is not shown.
    """
    known = findings_list.known(fleet.generation, fleet.polled_at, fleet)
    beside = [each for each in known.active if each.finding.rule != UNREAD]
    loud = [each for each in beside if each.finding.severity is not Severity.INFO]
    shown = findings_list.grouped(loud or beside)[:MOST]
    left = len(known.active) - sum(map(len, shown))
    rows = [_entry(group, known.names) for group in shown]
    return [*rows, _left(left, "more finding" if rows else "finding")] if left else rows


def _left(number: int, noun: str) -> tuple[str, str, str]:
    return "unknown", markup.link(links.to(links.FINDINGS), markup.text(count(number, noun))), ""


def _entry(group: Sequence[Listed], names: Mapping[str, str]) -> tuple[str, str, str]:
    finding = group[0].finding
    glyph = markup.glyph(finding.severity, f"{finding.severity}:")
    where = markup.link(links.to(links.FINDINGS, finding=group[0].key), _where(group))
    what = f"{glyph} {where} {sentence_html(finding.sentence, finding.evidence)}"
    rollout = f" {markup.bold('Rollout in progress.')}" if finding.is_rollout else ""
    assumed = f" {markup.muted(f'({ROUTER_ASSUMED})')}" if group[0].router_assumed else ""
    return finding.severity, f"{what}<small>{marked(finding.why)}{rollout}{assumed}</small>", _whose(group, names)


def _where(group: Sequence[Listed]) -> str:
    pools = list(dict.fromkeys(pool for each in group for pool in each.finding.pools))
    if not pools:
        return markup.bold("fleet")
    return markup.bold(joined([brief(pool) for pool in pools]) if len(pools) <= MOST_POOLS else f"{len(pools):,} pools")


def _whose(group: Sequence[Listed], names: Mapping[str, str]) -> str:
    finding = group[0].finding
    if len(group) > 1:
        return count(len({replica for each in group for replica in each.finding.replicas}), "replica")
    if len(finding.replicas) > MOST_NAMED:
        return chips(finding.cohorts, len({share.pool for share in finding.cohorts}))
    return f"{_letters(finding)} {joined(_linked(finding, names))}"


def _letters(finding: Finding) -> str:
    return " ".join(markup.letter(share.letter) for share in finding.cohorts if share.letter)


def _linked(finding: Finding, names: Mapping[str, str]) -> list[str]:
    ids = {names.get(each, each): each for each in finding.replicas}
    return [
        markup.link(links.to(links.REPLICA_PAGE, replica=ids[name]), markup.text(brief(name)), title=name)
        for name in names_of(finding.replicas, names)
    ]
