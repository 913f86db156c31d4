"""A what-if in plain sentences, for the page and for exports. All of it is text: what is foreign is not escaped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.whatif.nouns import Capacity, Change, Group, Paste, RankChange, Verdicts, WhatIf
from dashboard.fleet import Basis, SettingValue, State
from dashboard.fleet.formatting import count, exact, first_of, joined, middle_cut, one_line, short, told_text
from dashboard.rules.findings import Finding, Severity
from dashboard.rules.settable import IMAGE_FIRST, How, optional_words

MOST_CHANGES = 3  # settings of a group that its title names before it counts the rest
MOST_NAMES = 4  # replicas or settings that a sentence names
ANOTHER_LINE = " \\\n"  # of one command: a flag stays beside its value, and all can be pasted behind `vllm serve`
LONGEST = 60  # characters of a name or path in a sentence
NOTHING_APPLIED = (
    "Nothing is applied: this program only reads. Paste what you want to change, and restart the replicas."
)
NOTHING_TO_PASTE = "Nothing here can be pasted."
HOW_WORDS = {
    How.FLAG: "flag",
    How.NO_FLAG: "flag to take away",
    How.VARIABLE: "environment variable",
    How.NO_VARIABLE: "environment variable to take away",
    How.IMAGE: "another image",
    How.BY_HAND: "by hand: it holds what is each replica's own",
    How.CHOICE: "by hand: any value of the agreed range will do",
    How.MISFIT: "not at all: the baseline expects text where vLLM has a number or a switch",
    How.OPEN: "not at all: it follows from settings of which the baseline allows several values",
    How.FOLLOWS: "follows: no flag sets it",
}


LATER = "After the restart, look again"


class Pasted(NamedTuple):
    """Something to paste, what it is, and its language: `bash` or `yaml`."""

    label: str
    text: str
    language: str


def target_words(what: WhatIf) -> str:
    """Name the target: `cohort A`, `baseline chat`."""
    return f"{'baseline' if what.is_baseline else 'cohort'} {_cut(what.target)}"


def cautions(what: WhatIf) -> tuple[str, ...]:
    """Say what to mind before anything else: that this goes back on a rollout, what no rule judges of a router."""
    said = []
    if (rollout := what.goes_back) is not None:
        old, new = (_cut(each) for each in (rollout.old, rollout.new))
        said.append(f"{_cut(what.pool)} is moving from {old} to {new}, and this goes back on it.")
    if what.router:
        said.append(_router_words(what))
    return tuple(said)


def summary(what: WhatIf) -> str:
    """Say in one sentence what would change."""
    if not what.groups:
        read = count(what.total - len(what.unread), "replica")
        return f"No replica would restart: none of {read} that were read tells anything else than {target_words(what)}."
    told = what.verdicts
    parts = [
        f"{len(what.restarts):,} of {count(what.total, 'replica')} would restart",
        *_alike(what),
        f"{_findings(told.gone) or 'no finding'} would go, {_findings(told.came) or 'none'} would come",
    ]
    parts += [f"{_findings([one for one, _ in told.spread])} would reach more replicas"] if told.spread else []
    known_later = "is known only after the restart" if len(told.open) == 1 else "are known only after the restart"
    parts += [f"{len(told.open):,} {known_later}"] if told.open else []
    return "; ".join([*parts, capacity_words(what.capacity)]) + "."


def capacity_words(capacity: Capacity) -> str:
    """Say how the pool's KV cache changes, as the end of a sentence."""
    known = [rank for rank in capacity.ranks if rank.before is not None and rank.after is not None]
    unknown = len(capacity.ranks) - len(known)
    if not capacity.ranks:
        return "KV cache stays as it is"
    if not known:
        return f"what {count(unknown, 'DP rank')} would hold is not known"
    rest = f", that of {count(unknown, 'DP rank')} not known" if unknown else ""
    span = span_words(capacity.least, capacity.most, is_short=True)
    return f"KV cache {span} tokens, going by engines that are set up so{rest}"


