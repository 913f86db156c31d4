"""What changed between two fleets, in sentences. Foreign text in them is as it is: the format escapes it."""

from collections import Counter
from collections.abc import Iterable, Mapping

from dashboard.analysis.changes import (
    Amount,
    Changes,
    OneSidedFinding,
    OneSidedSettings,
    OtherSideStatus,
    PersistingFinding,
    PoolCapacity,
    SettingGroup,
    Share,
    ValueChange,
)
from dashboard.analysis.changes.nouns import Pools
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.fleet import Basis
from dashboard.fleet.formatting import STATE_WORDS, count, exact, first_of, joined, told_text
from dashboard.report.findings.words import MOST_NAMES, named, suppressions
from dashboard.rules.findings import OutcomeKind
from dashboard.views.names import brief, names_of

NO_POOL = "no pool"
NO_CHANGE = "0 %"
MOST_CLAUSES = 3  # of a headline; a fourth would be read by nobody
MOST_PATHS = 6  # settings that one sentence names
MOST_TENTHS = 0.0995  # shares below are written with a tenth of a percent
NOT_RUN = {
    OutcomeKind.ERROR: "raised an error",
    OutcomeKind.SKIPPED: "was skipped",
    OutcomeKind.NOT_APPLICABLE: "does not apply",
}


def headline(changes: Changes) -> str:
    """Say in one sentence what changed: `2 new findings, 1 gone; 37 replicas changed, block_size 16 to 32`."""
    parts = [*_found(changes), *_set(changes), *_replicas(changes), *_held(changes)]
    if parts:
        return "; ".join(parts[:MOST_CLAUSES])
    if changes.is_empty:
        return "Nothing changed" if is_all_read(changes) else "Nothing changed in what was read on both sides"
    return "No value changed, but not everything is told on both sides"


def difference_words(changes: Changes) -> str:
    """Say in a sentence what changed, and what is to be minded: the last line of `diff`."""
    unread = {*changes.settings.unread_before, *changes.settings.unread_after}
    told = [headline(changes)]
    told += [f"{count(len(unread), 'replica')} could not be compared"] if unread else []
    told += ["the second side is older than the first"] if changes.after_is_older else []
    return f"{'; '.join(told)}."


def is_all_read(changes: Changes) -> bool:
    """Tell whether the settings of all replicas of both sides were compared."""
    return not (changes.settings.unread_before or changes.settings.unread_after)


def lead(changes: Changes) -> str:
    """Say what the headline rests on, and what is to be minded."""
    return "; ".join([*_compared(changes), *_also_found(changes), as_before(changes)]) + "."


def as_before(changes: Changes) -> str:
    """Count what did not change: `22 findings as before, of them 2 suppressed`."""
    same = [each.is_suppressed_after for each in changes.findings.kept if not each.is_changed]
    return f"{count(len(same), 'finding')} as before{f', of them {sum(same):,} suppressed' if any(same) else ''}"


def warnings(changes: Changes) -> list[str]:
    """Say what makes the comparison other than it looks, a sentence each."""
    told = []
    if changes.after_is_older:
        told.append("The second side is older than the first: what reads as new here is what was there before.")
    if changes.before.fleet != changes.after.fleet:
        told.append(f"These are two fleets: {brief(changes.before.fleet)} and {brief(changes.after.fleet)}.")
    if changes.options_differ:
        told.append("fleet.yaml is not the same on both sides: findings can come and go by what it says.")
    return told


def change_words(change: ValueChange) -> str:
    """Write one change: `block_size 16 to 32`."""
    return f"{setting_name(change.path)} {told_text(*change.before)} to {told_text(*change.after)}"


