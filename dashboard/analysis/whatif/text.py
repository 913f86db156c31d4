"""A what-if in sentences, for the page and for exports. Foreign text is not escaped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.whatif.models import (
    CapacityForecast,
    FindingForecast,
    Group,
    Paste,
    PlannedChange,
    RankForecast,
    WhatIf,
)
from dashboard.compare.baseline import value_text
from dashboard.fleet import Basis
from dashboard.fleet.formatting import count, exact, first_of, joined, middle_cut, one_line, short
from dashboard.fleet.pieces import Piece, Style, Text, value
from dashboard.fleet.pieces import joined as joined_texts
from dashboard.rules.apply_method import IMAGE_FIRST, ApplyMethod, removable_text
from dashboard.rules.findings import Finding, Severity

MOST_CHANGES = 3  # settings of a group that its title names before it counts the rest
MOST_NAMES = 4  # replicas or settings that a sentence names
ANOTHER_LINE = " \\\n"  # all flags can be pasted behind `vllm serve`, one a line
LONGEST = 60  # characters of a name or path in a sentence
NOTHING_APPLIED = "Read-only: paste the changes and restart the replicas yourself."
NOTHING_TO_PASTE = "Nothing to paste."
LATER = "After the restart, look again"
HOW_WORDS = {
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


class Pasted(NamedTuple):
    """Something to paste, its label, and its language: `bash` or `yaml`."""

    label: str
    text: str
    language: str


def target_text(what: WhatIf) -> str:
    """Return the name of the target: `cohort A`, `baseline chat`."""
    return f"{'baseline' if what.is_baseline else 'cohort'} {_cut(what.target)}"


def cautions(what: WhatIf) -> tuple[Text, ...]:
    """Return warnings: the rollout that would be reverted, the values that the router must know."""
    warnings = []
    if (rollout := what.goes_back) is not None:
        versions = (Piece(f": {_cut(what.pool)} is in rollout "), value(_cut(rollout.old)), Piece(" → "))
        warnings.append((*_claim("Reverts a rollout"), *versions, value(_cut(rollout.new)), Piece(".")))
    if what.router:
        warnings.append(_router_text(what))
    return tuple(warnings)


def summary(what: WhatIf) -> Text:
    """Return what would change, in one sentence."""
    if not what.groups:
        read = count(what.total - len(what.unread), "replica")
        return (*_claim("No replica would restart"), Piece(f": {read} already match {target_text(what)}."))
    found = what.verdicts
    parts = [f"{_findings(found.gone) or 'no finding'} fixed, {_findings(found.came) or 'none'} new"]
    parts += [f"{_findings([one for one, _ in found.spread])} on more replicas"] if found.spread else []
    parts += [f"{len(found.open):,} known only after the restart"] if found.open else []
    if what.alike is not None:
        parts.insert(0, f"{what.alike:,} of {what.total:,} already match {target_text(what)}")
    claim = f"{len(what.restarts):,} of {count(what.total, 'replica')} would restart"
    return (*_claim(claim), Piece(f"; {'; '.join([*parts, capacity_text(what.capacity)])}."))


def capacity_text(capacity: CapacityForecast) -> str:
    """Return how the pool's KV cache changes, as the end of a sentence."""
    known = [rank for rank in capacity.ranks if rank.before is not None and rank.after is not None]
    unknown = len(capacity.ranks) - len(known)
    if not capacity.ranks:
        return "KV cache unchanged"
    if not known:
        return f"KV cache unknown on {count(unknown, 'DP rank')}"
    rest = f", unknown on {count(unknown, 'DP rank')}" if unknown else ""
    span = span_text(capacity.least, capacity.most, is_short=True)
    return f"KV cache {span} tokens, based on identical engines{rest}"


