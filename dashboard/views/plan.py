"""The fix plan: causes with their changes and predicted effect, on pages, in exports and on the command line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Fix, Plan
from dashboard.analysis.paste import ChangeGroup, Paste
from dashboard.analysis.plan import plan_of
from dashboard.fleet.formatting import count, joined, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, join_texts, page, plain, pool, shortlist_texts
from dashboard.rules.findings import Finding, Severity
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.finding_list import text_of
from dashboard.views.finding_text import rule_title, with_code
from dashboard.views.names import MOST_NAMED, brief, names_of, replica_names, replica_text, slug
from dashboard.views.summary import found_text
from dashboard.views.whatif import paste_notes, pasted, span_text

PLAN = "plan"  # anchor
MOST_CAUSES = 5  # of the first screen
MOST_POOLS = 2  # of a title by name
MOST_VALUES = 3  # flags and variables of a title
NOT_PREDICTED = "effect not predicted"
READ_ONLY = "Nothing is changed from here: paste the change, restart the replicas, look again."
NO_CAUSES = "No findings: nothing to fix"


def plan_section(fleet: Fleet, most: int = MOST_CAUSES) -> Section:
    """Return the first causes of a fleet's plan, a line each that opens the cause, and how many more there are."""
    plan = plan_of(fleet)
    numbered = list(enumerate(plan.causes, 1))
    shown, rest = numbered[:most], numbered[most:]
    every = Piece(f"All {count(len(fleet.inspection.findings), 'finding')}", link=page(pages.FINDINGS))
    more = Section("plan-more", f"{len(rest):,} more", (_cause_entries(rest),), is_aside=True)
    note = (Piece(f"{plan_text(plan)} "), every)
    return Section(PLAN, "Fix plan", (_cause_entries(shown),), (more,) if rest else (), note=note)


def causes_section(fleet: Fleet, finding: Finding) -> tuple[Section, ...]:
    """Return the causes that end a finding, of which settings can end it; empty without any."""
    numbered = enumerate(plan_of(fleet).causes, 1)
    own = [(number, each) for number, each in numbered if each.fixes and finding in each.findings]
    return (Section(PLAN, "Fix plan", (_cause_entries(own),)),) if own else ()


def _cause_entries(numbered: Iterable[tuple[int, Cause]]) -> Entries:
    return Entries(tuple(_brief(number, cause) for number, cause in numbered), test_id="cause")


def plan_view(fleet: Fleet, plan: Plan, pool: str = "") -> View:
    """Return the whole plan, every cause with what to change: for a terminal and as Markdown."""
    parts = [cause_section(fleet, number, cause) for number, cause in enumerate(plan.causes, 1)]
    return View(
        title="Fix plan",
        headline=f"{fleet.name}: {plan_text(plan)}",
        lead=READ_ONLY if plan.causes else "",
        context=context_of(fleet, filters=[("pool", pool)] if pool else []),
        parts=tuple(parts),
    )


def plan_text(plan: Plan) -> str:
    """Return `3 critical causes and 10 others; 12 replicas to restart`."""
    if not plan.causes:
        return NO_CAUSES
    critical = sum(each.severity is Severity.CRITICAL for each in plan.causes)
    others = len(plan.causes) - critical
    parts = [count(critical, "critical cause")] if critical else []
    parts += [count(others, "other") if critical else count(others, "cause")] if others else []
    restarts = len(plan.restarts)
    return f"{' and '.join(parts)}; {count(restarts, 'replica')} to restart"


def _brief(number: int, cause: Cause) -> Entry:
    link = Link(Kind.PAGE, pages.OVERVIEW, choices=((pages.CAUSE, cause.key),))
    return Entry(
        tone=Tone(cause.severity),
        head=title_of(cause),
        side=effect_text(cause),
        lines=(why_text(cause),),
        link=link,
        where=str(number),
    )


