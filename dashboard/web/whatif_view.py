"""What Compare says below its table: what would change if all replicas of the pool were like one cohort."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import Group, Paste, WhatIf, converge
from dashboard.analysis.whatif.text import (
    HOW_WORDS,
    LATER,
    NOTHING_APPLIED,
    Pasted,
    after_text,
    before_text,
    cautions,
    change_text,
    group_text,
    later_notes,
    limits,
    paste_notes,
    pasted,
    summary,
    total_text,
    verdict_lists,
)
from dashboard.compare.baseline import value_text
from dashboard.fleet import Baseline, Pool
from dashboard.fleet.formatting import count, first_of, uncapitalized
from dashboard.rules.findings import Finding
from dashboard.views import pages
from dashboard.views.names import brief, names_of
from dashboard.web import links, markup
from dashboard.web.findings_words import chips, sentence_html
from dashboard.web.state import shared

NOTHING = "nothing"  # what is chosen while the part is closed; it stands in no URL
BASELINE = "baseline"
MOST_FINDINGS, MOST_RANKS, MOST_GROUPS = 12, 12, 6  # drawn; the export has the rest
MOST_NAMES = 8  # replicas of a group by name
QUESTION = "What if all were like"
LEAD = "See which replicas would restart, which findings would go or come, and what to paste. Nothing is applied."
ONE_COHORT = (
    "No what-if here: the pool has one cohort, so there is no other to be like. What differs, differs inside the "
    "cohort, though its settings agree."
)


def draw(fleet: Fleet, pool: Pool, *, is_split: bool) -> WhatIf | None:
    """Draw the choice of a cohort or baseline and, once one is chosen, what would change, which is returned.

    `is_split`: engines of one cohort computed different block hashes.
    """
    if (options := _options(fleet, pool)) is None:
        if is_split:
            st.html(f'<p class="whatif-lead">{markup.text(ONE_COHORT)}</p>')
        return None
    with st.container(key="whatif"):
        chosen = _choose({NOTHING: "choose a cohort" + (" or baseline" if BASELINE in options else ""), **options})
        if chosen == NOTHING:
            st.html(f'<p class="whatif-lead">{markup.text(LEAD)}</p>')
            return None
        what = what_if(fleet.generation, fleet.since, pool.name, chosen, fleet)
        _draw(fleet, what)
        return what


@shared(max_entries=8)
def what_if(generation: int, since: datetime | None, pool: str, chosen: str, _fleet: Fleet) -> WhatIf:  # noqa: ARG001
    """Return what would change; sessions that ask the same share the answer. `chosen` is a letter or BASELINE."""
    baseline = _fleet.policy.baseline(pool) if chosen == BASELINE else None
    return converge(_fleet, pool, baseline or chosen)


def findings_html(what: WhatIf) -> str:
    """List the findings that would come, spread, go, stay on fewer replicas, or are known only later. HTML."""
    drawn = [f"<h3>{markup.text(title)}</h3>{_list(found)}" for _, title, found in verdict_lists(what.verdicts)]
    number = what.verdicts.stay
    stay = count(number, "finding") + " of this pool would stay as " + ("it is." if number == 1 else "they are.")
    drawn += [f'<p class="foot">{markup.text(stay)}</p>'] if number else []
    return "".join(drawn)


def capacity_html(what: WhatIf, names: Mapping[str, str]) -> str:
    """Show KV cache per DP rank, now and then. HTML."""
    ranks = what.capacity.ranks
    several = any(rank.dp_rank for rank in ranks)
    reasons = list(dict.fromkeys(rank.reason for rank in ranks))
    from_one = len(ranks) > 1 and len(reasons) == 1  # then the sentence stands once, below
    head = [("Replica", ""), ("Tokens now", "number"), ("Tokens then", "number"), ("Change", "number")]
    head += [] if from_one else [("From", "wide")]
    rows = [
        (
            markup.text(brief(names[rank.replica]) + (f", rank {rank.dp_rank}" if several else "")),
            markup.text(before_text(rank)),
            markup.text(after_text(rank)),
            markup.text(change_text(rank)),
            *([] if from_one else [markup.muted(rank.reason)]),
        )
        for rank in ranks[:MOST_RANKS]
    ]
    more = len(ranks) - MOST_RANKS
    rest = f"{count(more, 'more DP rank')} not shown." if more > 0 else ""
    source = f"Tokens then: {uncapitalized(reasons[0])}" if from_one else ""
    foot = " ".join(filter(None, [rest, source, total_text(what.capacity)]))
    table = markup.table("KV cache per DP rank, now and then", head, rows)
    return f'<div class="whatif-ranks">{table}</div><p class="foot">{markup.text(foot)}</p>'


def changes_html(group: Group) -> str:
    """Show every setting of a group: now, then, and how it is set. HTML."""
    rows = [
        (
            markup.code(each.path),
            markup.code(value_text(each.before)),
            markup.code(value_text(each.after)),
            markup.muted(HOW_WORDS[each.how]),
        )
        for each in group.changes
    ]
    return markup.table("Settings that would change", [("Setting", ""), ("Now", ""), ("Then", ""), ("How", "")], rows)


def _options(fleet: Fleet, pool: Pool) -> dict[str, str] | None:
    """Return what can be chosen, by what stands in the URL; None where all are alike and nothing was agreed on."""
    baseline: Baseline | None = fleet.policy.baseline(pool.name)
    if baseline is None and len(pool.cohorts) <= 1:
        return None
    letters = {each.letter: f"cohort {each.letter} ×{len(each.replicas):,}" for each in pool.cohorts}
    return {**({BASELINE: f"baseline {brief(baseline.name)}"} if baseline else {}), **letters}


def _choose(options: Mapping[str, str]) -> str:
    """Let the reader choose; the label and the choice read as one sentence."""
    with st.container(key="whatif_head", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(markup.section(QUESTION))
        chosen = st.selectbox(
            QUESTION,
            list(options),
            **links.bind(pages.CONVERGE, list(options)),
            format_func=lambda key: options[key],
            label_visibility="collapsed",
            width=230,
        )
    return str(chosen)


def _draw(fleet: Fleet, what: WhatIf) -> None:
    names = {each.id: each.name for each in fleet.replicas if each.pool == what.pool}
    said = "".join(f"<li>{markup.text(each)}</li>" for each in limits(what, names))
    aside = f'<ul class="whatif-limits">{said}</ul>' if said else ""
    for caution in cautions(what):
        st.html(f'<div class="notice warning">{markup.pieces(caution)}</div>')
    kind = "info" if what.groups else "good"
    st.html(f'<div class="notice {kind} whatif-summary">{markup.pieces(summary(what))}{aside}</div>')
    if not what.groups:
        return
    st.html(findings_html(what))
    if what.capacity.ranks:
        st.html(f"<h3>KV cache</h3>{capacity_html(what, names)}")
    st.html(f'<h3>What to paste</h3><p class="whatif-lead">{markup.text(NOTHING_APPLIED)}</p>')
    for number, group in enumerate(what.groups[:MOST_GROUPS]):
        _draw_group(group, names, number)
    if left := what.groups[MOST_GROUPS:]:
        replicas = count(sum(len(each.replicas) for each in left), "replica")
        st.html(f'<p class="foot">{count(len(left), "more group")} with {replicas}: the export has all.</p>')


def _draw_group(group: Group, names: Mapping[str, str], number: int) -> None:
    with st.container(key=f"whatif_group_{number}"):
        letters = " ".join(markup.letter(each) for each in group.letters)
        who = first_of([brief(name) for name in names_of(group.replicas, names)], MOST_NAMES)
        st.html(
            f'<div class="whatif-group">{letters} <b>{markup.text(group_text(group))}</b>'
            f"<small>{markup.text(who)}</small></div>"
        )
        _draw_paste(group.paste, paste_notes(group))
        if group.later is not None:
            with st.expander(LATER):
                _draw_paste(group.later, later_notes(group))
        with st.expander(f"Setting by setting: {len(group.changes):,}"):
            st.html(changes_html(group))


def _draw_paste(paste: Paste, notes: Sequence[str]) -> None:
    """Draw what is typed at the left, with what to mind of it, and the chart at the right."""
    typed, chart = st.columns(2, gap="medium")
    offered = pasted(paste)
    values = [each for each in offered if each.language == "yaml" and each.text == paste.helm]
    beside = "".join(f'<p class="foot">{markup.text(each)}</p>' for each in notes)
    if told := "".join(paste_html(each) for each in offered if each not in values) + beside:
        typed.html(told)
    if values:
        chart.html("".join(map(paste_html, values)))


def paste_html(each: Pasted) -> str:
    """Show something to paste with a button that copies it. HTML.

    Not as `st.code`: its highlighter knows all languages there are, and reading them in takes longer than this page.
    """
    copy = (
        f'<button type="button" class="copy" data-copy-code aria-label="Copy {markup.text(each.label)}">Copy</button>'
    )
    return (
        f'<div class="snippet">{markup.text(each.label)}</div>'
        f'<div class="paste"><pre><code>{markup.text(each.text)}</code></pre>{copy}</div>'
    )


def _finding(finding: Finding) -> str:
    sentence = sentence_html(finding.sentence, finding.evidence)
    return f"{markup.glyph(finding.severity, finding.severity)} {sentence} {markup.muted(finding.rule)}"


def _list(findings: Sequence[Finding]) -> str:
    rows = [
        (
            str(each.severity),
            _finding(each),
            chips(each.cohorts, len({share.pool for share in each.cohorts})),
        )
        for each in findings[:MOST_FINDINGS]
    ]
    more = len(findings) - MOST_FINDINGS
    rest = f'<p class="foot">{more:,} more: the export has all.</p>' if more > 0 else ""
    return markup.entries(rows) + rest
