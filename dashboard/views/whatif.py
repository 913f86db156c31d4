"""What would change if the replicas of a pool had the settings of one cohort or of a baseline."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.paste import ChangeGroup, Paste
from dashboard.analysis.whatif import WhatIf
from dashboard.analysis.whatif.after import RankForecast
from dashboard.analysis.whatif.findings import EXPECTATIONS
from dashboard.capacity.sums import PoolCapacity
from dashboard.compare.baseline import value_text
from dashboard.fleet import Basis, Cohort, SettingChange
from dashboard.fleet.formatting import NOT_KNOWN, SOME, count, exact, joined, middle_cut, one_line, short, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, join_texts, plain, value
from dashboard.rules.apply_method import IMAGE_FIRST, ApplyMethod, removable_text
from dashboard.rules.findings import Finding, Severity
from dashboard.views.blocks import (
    Block,
    Columns,
    Entries,
    Entry,
    Paragraph,
    Section,
    Tone,
)
from dashboard.views.finding_list import replica_lines, side_of
from dashboard.views.finding_text import findings_data, rule_title
from dashboard.views.names import brief, replica_names, replica_text, slug
from dashboard.views.table import Field, to_table

MOST_NAMES = 12  # replicas of a group by name
MOST_RANKS = 200  # rows of the table of DP ranks
OPEN_GROUPS = 6  # groups that a page does not fold
MOST_CHANGES = 3  # settings of a group that its title names before it counts the rest
ANOTHER_LINE = " \\\n"  # all flags can be pasted behind `vllm serve`, one a line
LONGEST = 60  # characters of a name or path in a sentence
NOTHING_TO_PASTE = "Nothing to paste."
METHOD_WORDS = {
    ApplyMethod.FLAG: "flag",
    ApplyMethod.NO_FLAG: "flag to remove",
    ApplyMethod.VARIABLE: "environment variable",
    ApplyMethod.NO_VARIABLE: "environment variable to remove",
    ApplyMethod.IMAGE: "image",
    ApplyMethod.BY_HAND: "by hand: contains values of each replica",
    ApplyMethod.CHOICE: "by hand: any value of the agreed range",
    ApplyMethod.MISFIT: "not possible: the baseline has text where vLLM has a number or a switch",
    ApplyMethod.OPEN: "not possible: derived from settings with several agreed values",
    ApplyMethod.FOLLOWS: "derived: no flag",
}
NOTES = {
    ApplyMethod.BY_HAND: "Set by hand: {}. The value shown leaves out values of each replica.",
    ApplyMethod.CHOICE: "Choose a value within the agreed range: {}. The one shown is the nearest.",
    ApplyMethod.MISFIT: "Fix the baseline: it has text where vLLM has a number or a switch, for {}.",
    ApplyMethod.OPEN: "Remove from the baseline, or ignore, settings derived from several agreed values: {}.",
}


def whatif_section(fleet: Fleet, what: WhatIf) -> Section:
    """Return what would change; `fleet` is the fleet that the what-if was made of."""
    names = replica_names(fleet)
    blocks = [Paragraph(each, Tone.WARNING) for each in cautions(what)]
    blocks.append(Paragraph(summary(what), Tone.INFO if what.groups else Tone.GOOD))
    blocks += [Paragraph(plain(each), Tone.UNKNOWN) for each in limits(what, names)]
    if what.unchanged:
        blocks.append(Paragraph(plain(f"{count(what.unchanged, 'finding')} of this pool unchanged.")))
    if what.groups:
        blocks.append(Paragraph(plain("Read-only: paste the changes and restart the replicas yourself.")))
    groups = [_group(each, number, what.pool, names) for number, each in enumerate(what.groups, 1)]
    parts = [*_findings(what, names), *_capacity(what, names), *groups[:OPEN_GROUPS]]
    if rest := groups[OPEN_GROUPS:]:
        parts.append(Section("what-if-more", count(len(rest), "more group"), (), tuple(rest), is_aside=True))
    return Section("what-if", f"What if all were like {target_text(what)}", tuple(blocks), tuple(parts))


def _findings(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    """Yield the findings that would be new, fixed or on other replicas, or that only the restart decides."""
    changes = what.changes.findings
    new, fixed, unknown = (
        [each.finding for each in found] for found in (changes.new, changes.fixed, changes.not_evaluated)
    )
    for kind, title, found in (
        ("new", "New", new),
        ("spread", "On more replicas", what.spread),
        ("fixed", "Fixed", fixed),
        ("eased", "On fewer replicas", what.reduced),
        ("open", "Known only after the restart", unknown),
    ):
        if not found:
            continue
        items = []
        for each in found:
            rule = Piece(rule_title(each.rule), Style.MUTED, Link(Kind.RULE, each.rule))
            side, lines = side_of([each], names), ((rule,), *replica_lines([each], names))
            items.append(Entry(Tone(each.severity), each.text, side, lines))
        data = partial(findings_data, found, names, name=f"what-if-{kind}", caption=title)
        yield Section(f"what-if-{kind}", f"{title}: {count(len(found), 'finding')}", (Entries(tuple(items), data),))


def _capacity(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    ranks = what.ranks
    if not ranks:
        return
    fields = (
        Field(
            "replica",
            "Replica",
            lambda rank: brief(names[rank.replica]),
            link=lambda rank: Link(Kind.REPLICA, rank.replica),
        ),
        Field("dp_rank", "DP rank", "{}", is_number=True),
        Field(
            "",
            "Tokens now",
            lambda rank: exact(rank.before, rank.before_basis),
            lambda rank: rank.before,
            is_number=True,
        ),
        Field("", "Tokens after", after_text, lambda rank: rank.after, key="Tokens then", is_number=True),
        Field("", "Change", change_text, _change_of, is_number=True),
        Field("reason", "Basis", key="Where that is from"),
    )
    more = len(ranks) - MOST_RANKS
    rest = f" {count(more, 'more DP rank')} not listed." if more > 0 else ""
    name, note = f"what-if-{slug(what.pool)}-kv-cache", f"{total_text(what)}{rest}"
    table = to_table(ranks[:MOST_RANKS], fields, name, "KV cache per DP rank before and after", note)
    yield Section("what-if-kv-cache", "KV cache", (table,))


def _change_of(rank: RankForecast) -> int | None:
    return None if rank.after is None or rank.before is None else rank.after - rank.before


def _group(group: ChangeGroup, number: int, pool: str, names: Mapping[str, str]) -> Section:
    letters = [piece for letter in group.letters for piece in (cohort(letter, pool), Piece(" "))]
    blocks: list[Block] = [
        Paragraph((*letters, *replica_text(group.replicas, names, MOST_NAMES))),
        *_paste(group.paste, paste_notes(group)),
    ]
    anchor = f"what-if-group-{number}"
    parts = []
    if group.later is not None:
        later = tuple(_paste(group.later, later_notes(group)))
        parts.append(Section(f"{anchor}-later", "After the restart, look again", later, is_aside=True))
    fields = (
        Field("path", "Setting", link=lambda row: Link(Kind.SETTING, row.path, pool), is_code=True),
        Field("", "Now", lambda row: value_text(row.before), is_code=True),
        Field("", "After", lambda row: value_text(row.after), key="Then", is_code=True),
        Field("", "How", lambda row: METHOD_WORDS[group.methods[row.path]]),
    )
    table = to_table(group.changes, fields, f"what-if-settings-{number}", "Settings that would change")
    parts.append(Section(f"{anchor}-settings", f"Settings ({len(group.changes):,})", (table,), is_aside=True))
    return Section(anchor, group_text(group), tuple(blocks), tuple(parts))


def _paste(paste: Paste, notes: Iterable[str]) -> Sequence[Block]:
    """Return what to type with its notes, and next to it the same for a Helm chart."""
    left = (*_snippets(pasted(paste)), *(Paragraph(plain(each)) for each in notes))
    chart = _snippets([("Helm values (vLLM production-stack chart)", paste.helm)] if paste.helm else [])
    return [Columns((left, chart), (1, 1))] if left and chart else [*left, *chart]


def _snippets(snippets: Sequence[tuple[str, str]]) -> tuple[Block, ...]:
    items = tuple(Entry(Tone.PLAIN, plain(label), snippets=(snippet,)) for label, snippet in snippets)
    return (Entries(items),) if items else ()


def target_text(what: WhatIf) -> str:
    """Return the name of the target: `cohort A`, `baseline chat`."""
    if isinstance(what.target, Cohort):
        return f"cohort {what.target.letter}"
    return f"baseline {_cut(what.target.name)}"


def cautions(what: WhatIf) -> Iterator[Text]:
    """Yield warnings: the rollout that would be reverted, the values that the router must know."""
    if (rollout := what.reverted) is not None:
        versions = (Piece(f": {_cut(what.pool)} is in rollout "), value(_cut(rollout.old)), Piece(" → "))
        yield (Piece("Reverts a rollout", Style.STRONG), *versions, value(_cut(rollout.new)), Piece("."))
    if what.router:
        changes = join_texts(
            (
                Piece(f"{EXPECTATIONS[each.path].replace('_', ' ')} "),
                value(value_text(each.before)),
                Piece(" → "),
                value(value_text(each.after)),
            )
            for each in what.router
        )
        options = joined([f"expects.{EXPECTATIONS[each.path]}" for each in what.router])
        end = f". No rule checks this, because {_cut(what.changes.after.policy.file)} does not declare {options}."
        yield (Piece("Reconfigure a prefix-aware router", Style.STRONG), Piece(": "), *changes, Piece(end))


def summary(what: WhatIf) -> Text:
    """Return what would change, in one sentence."""
    if not what.groups:
        read = count(what.total - len(what.unread), "replica")
        claim = Piece("No replica would restart", Style.STRONG)
        return (claim, Piece(f": {read} already match {target_text(what)}."))
    found = what.changes.findings
    fixed, new = (_counted(each.finding for each in side) for side in (found.fixed, found.new))
    parts = []
    if isinstance(what.target, Cohort):
        parts.append(f"{len(what.target.replicas):,} of {what.total:,} already match {target_text(what)}")
    parts.append(f"{fixed or 'no finding'} fixed, {new or 'none'} new")
    parts += [f"{_counted(what.spread)} on more replicas"] if what.spread else []
    parts += [f"{len(found.not_evaluated):,} known only after the restart"] if found.not_evaluated else []
    claim = Piece(f"{len(what.restarts):,} of {count(what.total, 'replica')} would restart", Style.STRONG)
    return (claim, Piece(f"; {'; '.join([*parts, capacity_text(what)])}."))


def capacity_text(what: WhatIf) -> str:
    """Return how the pool's KV cache changes, as the end of a sentence."""
    known = [rank for rank in what.ranks if rank.before is not None and rank.after is not None]
    unknown = len(what.ranks) - len(known)
    if not what.ranks:
        return "KV cache unchanged"
    if not known:
        return f"KV cache unknown on {count(unknown, 'DP rank')}"
    rest = f", unknown on {count(unknown, 'DP rank')}" if unknown else ""
    span = span_text(*what.change_of_tokens, is_short=True)
    return f"KV cache {span} tokens, based on identical engines{rest}"


