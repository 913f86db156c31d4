"""The fix plan: its causes in order, on pages, in exports and on the command line."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Plan
from dashboard.analysis.plan import plan_of
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Link, Piece, Style, Text, join_texts, page, plain
from dashboard.rules.findings import Finding, Severity
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, Tone, View
from dashboard.views.cause import (
    HERE,
    PLAN,
    cause_link,
    cause_section,
    causes_data,
    effect_text,
    part_text,
    shared_text,
    title_of,
    why_text,
)
from dashboard.views.context import context_of
from dashboard.views.effect import cause_text
from dashboard.views.summary import count_read, no_findings_sentences

CHANGES = "plan-changes"  # anchor
MOST_CAUSES = 5  # of the first screen
MOST_OF_POOL = 2  # above the settings of Compare
ORDER = plain("by severity, then replicas gained per restart")
READ_ONLY = "Nothing is changed from here: paste the change, restart the replicas, look again."
NO_CAUSES = "No findings: nothing to fix"


def plan_section(fleet: Fleet, target: str = pages.OVERVIEW, order: Text = ORDER) -> Section:
    """Return the first causes of a fleet's plan, a line each that opens the cause on a page, and how many more.

    `order` names the order of the plan. Without findings the section says what that is based on.
    """
    plan = plan_of(fleet)
    if not plan.causes:
        return Section(PLAN, "Fix plan", (_calm_paragraph(fleet),))
    every = Piece(_every_text(len(fleet.inspection.findings)), link=page(pages.FINDINGS))
    items = [_brief(fleet, plan, *each, page(target)) for each in enumerate(plan.causes, 1)]
    return _section("Fix plan", plan, items, every, MOST_CAUSES, order)


def _every_text(number: int) -> str:
    return f"All {number:,} findings" if number > 1 else "1 finding"


def _calm_paragraph(fleet: Fleet) -> Paragraph:
    """Return what "no findings" is based on; unknown where no settings were read."""
    if not count_read(fleet):
        return Paragraph(plain("No pool reports its settings, so no rule on settings was evaluated."), Tone.UNKNOWN)
    first, *rest = no_findings_sentences(fleet)
    return Paragraph((Piece(first, Style.STRONG), Piece("".join(f" {each}" for each in rest))), Tone.GOOD)


def pool_section(fleet: Fleet, name: str) -> tuple[Section, ...]:
    """Return the causes with findings in a pool, and how much of each is in it; empty without any."""
    plan, items = plan_of(fleet).of_pool(name, fleet.replicas), []
    for number, cause in enumerate(plan.causes, 1):
        items.append(_brief(fleet, plan, number, cause, page(pages.COMPARE, pool=name), has_why=False))
    own = sum(name in each.pools for each in fleet.inspection.findings)
    every = Piece(_every_text(own), link=page(pages.FINDINGS, pool=name))
    return (_section("Plan the fix", plan, items, every, MOST_OF_POOL),) if items else ()


def _section(title: str, plan: Plan, items: Sequence[Entry], every: Piece, most: int, order: Text = ORDER) -> Section:
    first, rest = (
        Entries(tuple(items[part]), partial(causes_data, plan.causes[part]), test_id="cause")
        for part in (slice(most), slice(most, None))
    )
    more = (Section("plan-more", f"{len(rest.items):,} more", (rest,), is_aside=True),) if rest.items else ()
    shown = (Piece(f"{plan_text(plan)} · {order[0].text} "), *order[1:]) if items[1:] else plain(f"{plan_text(plan)} ")
    return Section(PLAN, title, (first,), more, note=(*shown, every))


def causes_section(fleet: Fleet, finding: Finding) -> tuple[Section, ...]:
    """Return the causes that end a finding, of which settings can end it; empty without any."""
    plan = plan_of(fleet)
    own = [each for each in enumerate(plan.causes, 1) if each[1].fixes and finding in each[1].findings]
    items = tuple(_brief(fleet, plan, *each, is_of_finding=True) for each in own)
    return (Section(PLAN, "Fix plan", (Entries(items, test_id="cause"),)),) if own else ()


def plan_view(fleet: Fleet, plan: Plan, pool: str = "", *, is_short: bool = False) -> View:
    """Return the whole plan, every cause with what to change; `is_short`: for a terminal, without Kubernetes."""
    return View(
        title="Fix plan",
        headline=f"{fleet.name}: {plan_text(plan)}",
        lead=READ_ONLY if plan.causes else "",
        context=context_of(fleet, filters=[("pool", pool)]),
        parts=_cause_sections(fleet, plan, is_short=is_short),
    )


def cause_view(fleet: Fleet, cause: Cause) -> View:
    """Return one cause alone: for its dialog, and as Markdown for a ticket."""
    section = cause_section(fleet, plan_of(fleet), cause)
    parts = (replace(section, title="", parts=()), *section.parts)
    return View(section.title, "", "", context_of(fleet), parts)


def changes_section(fleet: Fleet, plan: Plan) -> tuple[Section, ...]:
    """Return what to change for each cause, as an appendix; empty without causes."""
    parts = _cause_sections(fleet, plan, is_short=True)
    title = "Fix plan: what to change"
    return (Section(CHANGES, title, (Paragraph(plain(READ_ONLY)),), parts, is_appendix=True),) if parts else ()


def _cause_sections(fleet: Fleet, plan: Plan, *, is_short: bool) -> tuple[Section, ...]:
    causes = enumerate(plan.causes, 1)
    return tuple(cause_section(fleet, plan, each, number, is_short=is_short) for number, each in causes)


def plan_text(plan: Plan) -> str:
    """Return `3 critical causes and 10 others; 12 replicas to restart`, of a pool its own, `8 in other pools` apart.

    Without any only the causes: their actions say what to start or to correct.
    """
    if not plan.causes:
        return NO_CAUSES
    critical = sum(each.severity is Severity.CRITICAL for each in plan.causes)
    others = len(plan.causes) - critical
    parts = [count(critical, "critical cause")] if critical else []
    parts += [count(others, "other") if critical else count(others, "cause")] if others else []
    text, restarts = " and ".join(parts), plan.restarts
    if not restarts:
        return text
    own = plan.own(restarts)
    outside = f", {len(restarts) - len(own):,} in other pools" if len(own) < len(restarts) else ""
    return f"{text}; {count(len(own), 'replica')} to restart{outside}"


def _brief(
    fleet: Fleet,
    plan: Plan,
    number: int,
    cause: Cause,
    here: Link = HERE,
    *,
    has_why: bool = True,
    is_of_finding: bool = False,
) -> Entry:
    """Return a numbered line that opens a cause on a page, or its section of an export.

    `has_why`: with the reason, which some pages have above. A page of a finding has it, and what was measured.
    """
    why = [why_text(cause)] if has_why and not is_of_finding else []
    line = join_texts([*why, *filter(None, [shared_text(fleet, plan, cause, here)])], " ", " ")
    measured = "" if is_of_finding else cause_text(fleet, cause, plan.pool)
    return Entry(
        tone=Tone(cause.severity),
        head=(Piece(f"{number}. "), *title_of(cause, part_text(plan, cause))),
        side=effect_text(cause, plan.pool),
        lines=(*([line] if line else []), *([plain(measured)] if measured else [])),
        link=cause_link(number, cause, here),
    )