def span_text(least: int, most: int, *, is_short: bool = False) -> str:
    """Write a change with its sign: `+21,584`, or from the least to the most: `+21.6 k to +22.2 k`."""
    ends = [_signed(number, is_short=is_short) for number in (least, most)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def verdict_lists(found: FindingForecast) -> tuple[tuple[str, str, tuple[Finding, ...]], ...]:
    """Return the non-empty lists of findings, the worst first: anchor, title, findings."""
    lists = (
        ("came", "New", found.came),
        ("spread", "On more replicas", tuple(after for _, after in found.spread)),
        ("gone", "Fixed", found.gone),
        ("eased", "On fewer replicas", tuple(after for _, after in found.eased)),
        ("open", "Known only after the restart", found.open),
    )
    return tuple(each for each in lists if each[-1])


def before_text(rank: RankForecast) -> str:
    """Write the tokens of a rank now."""
    return exact(rank.before, rank.before_basis)


def after_text(rank: RankForecast) -> str:
    """Write the tokens of a rank after the restart, from the least to the most."""
    if rank.least is None or rank.most is None:
        return exact(None)
    return f"{rank.least:,}" if rank.least == rank.most else f"{rank.least:,} to {rank.most:,}"


def change_text(rank: RankForecast) -> str:
    """Write the change of a rank's tokens."""
    if rank.before is None or rank.least is None or rank.most is None:
        return exact(None)
    return span_text(rank.least - rank.before, rank.most - rank.before)


def total_text(capacity: CapacityForecast) -> str:
    """Return the KV cache of the pool before and after, and how many ranks are unknown or unchanged."""
    now = _total(capacity.before, capacity.unknown_before, is_bound=capacity.is_bound)
    then = _total(capacity.after, capacity.unknown_after, is_bound=capacity.is_bound_after)
    about = "about " if any(rank.least != rank.most for rank in capacity.ranks) else ""
    rest = f" {count(capacity.unchanged, 'other DP rank')} unchanged." if capacity.unchanged else ""
    return f"Pool: {now} now, {about}{then} after.{rest}"


def group_text(group: Group) -> str:
    """Write the changes of a group: `2 replicas: block_size 32 → 16`."""
    order = {ApplyMethod.IMAGE: 0, ApplyMethod.FOLLOWS: 2}
    set_first = sorted(group.changes, key=lambda each: order.get(each.how, 1))
    shown = [_change(each) for each in set_first[:MOST_CHANGES]]
    more = len(set_first) - MOST_CHANGES
    words = [*shown, *([count(more, "more setting")] if more > 0 else [])]
    return f"{count(len(group.replicas), 'replica')}: {joined(words)}"


def pasted(paste: Paste) -> tuple[Pasted, ...]:
    """Return what to paste for one group: the image, the command line, and the same for a chart."""
    offered = (
        Pasted("Image", paste.image, "yaml"),
        Pasted("Flags", ANOTHER_LINE.join(paste.flags), "bash"),
        Pasted("Flags to remove", "\n".join(paste.removed), "bash"),
        Pasted("Environment variables", paste.environment, "bash"),
        Pasted("Helm values (vLLM production-stack chart)", paste.helm, "yaml"),
    )
    return tuple(each for each in offered if each.text)


def paste_notes(group: Group) -> tuple[str, ...]:
    """Return what cannot simply be pasted for a group now."""
    if any(each.how is ApplyMethod.IMAGE for each in group.changes) and len(group.changes) > 1:
        return (IMAGE_FIRST,) if group.paste.image else (IMAGE_FIRST, NOTHING_TO_PASTE)
    return later_notes(group)


def later_notes(group: Group) -> tuple[str, ...]:
    """Return what of a group cannot simply be pasted, apart from the image."""
    paste = group.later or group.paste
    by_way = {how: _some(each.path for each in group.changes if each.how is how) for how in ApplyMethod}
    templates = (
        (ApplyMethod.BY_HAND, "Set by hand: {}. The value shown leaves out values of each replica."),
        (ApplyMethod.CHOICE, "Choose a value within the agreed range: {}. The one shown is the nearest."),
        (ApplyMethod.MISFIT, "Fix the baseline: it has text where vLLM has a number or a switch, for {}."),
        (
            ApplyMethod.OPEN,
            "Remove from the baseline, or ignore, settings derived from several agreed values: {}.",
        ),
    )
    notes = [removable_text(paste.optional)] if paste.optional else []
    notes += [template.format(by_way[how]) for how, template in templates if by_way[how]]
    return (*notes, NOTHING_TO_PASTE) if paste.is_empty else tuple(notes)


def limits(what: WhatIf, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is unknown, and on which replicas. `names` are by replica id."""
    notes = []
    if what.silent:
        who = _some(names[each] for each in what.silent)
        notes.append(f"Incomplete settings on {who}: no change needed as far as reported.")
    if what.unread:
        notes.append(f"Never read: {_some(names[each] for each in what.unread)}. Their changes are unknown.")
    if what.untold:
        notes.append(f"Unchanged, because {target_text(what)} does not report it: {_some(what.untold)}.")
    return (*notes, *what.notes)


def _router_text(what: WhatIf) -> Text:
    """Return the values that a router must know, and the options that would declare them."""
    changes = joined_texts(
        (
            Piece(f"{each.expects.replace('_', ' ')} "),
            value(value_text(each.before)),
            Piece(" → "),
            value(value_text(each.after)),
        )
        for each in what.router
    )
    options = joined([f"expects.{each.expects}" for each in what.router])
    file = _cut(what.fleet.policy.file)
    return (
        *_claim("Reconfigure a prefix-aware router"),
        Piece(": "),
        *changes,
        Piece(f". No rule checks this, because {file} does not declare {options}."),
    )


def _claim(text: str) -> Text:
    return (Piece(text, Style.STRONG),)


def _total(tokens: int, unknown: int, *, is_bound: bool) -> str:
    rest = f" ({count(unknown, 'DP rank')} unknown)" if unknown else ""
    return f"{exact(tokens, Basis.ASSUMED if is_bound else Basis.REPORTED)} tokens{rest}"


def _findings(findings: Sequence[Finding]) -> str:
    """Write `2 critical findings, 3 warnings and 2 infos`; empty for none."""
    counts = Counter(each.severity for each in findings)
    nouns = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning", Severity.INFO: "info finding"}
    return joined([count(counts[kind], noun) for kind, noun in nouns.items() if counts[kind]])


def _signed(number: int, *, is_short: bool) -> str:
    if number == 0:
        return "±0"
    size = short(abs(number)) if is_short else f"{abs(number):,}"
    return f"{'+' if number > 0 else '−'}{size}"


def _change(change: PlannedChange) -> str:
    name = _cut(change.path.removeprefix("env.").rpartition(".")[2] or change.path)
    return f"{name} {value_text(change.before)} → {value_text(change.after)}"


def _some(words: Iterable[str]) -> str:
    return first_of(map(_cut, words), MOST_NAMES)


def _cut(name: str) -> str:
    return middle_cut(one_line(name), LONGEST)