def span_words(least: int, most: int, *, is_short: bool = False) -> str:
    """Write a change with its sign: `+21,584`, or from the least to the most: `+21.6 k to +22.2 k`."""
    said = [_signed(number, is_short=is_short) for number in (least, most)]
    return said[0] if said[0] == said[1] else f"{said[0]} to {said[1]}"


def verdict_lists(told: Verdicts) -> tuple[tuple[str, str, tuple[Finding, ...]], ...]:
    """Return what becomes of findings, the worst first: in a word, as a title, and which; those that hold any."""
    lists = (
        ("came", "Would come", told.came),
        ("spread", "Would reach more replicas", tuple(after for _, after in told.spread)),
        ("gone", "Would go", told.gone),
        ("eased", "Would stay on fewer replicas", tuple(after for _, after in told.eased)),
        ("open", "Known only after the restart", told.open),
    )
    return tuple(each for each in lists if each[-1])


def before_words(rank: RankChange) -> str:
    """Write the tokens that a rank holds now."""
    return exact(rank.before, rank.before_basis)


def after_words(rank: RankChange) -> str:
    """Write the tokens that a rank would hold: what like engines hold, from the least to the most."""
    if rank.least is None or rank.most is None:
        return exact(None)
    return f"{rank.least:,}" if rank.least == rank.most else f"{rank.least:,} to {rank.most:,}"


def change_words(rank: RankChange) -> str:
    """Write how a rank's tokens would change."""
    if rank.before is None or rank.least is None or rank.most is None:
        return exact(None)
    return span_words(rank.least - rank.before, rank.most - rank.before)


def total_words(capacity: Capacity) -> str:
    """Say what the pool holds in all, now and then, and of how many ranks nobody knows."""
    now = _total(capacity.before, capacity.unknown_before, is_bound=capacity.is_bound)
    then = _total(capacity.after, capacity.unknown_after, is_bound=capacity.is_bound_after)
    about = "about " if any(rank.least != rank.most for rank in capacity.ranks) else ""
    rest = f" {count(capacity.unchanged, 'other DP rank')} would hold what {_they(capacity.unchanged)} now."
    return f"The pool holds {now} now, and would hold {about}{then}.{rest if capacity.unchanged else ''}"


def group_words(group: Group) -> str:
    """Say what a group would change: `2 replicas: block_size 32 → 16`."""
    set_first = sorted(group.changes, key=lambda each: (each.how is not How.IMAGE, each.how is How.FOLLOWS))
    shown = [_change(each) for each in set_first[:MOST_CHANGES]]
    more = len(set_first) - MOST_CHANGES
    words = [*shown, *([count(more, "more setting")] if more > 0 else [])]
    return f"{count(len(group.replicas), 'replica')}: {joined(words)}"


def value_words(told: SettingValue) -> str:
    """Write one value of a setting on one line."""
    return "not set" if told.state is State.NULL else told_text(told.value, told.state)


def pasted(paste: Paste) -> tuple[Pasted, ...]:
    """Return what to paste for one group: the image, the command line, and the same for a chart."""
    told = (
        Pasted("Image", paste.image, "yaml"),
        Pasted("Flags", ANOTHER_LINE.join(paste.flags), "bash"),
        Pasted("Flags to take away", "\n".join(paste.removed), "bash"),
        Pasted("Environment variables", paste.environment, "bash"),
        Pasted("Helm values, for the vLLM production-stack chart", paste.helm, "yaml"),
    )
    return tuple(each for each in told if each.text)


def paste_notes(group: Group) -> tuple[str, ...]:
    """Say what cannot simply be pasted for a group now."""
    if any(each.how is How.IMAGE for each in group.changes) and len(group.changes) > 1:
        return (IMAGE_FIRST,) if group.paste.image else (IMAGE_FIRST, NOTHING_TO_PASTE)
    return later_notes(group)