def group_who(group: SettingGroup) -> str:
    """Write whose settings changed: `37 of 40 replicas of chat`."""
    before, after = group.pools
    number = len(group.replicas)
    if before != after:
        return f"{count(number, 'replica')} that went from {pool_name(before)} to {pool_name(after)}"
    of = f"{number:,} of {count(group.pool_sizes[1], 'replica')}" if number != group.pool_sizes[1] else _all(number)
    return f"{of} of {pool_name(after)}" if after is not None else f"{count(number, 'replica')} without a pool"


def cohorts_words(group: SettingGroup) -> str:
    """Write where they stood and stand: `A ×37 to B ×37`, of one replica `from A to B`; `in A before and after`.

    Empty where no side has cohorts: replicas without a pool are in none.
    """
    is_one = len(group.replicas) == 1
    before, after = (_shares(shares, is_one=is_one) for shares in (group.cohorts_before, group.cohorts_after))
    if before == after:
        return f"in {after} before and after" if any(share.letter for share in group.cohorts_after) else ""
    return f"from {before} to {after}" if is_one else f"{before} to {after}"


def restarts_words(group: SettingGroup) -> str:
    """Say how many of them restarted. A configuration cannot change otherwise, but another source may tell it."""
    number = len(group.replicas)
    if group.restarted == number:
        return "It restarted." if number == 1 else "All of them restarted."
    known = f"{group.restarted:,} of {number:,} restarted" if group.restarted else "None is known to have restarted"
    silent = count(group.start_untold, "does not tell when it started", "do not tell when they started")
    return f"{known}{f'; {silent}' if group.start_untold else ''}."


def silence_words(silence: OneSidedSettings, *, is_told_now: bool) -> str:
    """Write what only one side tells: `40 settings of 2 replicas of chat: not reported any more (a, b and 38 more)`."""
    why = STATE_WORDS[silence.why]
    how = f"{why} before" if is_told_now else f"{why} now"
    paths = first_of(map(setting_name, silence.paths), MOST_PATHS)
    who = f"{count(len(silence.replicas), 'replica')} of {_pools(silence.pools)}"
    return f"{count(len(silence.paths), 'setting')} of {who}, {how}: {paths}."


def lone_words(lone: OneSidedFinding, names: Mapping[str, str], *, is_new: bool) -> list[str]:
    """Say why only one side has a finding: solved, not judged, its replicas not there."""
    number = len(lone.finding.replicas)
    its = "Its replica" if number == 1 else f"Its {number:,} replicas"
    told = []
    if lone.elsewhere is OtherSideStatus.NOT_THERE:
        told.append(f"{its} {'was' if number == 1 else 'were'} not there before." if is_new else f"{its} left.")
    elif lone.elsewhere is OtherSideStatus.NOT_JUDGED:
        told.append(f"{'Was not judged before' if is_new else 'Not judged any more'}: {_why(lone, names)}.")
    elif not is_new:
        told.append(_looked_at(lone, its))
    if lone.is_suppressed and (who := suppressions([lone.finding])):
        told.append(f"It {'is' if is_new else 'was'} {who.rstrip('.')}.")
    return told


def kept_words(kept: PersistingFinding, names: Mapping[str, str]) -> list[str]:
    """Say how a finding of both sides changed, a sentence each."""
    told = []
    if kept.has_other_severity:
        told.append(f"Now {kept.after.severity}, was {kept.before.severity}.")
    for replicas, known, unknown in (
        (kept.joined, "Now also on {}.", "Now also on {}, not read before."),
        (kept.left, "No longer on {}.", "Not judged any more on {}, not read now."),
    ):
        lost = [each for each in replicas if each in kept.unread]
        read = [each for each in replicas if each not in kept.unread]
        told += [known.format(some(read, names))] if read else []
        told += [unknown.format(some(lost, names))] if lost else []
    if kept.ended is not None:
        why = kept.ended.reason.rstrip(".")
        told.append(f"Its suppression by {kept.ended.owner} ended on {kept.ended.until} ({why}).")
    if kept.has_other_suppression:
        told.append(_suppressed(kept, names))
    return told