def span_text(least: int, most: int, *, is_short: bool = False) -> str:
    """Write a change with its sign: `+21,584`, or from the least to the most: `+21.6 k to +22.2 k`."""
    signs = [("+" if number > 0 else "−") if number else "±" for number in (least, most)]
    sizes = [short(abs(number)) if is_short and number else f"{abs(number):,}" for number in (least, most)]
    return " to ".join(dict.fromkeys(f"{sign}{size}" for sign, size in zip(signs, sizes, strict=True)))


def after_text(rank: RankForecast) -> str:
    """Write the tokens of a rank after the restart, from the least to the most."""
    if rank.least is None or rank.most is None:
        return exact(None)
    return f"{rank.least:,}" if rank.least == rank.most else f"{rank.least:,} to {rank.most:,}"


def change_text(rank: RankForecast) -> str:
    if rank.before is None or rank.least is None or rank.most is None:
        return exact(None)
    return span_text(rank.least - rank.before, rank.most - rank.before)


def total_text(what: WhatIf) -> str:
    """Return the KV cache of the pool before and after, and how many ranks are unknown or unchanged."""
    after = what.capacity.after
    about = "about " if after.tokens.known and any(rank.least != rank.most for rank in what.ranks) else ""
    unchanged = after.ranks - len(what.ranks)
    rest = f" {count(unchanged, 'other DP rank')} unchanged." if unchanged else ""
    return f"Pool: {_total(what.capacity.before)} now, {about}{_total(after)} after.{rest}"


