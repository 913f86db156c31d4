"""The worst findings on Overview, one entry each: what is wrong, what it breaks, on which replicas."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, joined
from dashboard.report.findings.cohorts import NamedCohort, are_few, named_cohorts
from dashboard.report.findings.first import first_findings
from dashboard.report.findings.listed import Listed
from dashboard.report.findings.words import assumed
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import findings_list, links, markup
from dashboard.web.findings_rule import marked
from dashboard.web.findings_words import beside, chips, sentence_html

MOST_POOLS = 2  # pools of one entry that are named before they are counted


def first_things(fleet: Fleet) -> list[tuple[str, str, str]]:
    """Return (kind of stripe, what, whose) as HTML: the worst first, the same of many pools once.

    What is only for information is left to the page Findings as long as anything else was found. The last entry
    counts what is not shown. Empty where only replicas that could not be read were found: they have their own list.
    """
    found = first_findings(fleet, findings_list.known(fleet.generation, fleet.since, fleet))
    rows = [_entry(group, found.names) for group in found.groups]
    return [*rows, _left(found.left)] if rows and found.left else rows


def _left(number: int) -> tuple[str, str, str]:
    more = markup.link(links.to(pages.FINDINGS), markup.text(count(number, "more finding")), css="more")
    return "unknown", more, ""


def _entry(group: Sequence[Listed], names: Mapping[str, str]) -> tuple[str, str, str]:
    finding = group[0].finding
    glyph = markup.glyph(finding.severity, f"{finding.severity}:")
    where = markup.link(links.to(pages.FINDINGS, finding=group[0].key), _where(group))
    what = f"{glyph} {where} {sentence_html(finding.sentence, finding.evidence)}"
    rollout = f" {markup.bold('Rollout in progress.')}" if finding.is_rollout else ""
    known = f" {markup.muted(assumed(finding))}" if finding.assumptions else ""
    return finding.severity, f"{what}<small>{marked(finding.why)}{rollout}{known}</small>", _whose(group, names)


def _where(group: Sequence[Listed]) -> str:
    pools = list(dict.fromkeys(pool for each in group for pool in each.finding.pools))
    if not pools:
        return markup.bold("fleet")
    return markup.bold(joined([brief(pool) for pool in pools]) if len(pools) <= MOST_POOLS else f"{len(pools):,} pools")


def _whose(group: Sequence[Listed], names: Mapping[str, str]) -> str:
    finding = group[0].finding
    if len(group) > 1:
        return count(len({replica for each in group for replica in each.finding.replicas}), "replica")
    if not are_few(finding):
        return chips(finding.cohorts, len({share.pool for share in finding.cohorts}))
    return beside(_cohort(each) for each in named_cohorts(finding, names))


def _cohort(cohort: NamedCohort) -> str:
    """Write one cohort: its letter, and its replicas as links."""
    linked = [
        markup.link(links.to(pages.REPLICA_PAGE, replica=replica), markup.text(brief(name)), title=name)
        for replica, name in zip(cohort.replicas, cohort.names, strict=True)
    ]
    letter = f"{markup.letter(cohort.share.letter)} " if cohort.share.letter else ""
    return f"{letter}{joined(linked)}"