def spread_to(found: Iterable[PersistingFinding]) -> str:
    """Write on how many more replicas findings are now: `to 1 more replica`."""
    return f"to {count(len({replica for each in found for replica in each.spread}), 'more replica')}"


def missing_words(pool: PoolCapacity) -> str:
    """Say what is not in the sums of a pool: replicas of which no rank is known, ranks that do not tell an amount."""
    before, after = _missing(pool.before), _missing(pool.after)
    if before == after:
        return before
    return f"before: {before or 'nothing'}; after: {after or 'nothing'}"


def share_words(pool: PoolCapacity) -> str:
    """Write by how much the tokens changed: `−18 %`; `not known` where the sums are not of the same."""
    if pool.share is None:
        return "-" if pool.before.tokens is None and pool.after.tokens is None else "not known"
    return percent(pool.share)


def percent(share: float) -> str:
    """Write a share with its sign: `−18 %`, `+0.4 %`; nothing of it as `0 %`."""
    if share == float("inf"):
        return "from nothing"
    if round(share * 100, 1) == 0:
        return NO_CHANGE
    places = 0 if abs(share) >= MOST_TENTHS else 1
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:,.{places}f} %"


def rank_words(before: int, after: int, *, is_at_most: bool) -> str:
    """Write what a rank held and holds: `488,000 to 400,000 tokens`."""
    basis = Basis.ASSUMED if is_at_most else Basis.REPORTED
    return f"{exact(before, basis)} to {exact(after, basis)} tokens"


def pool_name(pool: str | None) -> str:
    """Name a pool, or say that there is none."""
    return NO_POOL if pool is None else brief(pool)


def setting_name(path: str) -> str:
    """Name a setting in a sentence: the end of its path, on one line."""
    return brief(short_name(path))


def some(replicas: Iterable[str], names: Mapping[str, str], most: int = MOST_NAMES) -> str:
    """Name replicas, of many the first ones."""
    return named(map(brief, names_of(replicas, names)), most)


def _found(changes: Changes) -> list[str]:
    """Say what is new, gone, and on more replicas than before; where nothing is, what else became of findings."""
    found = changes.findings
    new, gone = len(found.standing), len(found.over)
    words = [count(new, "new finding")] if new else []
    words += [f"{gone:,} gone" if words else f"{count(gone, 'finding')} gone"] if gone else []
    if spread := len(found.spread):
        words += [f"{f'{spread:,}' if words else count(spread, 'finding')} spread {spread_to(found.spread)}"]
    words = words or _also_found(changes)
    return [", ".join(words)] if words else []


def _also_found(changes: Changes) -> list[str]:
    found = changes.findings
    lost, changed, hidden = len(found.unjudged), len(found.changed), len(found.new) - len(found.standing)
    words = [f"{count(lost, 'finding')} not judged any more"] if lost else []
    words += [f"{count(changed, 'finding')} changed"] if changed else []
    return words + ([f"{count(hidden, 'new finding')} suppressed"] if hidden else [])


def _set(changes: Changes) -> list[str]:
    """Say on how many replicas settings changed, and the change that most of them have."""
    groups = changes.settings.groups
    if not groups:
        return []
    numbers: Counter[ValueChange] = Counter()
    for group in groups:
        for change in group.changes:
            numbers[change] += len(group.replicas)
    first = min(numbers, key=lambda change: (_preference(change.path), -numbers[change], change))
    others = len({change.path for change in numbers} - {first.path})
    more = f" and {count(others, 'other setting')}" if others else ""
    on = f" on {numbers[first]:,}" if numbers[first] < len(changes.settings.replicas) else ""
    return [f"{count(len(changes.settings.replicas), 'replica')} changed, {change_words(first)}{on}{more}"]


