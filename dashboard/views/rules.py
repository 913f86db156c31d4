"""The outcomes of rules as blocks, and the page of a rule."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, middle_cut, one_line
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.rules.registry import Rule
from dashboard.views.blocks import (
    Block,
    Cell,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    quiet_paragraph,
)
from dashboard.views.excluded import ignored_blocks, ignored_tables, suppressed_blocks
from dashboard.views.finding_list import FindingFilter, FindingList
from dashboard.views.finding_text import rule_problem, rule_title, with_code
from dashboard.views.names import brief
from dashboard.views.summary import every_outcome
from dashboard.views.table import Field, to_table

MOST_PLACES = 3  # pools that a cell names
MOST_REASONS, MOST_DETAILS = 2, 3  # reasons of one rule, the most frequent first, and what follows their colon
LONGEST_REASON = 240  # characters
SKIPPED = "skipped-rules"  # the file of the table in exports
# Lists of rules, findings and settings on the page. The names are also values of the URL.
SUPPRESSED, IGNORED = "Suppressed", "Ignored"
OUTCOMES = {
    "Passed": OutcomeKind.PASSED,
    "Skipped": OutcomeKind.SKIPPED,
    "Not applicable": OutcomeKind.NOT_APPLICABLE,
}
RULE_LISTS = (*OUTCOMES, SUPPRESSED, IGNORED)
_SOURCE = re.compile(r"([\w.-]+/[\w.-]+#\d+|https://[^\s)]+)")


def error_blocks(inspection: Inspection) -> tuple[Block, ...]:
    """Return the rules that raised an error, which is a bug of this program; empty where none did."""
    errors = _by_rule(each for each in inspection.outcomes if each.kind is OutcomeKind.ERROR)
    if not errors:
        return ()
    title = f"Rule errors: {count(len(errors), 'rule')} not evaluated."
    text = " This is a bug in the dashboard, not in the fleet: please report it."
    items = tuple(
        Entry(Tone.CRITICAL, (Piece(rule_title(rule), Style.STRONG), Piece(f" on {_places(own)}: {_reasons(own)}")))
        for rule, own in errors.items()
    )
    return (Paragraph((Piece(title, Style.STRONG), Piece(text)), Tone.CRITICAL), Entries(items))


def outcome_table(inspection: Inspection, kind: OutcomeKind, chosen: FindingFilter | None = None) -> Table | None:
    """Return the rules with this outcome in some pool, a row each; None if there is none.

    Of the filters, pool and rule apply.
    """
    chosen = chosen or FindingFilter()
    by_rule = _by_rule(each for each in every_outcome(inspection) if each.kind is kind and _is_kept(each, chosen))
    if not by_rule:
        return None
    fields = [
        Field(
            "",
            "Rule",
            lambda rule: Cell(rule_title(rule), hint=rule_problem(rule)),
            link=lambda rule: Link(Kind.RULE, rule),
        ),
        Field("", "Family", lambda rule: BY_ID[rule].family if rule in BY_ID else "", is_shown_only=True),
        Field(
            "",
            "Where",
            lambda rule: _places(by_rule[rule]),
            lambda rule: tuple(each.subject for each in by_rule[rule]),
        ),
    ]
    if kind is OutcomeKind.PASSED:
        fields.append(Field("", "Not reported by", lambda rule: _unreported(by_rule[rule])))
    else:
        reasons = {rule: tuple(dict.fromkeys(each.reason for each in own)) for rule, own in by_rule.items()}
        fields.append(Field("", "Reason", lambda rule: _reasons(by_rule[rule]), reasons.get, key="Why not"))
    name = SKIPPED if kind is OutcomeKind.SKIPPED else f"rules-{kind.value.replace(' ', '-')}"
    return to_table(sorted(by_rule), fields, name, f"{kind.capitalize()} rules")


def rules_blocks(fleet: Fleet, part: Fleet, known: FindingList, chosen: FindingFilter, shown: str) -> tuple[Block, ...]:
    """Return one of RULE_LISTS. Of the filters, pool and rule apply to the outcomes of rules.

    What is suppressed and ignored is that of the `part` of the fleet that the page is limited to.
    """
    if shown == SUPPRESSED:
        own = tuple(filter(FindingFilter(pool=chosen.pool).matches, known.suppressed))
        return suppressed_blocks(part, known._replace(suppressed=own))
    if shown == IGNORED:
        none = quiet_paragraph("fleet.yaml ignores no settings.")
        return (*(ignored_blocks(part) or (none,)), *ignored_tables(part))
    table = outcome_table(fleet.inspection, OUTCOMES[shown], chosen)
    return (table,) if table else (quiet_paragraph("No rules."),)


def rule_counts(fleet: Fleet, part: Fleet, chosen: FindingFilter) -> dict[str, int]:
    tables = {name: outcome_table(fleet.inspection, kind, chosen) for name, kind in OUTCOMES.items()}
    return {
        **{name: len(table.rows) if table else 0 for name, table in tables.items()},
        SUPPRESSED: len(part.inspection.suppressed),
        IGNORED: sum(len(pool.ignored) for pool in part.pools),
    }


def _by_rule(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    return grouped((outcome.rule, outcome) for outcome in outcomes)


def _is_kept(outcome: Outcome, chosen: FindingFilter) -> bool:
    return chosen.search.allows("rule", outcome.rule) and (
        not outcome.pools or (chosen.search.allows("pool", *outcome.pools) and chosen.pool in {None, *outcome.pools})
    )


def _places(outcomes: Sequence[Outcome]) -> str:
    """Return the pools by name, up to three, else their number."""
    named = [brief(each.subject) if each.pools else "the whole fleet" for each in outcomes]
    noun = "pair" if all(len(each.pools) > 1 for each in outcomes) else "pool"
    return ", ".join(named) if len(named) <= MOST_PLACES else count(len(named), noun)


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Return the reasons, the most frequent first; those with the same text before the colon as one."""
    details: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        reason, _, detail = one_line(outcome.reason).rpartition(": ")
        details[reason][detail.rstrip(".")] += 1
    order = sorted(details, key=lambda reason: -details[reason].total())
    is_counted = sum(map(len, details.values())) > 1
    texts = []
    for reason in order[:MOST_REASONS]:
        own = details[reason]
        parts = [
            f"{middle_cut(text, LONGEST_REASON)}{f' (×{number:,})' if is_counted else ''}"
            for text, number in own.most_common(MOST_DETAILS)
        ]
        parts += [f"{len(own) - MOST_DETAILS:,} more"] if len(own) > MOST_DETAILS else []
        texts.append(f"{middle_cut(reason, LONGEST_REASON)}: " * bool(reason) + f"{'; '.join(parts)}.")
    more = len(order) - MOST_REASONS
    return " ".join([*texts, *([f"{count(more, 'more reason')}."] if more > 0 else [])])