def anchor_of(cause: Cause) -> str:
    return f"cause-{slug(cause.key)}"


def title_of(cause: Cause) -> Text:
    """Return what to do: `Restart 2 replicas of chat with --block-size 16`; of an action what it is about."""
    pools = _pools_text(cause)
    if not cause.fixes:
        sentences = {each.remedy.sentence.partition(". ")[0].partition(": ")[0] for each in cause.findings}
        what = with_code(sentences.pop().rstrip(".")) if len(sentences) == 1 else _without_stop(text_of(cause.findings))
        return (*what, Piece(" · "), Piece(f"{count(len(cause.replicas), 'replica')}", Style.STRONG), *pools)
    fix = cause.fixes[0]
    number = Piece(count(len(fix.replicas), "replica"), Style.STRONG)
    return (Piece("Restart "), number, *pools, *_values_text(fix))


def _without_stop(text: Text) -> Text:
    *rest, last = text
    return (*rest, last._replace(text=last.text.removesuffix(".")))


def _pools_text(cause: Cause) -> Text:
    names = sorted({each for finding in cause.findings for each in finding.pools})
    if not names:
        return ()
    if len(names) <= MOST_POOLS:
        return (Piece(" of "), *join_texts([(pool(each, brief(each)),) for each in names]))
    return (Piece(f" in {count(len(names), 'pool')}"),)


def _values_text(fix: Fix) -> Text:
    """Return what the replicas are restarted with and without; where groups differ, only the names."""
    added, removed = _words([each.paste for each in fix.groups]), _removed([each.paste for each in fix.groups])
    parts: list[Text] = []
    for word, values in (("with", added), ("without", removed)):
        if values:
            parts.append(
                (Piece(f" {word} "), *shortlist_texts([(Piece(each, Style.CODE),) for each in values], MOST_VALUES))
            )
    return tuple(piece for part in parts for piece in part) or (Piece(" with other settings"),)


def _words(pastes: Sequence[Paste]) -> list[str]:
    """Return the flags, variables and image to set; the bare name of one that has several values."""
    found: dict[str, set[str]] = {}
    for each in pastes:
        lines = [
            line.removeprefix("export ") for line in each.environment.splitlines() if not line.startswith("unset ")
        ]
        for text in (*each.flags, *lines, *([each.image] if each.image else [])):
            name = text.partition(": ")[0] if text == each.image else text.partition(" ")[0].partition("=")[0]
            found.setdefault(name, set()).add(text)
    return [next(iter(texts)) if len(texts) == 1 else name for name, texts in found.items()]


def _removed(pastes: Iterable[Paste]) -> list[str]:
    removed = [
        *(flag for each in pastes for flag in each.removed),
        *(
            line.removeprefix("unset ")
            for each in pastes
            for line in each.environment.splitlines()
            if line.startswith("unset ")
        ),
    ]
    return list(dict.fromkeys(removed))


def why_text(cause: Cause) -> Text:
    """Return the worst finding of a cause, or where several have other values its problem."""
    worst = [each for each in cause.findings if each.rule == cause.findings[0].rule]
    return text_of(worst)


def effect_text(cause: Cause) -> str:
    """Return what ends, on a second line the change of the KV cache: `fixes 1 critical, 2 warnings`."""
    if not cause.fixes:
        return NOT_PREDICTED
    fix = cause.fixes[0]
    lines = [f"fixes {found_text(fix.fixed)}"]
    if fix.new:
        lines.append(f"{found_text(fix.new)} new")
    if any(fix.tokens):
        lines.append(f"{span_text(*fix.tokens, is_short=True)} KV tokens")
    return "\n".join(lines)