def group_text(group: ChangeGroup) -> str:
    """Write the changes of a group: `2 replicas: block_size 32 → 16`."""
    order = {ApplyMethod.IMAGE: 0, ApplyMethod.FOLLOWS: 2}
    in_order = sorted(group.changes, key=lambda each: order.get(group.methods[each.path], 1))
    changes = list(map(_change_text, in_order))
    more = len(changes) - MOST_CHANGES
    words = [*changes[:MOST_CHANGES], *([count(more, "more setting")] if more > 0 else [])]
    return f"{count(len(group.replicas), 'replica')}: {joined(words)}"


def pasted(paste: Paste) -> list[tuple[str, str]]:
    """Return what to paste for one group, with labels: the image and the command line, in YAML and in bash."""
    offered = (
        ("Image", paste.image),
        ("Flags", ANOTHER_LINE.join(paste.flags)),
        ("Flags to remove", "\n".join(paste.removed)),
        ("Environment variables", paste.environment),
    )
    return [each for each in offered if each[1]]


def paste_notes(group: ChangeGroup) -> Sequence[str]:
    """Return what cannot simply be pasted for a group now."""
    if group.paths(ApplyMethod.IMAGE) and len(group.changes) > 1:
        return [IMAGE_FIRST] if group.paste.image else [IMAGE_FIRST, NOTHING_TO_PASTE]
    return later_notes(group)