def later_notes(group: Group) -> tuple[str, ...]:
    """Say what of a group cannot simply be pasted, the image aside."""
    told = group.later or group.paste
    by_way = {how: [each.path for each in group.changes if each.how is how] for how in How}
    notes = []
    if told.optional:
        notes.append(optional_words(told.optional))
    if by_hand := by_way[How.BY_HAND]:
        notes.append(f"Set by hand: {_some(by_hand)}. The value shown leaves out what is each replica's own.")
    if choice := by_way[How.CHOICE]:
        notes.append(f"Choose a value within the agreed range: {_some(choice)}. The one shown is the nearest.")
    if misfit := by_way[How.MISFIT]:
        notes.append(f"Mend the baseline: it expects text where vLLM has a number or a switch, for {_some(misfit)}.")
    if opened := by_way[How.OPEN]:
        notes.append(
            "Take out of the baseline, or ignore there, what follows from settings of which it allows several values: "
            f"{_some(opened)}."
        )
    if told.is_empty:
        notes.append(NOTHING_TO_PASTE)
    return tuple(notes)


def limits(what: WhatIf, names: Mapping[str, str]) -> tuple[str, ...]:
    """Say what is not known, and on whom. `names` gives replicas their names."""
    said = []
    if what.silent:
        who = _some(names[each] for each in what.silent)
        verb = "does" if len(what.silent) == 1 else "do"
        said.append(f"{who} {verb} not tell all of these settings: as far as told, nothing would change there.")
    if what.unread:
        verb = "was" if len(what.unread) == 1 else "were"
        said.append(f"{_some(names[each] for each in what.unread)} {verb} never read: what would change is not known.")
    if what.untold:
        said.append(f"What {target_words(what)} does not tell is left as it is: {_some(what.untold)}.")
    return (*said, *what.notes)


def _router_words(what: WhatIf) -> str:
    """Say which values a router must know, and why no finding speaks of that."""
    told = [
        f"the {each.expects.replace('_', ' ')} would be {value_words(each.after)} instead of {value_words(each.before)}"
        for each in what.router
    ]
    expected = joined([f"expects.{each.expects}" for each in what.router])
    return (
        f"A router that looks at prefixes must know that {joined(told)}. {_cut(what.fleet.policy.file)} does not say "
        f"what the router expects ({expected}), so no rule judged this."
    )


def _alike(what: WhatIf) -> Iterator[str]:
    """Yield how many of the pool have the settings of the chosen cohort now; nothing for a baseline."""
    if what.alike is not None:
        has = "has" if what.alike == 1 else "have"
        yield f"{what.alike:,} of {what.total:,} {has} the settings of {target_words(what)} now"


def _total(tokens: int, unknown: int, *, is_bound: bool) -> str:
    rest = f" and what {count(unknown, 'DP rank')} would add that nobody knows" if unknown else ""
    return f"{exact(tokens, Basis.ASSUMED if is_bound else Basis.REPORTED)} tokens{rest}"


def _they(number: int) -> str:
    return "it holds" if number == 1 else "they hold"


def _findings(findings: Sequence[Finding]) -> str:
    """Write `2 critical findings, 3 warnings and 2 for information`; nothing for none."""
    counts = Counter(each.severity for each in findings)
    critical, warnings, info = (counts[severity] for severity in Severity)
    words = [count(critical, "critical finding")] if critical else []
    words += [count(warnings, "warning")] if warnings else []
    alone = "" if words else "finding " if info == 1 else "findings "
    words += [f"{info:,} {alone}for information"] if info else []
    return joined(words)


def _signed(number: int, *, is_short: bool) -> str:
    if number == 0:
        return "±0"
    size = short(abs(number)) if is_short else f"{abs(number):,}"
    return f"{'+' if number > 0 else '−'}{size}"


def _change(change: Change) -> str:
    name = _cut(change.path.removeprefix("env.").rpartition(".")[2] or change.path)
    return f"{name} {value_words(change.before)} → {value_words(change.after)}"


def _some(words: Iterable[str]) -> str:
    return first_of(map(_cut, words), MOST_NAMES)


def _cut(name: str) -> str:
    return middle_cut(one_line(name), LONGEST)
