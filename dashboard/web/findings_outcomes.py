"""What became of all rules, as tables: passed, skipped, not applicable; and what raised."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, middle_cut, one_line
from dashboard.report.findings.listed import Choice, Known
from dashboard.report.findings.rule_coverage import without_subject
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Outcome, OutcomeKind
from dashboard.views import pages
from dashboard.views.names import brief
from dashboard.web import links, markup
from dashboard.web.findings_controls import rule_title
from dashboard.web.findings_exempt import MOST_ROWS, ignored_html, suppressed_html
from dashboard.web.state import shared

# What a control shows is also what stands in the URL.
PASSED, SKIPPED, NOT_APPLICABLE, SUPPRESSED, IGNORED = "Passed", "Skipped", "Not applicable", "Suppressed", "Ignored"
KINDS = {
    OutcomeKind.PASSED: PASSED,
    OutcomeKind.SKIPPED: SKIPPED,
    OutcomeKind.NOT_APPLICABLE: NOT_APPLICABLE,
}
OPTIONS = (PASSED, SKIPPED, NOT_APPLICABLE, SUPPRESSED, IGNORED)
_NONE = {
    PASSED: "No rule passed.",
    SKIPPED: "No rule was skipped.",
    NOT_APPLICABLE: "Every rule applies.",
}
IN_SEVERAL = (
    "A rule stands in several lists when it passed for one pool and was skipped for another. "
    "The line at the top of the page counts each rule once."
)
WHOLE_FLEET = "the whole fleet"
MOST_PLACES = 3  # pools that a cell names before it counts them
MOST_REASONS, MOST_TAILS = 2, 3  # reasons of one rule, the most frequent first, and how each of them ends
LONGEST_REASON = 240  # characters


def draw(fleet: Fleet, found: Known, choice: Choice, address: Mapping[str, str]) -> None:
    """Draw one list of rules, which one the reader chooses. The filters on pool, family and rule hold here, too."""
    tables = _tables(fleet.generation, fleet.since, choice._replace(severity=None, search=""), fleet)
    suppressed = len(fleet.inspection.suppressed)
    ignored = sum(len(pool.ignored) for pool in fleet.pools)
    numbers = {**{name: number for name, (number, _) in tables.items()}, SUPPRESSED: suppressed, IGNORED: ignored}
    st.html(markup.section("All rules") + f'<div class="foot">{IN_SEVERAL}</div>')
    shown = st.segmented_control(
        "Rules by outcome",
        OPTIONS,
        **links.bind(pages.RULES, OPTIONS),
        required=True,
        format_func=lambda name: f"{name} {numbers[name]:,}",
        label_visibility="collapsed",
    )
    if shown == SUPPRESSED:
        st.html(suppressed_html(found.suppressed, fleet.inspection.notes, found.names, address))
    elif shown == IGNORED:
        st.html(ignored_html(fleet.pools, fleet.ignored))
    else:
        st.html(tables[str(shown)][1])


@shared(max_entries=16)
def _tables(
    generation: int,  # noqa: ARG001  # this one and the next are the cache's key
    since: datetime | None,  # noqa: ARG001
    choice: Choice,
    _fleet: Fleet,
) -> dict[str, tuple[int, str]]:
    inspection = _fleet.inspection
    every = (*inspection.outcomes, *without_subject(inspection))
    outcomes = [each for each in every if _is_kept(each, choice)]
    return {name: outcomes_html(name, [each for each in outcomes if each.kind is kind]) for kind, name in KINDS.items()}


def errors_html(outcomes: Iterable[Outcome]) -> str:
    """Say which rules raised, where, and what: a mistake of the program, never hidden. Empty where none did. HTML."""
    raised: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is OutcomeKind.ERROR:
            raised[outcome.rule].append(outcome)
    rows = "".join(
        f"<li>{markup.bold(rule_title(rule))} on {places(held)}: {_reasons(held)}</li>" for rule, held in raised.items()
    )
    if not rows:
        return ""
    title = f"{count(len(raised), 'rule')} failed to run and judged nothing there."
    glyph = markup.glyph("critical", "error:")
    return markup.notice(
        "critical",
        f"{glyph} {markup.bold(title)} That is a mistake of this program, not of the fleet: please report it."
        f'<ul class="raised">{rows}</ul>',
    )


def outcomes_html(name: str, outcomes: Sequence[Outcome]) -> tuple[int, str]:
    """Return how many rules have this outcome somewhere, and their table: rule, where, why or how completely. HTML."""
    by_rule: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_rule[outcome.rule].append(outcome)
    if not by_rule:
        return 0, f'<div class="foot">{_NONE[name]}</div>'
    head = (
        ("Rule", ""),
        ("About", "short"),
        ("Where", "short"),
        ("Not told in full by" if name == PASSED else "Why", ""),
    )
    rows = [
        (_rule(rule), _family(rule), places(held), _untold(held) if name == PASSED else _reasons(held))
        for rule, held in sorted(by_rule.items())[:MOST_ROWS]
    ]
    return len(by_rule), markup.table(f"Rules: {name.lower()}", head, rows)


def places(outcomes: Sequence[Outcome]) -> str:
    """Say where: the whole fleet, up to three pools by name, or how many. HTML."""
    named = [_place(each) for each in outcomes]
    noun = "pair" if all(len(each.pools) > 1 for each in outcomes) else "pool"
    shown = ", ".join(map(brief, named)) if len(named) <= MOST_PLACES else count(len(named), noun)
    return f'<span title="{markup.text(", ".join(named))}">{markup.text(shown)}</span>'


def _is_kept(outcome: Outcome, choice: Choice) -> bool:
    rule = BY_ID.get(outcome.rule)
    return (
        choice.rule in {None, outcome.rule}
        and (choice.pool is None or not outcome.pools or choice.pool in outcome.pools)
        and choice.family in {None, rule.family if rule else None}
    )


def _place(outcome: Outcome) -> str:
    return outcome.subject if outcome.pools else WHOLE_FLEET


def _rule(rule: str) -> str:
    problem = BY_ID[rule].page.problem.partition("\n")[0] if rule in BY_ID else ""
    return f'<span title="{markup.text(problem)}">{markup.text(rule_title(rule))}</span>'


def _family(rule: str) -> str:
    return markup.text(BY_ID[rule].family) if rule in BY_ID else ""


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Write the reasons, the most frequent first; those that only differ in what follows the colon on one line."""
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        what, _, rest = one_line(outcome.reason).rpartition(": ")
        lines[what][rest] += 1
    order = sorted(lines, key=lambda what: -lines[what].total())
    kinds = sum(map(len, lines.values()))  # where all say the same, no number says more
    shown = [_reason(what, lines[what], kinds) for what in order[:MOST_REASONS]]
    more = [markup.muted(f"and {len(order) - MOST_REASONS:,} more reasons")] if len(order) > MOST_REASONS else []
    return "<br>".join([*shown, *more])


def _reason(what: str, rests: Counter[str], kinds: int) -> str:
    tails = [
        markup.text(middle_cut(rest.rstrip("."), LONGEST_REASON))
        + (markup.muted(f" (×{number:,})") if kinds > 1 else "")
        for rest, number in rests.most_common(MOST_TAILS)
    ]
    more = [markup.muted(f"{len(rests) - MOST_TAILS:,} more")] if len(rests) > MOST_TAILS else []
    begin = f"{markup.text(middle_cut(what, LONGEST_REASON))}: " if what else ""
    return f"{begin}{'; '.join([*tails, *more])}."


def _untold(outcomes: Sequence[Outcome]) -> str:
    unknown, total = sum(each.unknown for each in outcomes), sum(each.total for each in outcomes)
    return f"{unknown:,} of {count(total, 'replica')}" if unknown else markup.muted("told by all")