def later_notes(group: ChangeGroup) -> Sequence[str]:
    """Return what of a group cannot simply be pasted, apart from the image."""
    paste = group.later or group.paste
    notes = [removable_text(paste.optional)] if paste.optional else []
    for method, note in NOTES.items():
        if paths := group.paths(method):
            notes.append(note.format(_some(paths)))
    return [*notes, NOTHING_TO_PASTE] if paste.is_empty else notes


def limits(what: WhatIf, names: Mapping[str, str]) -> Sequence[str]:
    """Return what is unknown, and on which replicas. `names` are by replica id."""
    notes = []
    if what.silent:
        silent = _some(names[each] for each in what.silent)
        notes.append(f"Incomplete settings on {silent}: no change needed as far as reported.")
    if what.unread:
        notes.append(f"Never read: {_some(names[each] for each in what.unread)}. Their changes are unknown.")
    if what.unreported:
        notes.append(f"Unchanged, because {target_text(what)} does not report it: {_some(what.unreported)}.")
    return [*notes, *what.notes]


def _total(capacity: PoolCapacity) -> str:
    tokens = capacity.tokens
    if tokens.value is None:
        return NOT_KNOWN
    rest = f" ({count(capacity.unknown, 'DP rank')} unknown)" if capacity.unknown else ""
    return f"{exact(int(tokens.value), Basis.ASSUMED if tokens.at_most else Basis.REPORTED)} tokens{rest}"


def _counted(findings: Iterable[Finding]) -> str:
    """Write `2 critical findings, 3 warnings and 2 info findings`; empty for none."""
    numbers = Counter(each.severity for each in findings)
    words = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning", Severity.INFO: "info finding"}
    return joined([count(numbers[severity], word) for severity, word in words.items() if numbers[severity]])


def _change_text(change: SettingChange) -> str:
    name = _cut(change.path.removeprefix("env.").rpartition(".")[2] or change.path)
    return f"{name} {value_text(change.before)} → {value_text(change.after)}"


def _some(words: Iterable[str]) -> str:
    return shortlist(map(_cut, words), SOME)


def _cut(name: str) -> str:
    return middle_cut(one_line(name), LONGEST)