def cause_section(fleet: Fleet, number: int, cause: Cause) -> Section:
    """Return one cause: what it is, what to change where, and what is predicted."""
    names = replica_names(fleet)
    blocks: list[Block] = [Paragraph(why_text(cause), Tone(cause.severity)), Paragraph(plain(_effect_sentence(cause)))]
    parts = []
    for place, fix in enumerate(cause.fixes):
        anchor = f"{anchor_of(cause)}-{place}" if place else anchor_of(cause)
        title = _choice_title(place, fix) if len(cause.fixes) > 1 else ""
        own = [block for group in fix.groups for block in _group_blocks(group, names)]
        parts.append(Section(f"{anchor}-change", title or "What to change", tuple(own)))
    if not cause.fixes:
        blocks += _action_blocks(cause, names)
    found = Entries(tuple(_finding_entry(each) for each in cause.findings))
    parts.append(
        Section(f"{anchor_of(cause)}-findings", count(len(cause.findings), "finding"), (found,), is_aside=True)
    )
    title = "".join(piece.text for piece in title_of(cause))
    return Section(anchor_of(cause), f"{number}. {title}", tuple(blocks), tuple(parts))


def _effect_sentence(cause: Cause) -> str:
    if not cause.fixes:
        return "No setting ends this: the effect is not predicted."
    fix = cause.fixes[0]
    parts = [f"fixes {found_text(fix.fixed)}", f"{found_text(fix.new) or 'none'} new"]
    parts += [f"{len(fix.open):,} known only after the restart"] if fix.open else []
    parts += [f"KV cache {span_text(*fix.tokens, is_short=True)} tokens"] if any(fix.tokens) else []
    parts += [f"KV cache unknown on {count(fix.unknown_ranks, 'DP rank')}"] if fix.unknown_ranks else []
    return f"Predicted: {'; '.join(parts)}."


def _choice_title(place: int, fix: Fix) -> str:
    words = "".join(piece.text for piece in _values_text(fix)).strip()
    return f"{'Recommended' if not place else 'Or'}: {words}"


def _group_blocks(group: ChangeGroup, names: Mapping[str, str]) -> Iterator[Block]:
    yield Paragraph(
        (
            Piece(count(len(group.replicas), "replica"), Style.STRONG),
            Piece(": "),
            *replica_text(group.replicas, names, MOST_NAMED),
        )
    )
    texts = [
        *pasted(group.paste),
        *([("Helm values (vLLM production-stack chart)", group.paste.helm)] if group.paste.helm else []),
    ]
    entries = [Entry(Tone.PLAIN, plain(label), snippets=(text,)) for label, text in texts]
    if len(group.replicas) > 1:
        whole = "\n".join(names_of(group.replicas, names))
        entries.append(Entry(Tone.PLAIN, plain("Names of the replicas"), snippets=(whole,)))
    yield Entries(tuple(entries))
    yield from (Paragraph(plain(each)) for each in paste_notes(group))


def _action_blocks(cause: Cause, names: Mapping[str, str]) -> Iterator[Block]:
    sentences = list(dict.fromkeys(each.remedy.sentence for each in cause.findings))
    snippets = dict.fromkeys(snippet.text for each in cause.findings for snippet in each.remedy.snippets)
    items = [Entry(Tone.PLAIN, with_code(each)) for each in sentences[:MOST_NAMED]]
    items += [Entry(Tone.PLAIN, (), snippets=(each,)) for each in list(snippets)[:MOST_VALUES]]
    yield Entries(tuple(items))
    if cause.replicas:
        yield Paragraph(
            plain(f"{count(len(cause.replicas), 'replica')}: {shortlist(names_of(cause.replicas, names), MOST_NAMED)}.")
        )


def _finding_entry(finding: Finding) -> Entry:
    where = joined([brief(each) for each in finding.pools[:MOST_POOLS]]) or "fleet"
    link = Link(Kind.FINDING, finding.id)
    head = (Piece(where, Style.STRONG, link), Piece(" "), *finding.text)
    return Entry(Tone(finding.severity), head, lines=((Piece(rule_title(finding.rule), Style.MUTED),),))
