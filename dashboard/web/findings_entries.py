"""The list of findings as HTML: one entry each, worst first, dense enough to read twenty at a glance."""

from collections.abc import Mapping, Sequence

from dashboard.fleet.formatting import count
from dashboard.report.findings.listed import Listed
from dashboard.rules.findings import Confidence, Finding
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import findings_words, links, markup
from dashboard.web.findings_controls import rule_title

MOST_ENTRIES = 40  # entries drawn; filters narrow the list, which nobody reads to its end
MUCH_UNKNOWN = 4  # a finding says in the list that it is unknown on many: on a quarter of its replicas, or more
MOST_POOLS = 2  # pools of one entry that are named before they are counted


def entries(
    groups: Sequence[Sequence[Listed]], names: Mapping[str, str], address: Mapping[str, str], opened: str | None
) -> str:
    """Draw the entries. `address` is what their links keep; `opened` the key of the finding that is open."""
    items = "".join(_entry(group, names, address, opened) for group in groups[:MOST_ENTRIES])
    return f'<ul class="findings">{items}</ul>'


def more_words(groups: Sequence[Sequence[Listed]], total: int) -> str:
    """Say how many findings the list holds, and how many entries it does not draw."""
    shown = sum(map(len, groups))
    words = f"{shown:,} of {count(total, 'finding')} shown" if shown < total else f"{count(total, 'finding')}"
    together = f" in {count(len(groups), 'entry', 'entries')}" if len(groups) < shown else ""
    left = len(groups) - MOST_ENTRIES
    more = f" The first {MOST_ENTRIES} entries, and {left:,} more: narrow them by the filters." if left > 0 else ""
    return f"{words}{together}.{more}"


def tags(finding: Finding) -> str:
    """Draw what else is to be known of a finding before it is opened. HTML.

    One silent replica among many is no news: it would stand at every finding of its pool. Opened, a finding says it.
    """
    words = [f"assumed: {each}" for each in finding.assumptions]
    words += [f"{finding.confidence}"] if finding.confidence is Confidence.DERIVED else []
    words += ["rollout"] if finding.is_rollout else []
    words += ["suppression expired"] if finding.expired else []
    if finding.unknown * MUCH_UNKNOWN >= max(finding.total, 1):
        words.append(f"unknown on {finding.unknown:,} of {finding.total:,}")
    return "".join(f' <span class="tag">{markup.text(word)}</span>' for word in words)


def _entry(group: Sequence[Listed], names: Mapping[str, str], address: Mapping[str, str], opened: str | None) -> str:
    first = group[0]
    finding = first.finding
    is_open = opened in {each.key for each in group}
    target = links.to(pages.FINDINGS, **address, finding=opened if is_open else first.key)
    current = ' aria-current="true"' if is_open else ""
    sentence = findings_words.text_html(finding.text)
    known = tags(finding)
    rule = f'<div class="rule">{markup.text(rule_title(finding.rule))}{known}</div>'
    how = findings_words.severity_mark(finding.severity)
    return (
        f'<li class="{finding.severity}"{current}><div class="how">{how}</div>'
        f'<div class="what">{markup.link(target, sentence)}</div>{rule}'
        f'<div class="where">{_pools(group)}</div><div class="whose">{_whose(group, names)}</div></li>'
    )


def _pools(group: Sequence[Listed]) -> str:
    pools = list(dict.fromkeys(pool for each in group for pool in each.finding.pools))
    if len(pools) > MOST_POOLS:
        return f'<span title="{markup.text(", ".join(pools))}">{count(len(pools), "pool")}</span>'
    return "<br>".join(f'<span title="{markup.text(pool)}">{markup.text(brief(pool))}</span>' for pool in pools)


def _whose(group: Sequence[Listed], names: Mapping[str, str]) -> str:
    """Say whom an entry concerns: of findings of several pools how many replicas."""
    finding = group[0].finding
    if len(group) > 1:
        return count(len({replica for each in group for replica in each.finding.replicas}), "replica")
    return findings_words.whose(finding, names)
