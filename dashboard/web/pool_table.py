"""The table of pools on Overview: each with its cohorts as one stacked bar, what is wrong first."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingVerdict
from dashboard.fleet import Cohort, Pool, Replica, Role, formatting
from dashboard.render.matrix_html import colour
from dashboard.report.pools.order import versions_text
from dashboard.report.pools.sharing import is_needed
from dashboard.rules.findings import Inspection, Tally
from dashboard.views import pages
from dashboard.views.capacity_data import device_words, total
from dashboard.views.pool_comparison import worst_by_path
from dashboard.web import links, markup
from dashboard.web.prefix_words import prefix_words

HEAD = (
    ("Pool", ""),
    ("Role", ""),
    ("Devices", "short"),
    ("Cohorts", "wide"),
    ("vLLM", "short"),
    ("Findings", "short"),
    ("Prefix sharing", ""),
    ("KV tokens", "number"),
)
TERMS = {"Pool": "pool", "Cohorts": "cohort", "Prefix sharing": "prefix sharing", "KV tokens": "capacity"}
MOST_SEGMENTS = 8  # cohorts drawn in one bar; the rest is one grey segment
LEAST_SHARE = 0.06  # of a bar's width, so that a cohort of one replica among many is still seen and hit


def pool_table(
    fleet: Fleet, pools: Sequence[Pool], sentences: Mapping[str, SharingVerdict], found: Mapping[str, Tally]
) -> str:
    """Draw the pools in the order given as an HTML table."""
    replicas = {replica.id: replica for replica in fleet.replicas}
    rows = [
        _row(
            pool,
            [replicas[member] for member in pool.replicas],
            _findings(pool, found[pool.name], fleet.inspection),
            prefix_words(
                sentences[pool.name],
                worst_by_path(fleet.inspection, pool.name),
                is_quiet=not is_needed(fleet.inspection.domains.get(pool.name)),
            ),
        )
        for pool in pools
    ]
    return f'<div class="pool-list">{markup.table("Pools and their cohorts", HEAD, rows, TERMS)}</div>'


def _row(pool: Pool, members: list[Replica], findings: str, sharing: str) -> list[str]:
    held = total(members)
    missing = f" {markup.muted(f'+ {held.unknown:,} not known')}" if held.tokens is not None and held.unknown else ""
    return [
        markup.link(links.to(pages.COMPARE, pool=pool.name), markup.bold(pool.name), title=pool.name),
        markup.text(pool.role) if pool.role is not Role.BOTH else markup.muted(pool.role),
        markup.text(device_words(members)) or markup.muted(formatting.NOT_KNOWN),
        cohort_bar(pool),
        markup.text(versions_text(members)) or markup.muted(formatting.NOT_KNOWN),
        findings,
        sharing,
        (
            markup.text(formatting.short(held.tokens, held.basis))
            if held.tokens is not None
            else markup.muted(formatting.NOT_KNOWN)
        )
        + missing,
    ]


def _findings(pool: Pool, tally: Tally, inspection: Inspection) -> str:
    """Draw a pool's findings; without any, a tick only where something of it could be judged."""
    rollout = f" {markup.muted('rollout')}" if pool.name in inspection.rollouts else ""
    none = markup.glyph("good", "no finding") if pool.cohorts else markup.muted(formatting.NOT_KNOWN)
    return (markup.tally_glyphs(tally, pool=pool.name) or none) + rollout


def cohort_bar(pool: Pool) -> str:
    """Draw a pool's cohorts as one bar whose segments open Compare; what was never read is grey."""
    shown = pool.cohorts[:MOST_SEGMENTS]
    rest = len(pool.replicas) - sum(len(cohort.replicas) for cohort in shown)
    segments = [_segment(pool, cohort) for cohort in shown]
    if rest:
        segments.append(f'<span class="rest" style="flex:{_share(rest, pool)}">{_rest(pool, rest)}</span>')
    return f'<div class="bar">{"".join(segments)}</div>'


def _segment(pool: Pool, cohort: Cohort) -> str:
    number = len(cohort.replicas)
    label = f"{cohort.letter} ×{number:,}" if number > 1 else cohort.letter
    said = markup.text(f"Compare {pool.name}: cohort {cohort.letter}, {formatting.count(number, 'replica')}")
    address = markup.text(links.to(pages.COMPARE, pool=pool.name))
    style = f'class="c{colour(cohort.letter)}" style="flex:{_share(number, pool)}"'
    return f'<a {style} href="{address}" title="{said}" aria-label="{said}">{label}</a>'


def _share(number: int, pool: Pool) -> str:
    return f"{max(number, len(pool.replicas) * LEAST_SHARE):g}"


def _rest(pool: Pool, rest: int) -> str:
    never_read = len(pool.cohorts) <= MOST_SEGMENTS
    return markup.text(
        f"{rest:,} not read" if never_read else f"{rest:,} in {len(pool.cohorts) - MOST_SEGMENTS:,} more cohorts"
    )