def _unreported(outcomes: Sequence[Outcome]) -> Cell:
    unknown, total = sum(each.unknown for each in outcomes), sum(each.total for each in outcomes)
    text = f"{unknown:,} of {count(total, 'replica')}" if unknown else "–"
    return Cell(text, Tone.UNKNOWN if any(each.silent for each in outcomes) else Tone.PLAIN)


def rule_section(rule: Rule, here: ImpactContext | None = None) -> Section:
    """Return a rule's page. `here` is the impact context of the finding that is open."""
    page = rule.page
    impacts = []
    for context, text in page.why.items():
        severity = rule.severity.get(context)
        mark = [Piece(f" {severity}", Style.MUTED)] if severity else []
        mark += [Piece(" "), Piece("here", Style.TAG)] if context is here else []
        impacts.append(Entry(Tone.PLAIN, (Piece(context, Style.STRONG), *mark, Piece(": "), *with_code(text))))
    sources = tuple(Entry(Tone.PLAIN, _linked(line)) for line in page.evidence)
    parts = (
        Section("rule-why", "Why it matters", (Entries(tuple(impacts)),)),
        Section("rule-fix", "How to fix", _paragraphs(page.fix)),
        Section("rule-exceptions", "Exceptions", _paragraphs(page.exceptions)),
        Section("rule-example", "Example", _paragraphs(page.example)),
        Section("rule-evidence", "Evidence", (Entries(sources),)),
    )
    title = f"About rule {rule_title(rule.id)}"
    return Section("rule", title, _paragraphs(page.problem), parts, is_aside=True)


def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    return tuple(Paragraph(with_code(" ".join(each.split()))) for each in re.split(r"\n\s*\n", text) if each.strip())


def _linked(line: str) -> Text:
    """Return one line of evidence; threads `owner/name#1` and URLs are links."""
    pieces: list[Piece] = []
    for place, part in enumerate(_SOURCE.split(line)):
        if place % 2:
            url = part if part.startswith("https://") else f"https://github.com/{part.replace('#', '/issues/')}"
            pieces.append(Piece(part, link=Link(Kind.WEB, url)))
        else:
            pieces += with_code(part)
    return tuple(pieces)