def _replicas(changes: Changes) -> list[str]:
    """Count replicas that came and so on; the first number says of what, unless words on replicas stand before it."""
    replicas = changes.replicas
    numbers = {
        "came": len(replicas.came),
        "went": len(replicas.went),
        "restarted": len(replicas.restarted),
        "changed state": sum(each.has_other_state for each in replicas.changed),
        "changed pool or name": sum(each.has_other_pool or each.has_other_name for each in replicas.changed),
    }
    there = {what: number for what, number in numbers.items() if number}
    first = None if changes.settings.groups else next(iter(there), None)
    words = [f"{count(number, 'replica') if what == first else f'{number:,}'} {what}" for what, number in there.items()]
    return [joined(words)] if words else []


def _held(changes: Changes) -> list[str]:
    ranks = changes.capacity.ranks
    if not ranks:
        return []
    less = sum(each.after < each.before for each in ranks)
    words = [f"{count(less, 'rank holds', 'ranks hold')} less"] if less else []
    more = len(ranks) - less
    words += [f"{more:,} more" if less else f"{count(more, 'rank holds', 'ranks hold')} more"] if more else []
    return [", ".join(words)]


def _why(lone: OneSidedFinding, names: Mapping[str, str]) -> str:
    """Say why a rule did not judge on the other side what it found on this one."""
    told = []
    if lone.outcome is None:
        told.append("the rule was not run there on the same pool")
    elif lone.outcome in NOT_RUN:
        told.append(f"the rule {NOT_RUN[lone.outcome]} ({lone.reason.rstrip('.')})")
    if lone.unread:
        told.append(f"{some(lone.unread, names)} could not be read")
    if lone.silent:
        told.append(f"{some(lone.silent, names)} did not tell what it is about")
    return ", and ".join(told)


def _looked_at(lone: OneSidedFinding, its: str) -> str:
    left = f"; {len(lone.absent):,} left" if lone.absent else ""
    if not lone.finding.replicas:
        return "The rule was judged again."
    return f"{its} {'was' if len(lone.finding.replicas) == 1 else 'were'} read again{left}."


def _suppressed(kept: PersistingFinding, names: Mapping[str, str]) -> str:
    if kept.is_suppressed_after:
        return f"Now {suppressions([kept.after]).rstrip('.')}."
    if kept.suppressed_after:
        return f"Suppressed on {some(kept.suppressed_after, names)} only."
    return "No longer suppressed."


def _missing(amount: Amount) -> str:
    told = [count(amount.silent, "replica")] if amount.silent else []
    told += [f"tokens of {count(amount.unknown, 'rank')}"] if amount.unknown else []
    told += [f"bytes of {count(amount.unsized, 'rank')}"] if amount.unsized else []
    return ", ".join(told)


def _compared(changes: Changes) -> list[str]:
    """Say of how many replicas the settings were compared, and why not of all."""
    settings, both = changes.settings, count(len(changes.replicas.both), "replica")
    unread = {*settings.unread_before, *settings.unread_after}
    if settings.compared:
        parts = [f"Settings of {settings.compared:,} of {both} of both sides compared"]
        return [*parts, f"{len(unread):,} not read on both sides"] if unread else parts
    if unread:
        return [f"No settings compared: of {both} of both sides, none was read on both"]
    return ["No settings compared: no replica is on both sides"]


def _shares(shares: Iterable[Share], *, is_one: bool) -> str:
    """Write how many replicas are in which cohort; of one replica only the cohort."""
    return ", ".join((share.letter or "no cohort") + ("" if is_one else f" ×{share.number:,}") for share in shares)


def _pools(pools: Pools) -> str:
    return pool_name(pools[1]) if pools[0] == pools[1] else f"{pool_name(pools[0])}, now {pool_name(pools[1])}"


def _all(number: int) -> str:
    return {1: "The one replica", 2: "Both replicas"}.get(number, f"All {count(number, 'replica')}")


def _preference(path: str) -> int:
    return PREFIX_PATHS.index(path) if path in PREFIX_PATHS[1:] else len(PREFIX_PATHS) + (path != PREFIX_PATHS[0])
