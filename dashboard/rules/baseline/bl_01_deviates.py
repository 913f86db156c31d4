"""BL-01: replicas of a pool tell other values than its baseline."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from dashboard.compare.baseline import Deviation, deviations, usual_values
from dashboard.compare.prefix import PREFIX_PATHS, short_name
from dashboard.fleet import Baseline, Setting, SettingValue, Source, State
from dashboard.fleet.formatting import count, first_of, joined, middle_cut, one_line
from dashboard.rules import remedy
from dashboard.rules.capacity.graph_sizes import follow
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.settable import (
    IMAGE_FIRST,
    VERSION,
    How,
    left_to_people,
    open_sources,
    optional,
    optional_words,
    typed,
    waiting,
    ways,
)
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.canonical import canonical_text

MOST_NAMED = 3  # settings that a sentence names before it counts the rest
LONGEST_COMMENT = 80  # characters of what people wrote, in a sentence
LONGEST_NAME = 60  # characters of a baseline's name or its file's
_TYPED = frozenset({How.FLAG, How.VARIABLE, How.NO_VARIABLE, How.IMAGE})


@rule(
    id="BL-01",
    name="deviates-from-baseline",
    family=Family.BASELINE,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
    },
    needs=(),
    least=1,
    holds_to_baseline=True,
)
def deviates_from_baseline(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of a pool tell other values than the pool's baseline.

    A baseline is a file that says what a pool should look like: expected values, tolerated sets and ranges, settings
    that do not matter. Every replica is held against it, whatever the others tell, so it also sees what is wrong on all
    of them. What a replica does not tell is counted as not known, never as agreed. Settings that decide the block
    hashes are a finding of their own; what else deviates is a warning beside it.

    Why it matters:
        - any pool: People agreed on these values; a replica with others answers, holds or fails in a way that nobody
          planned for, and the next review starts from a picture that is not true.
        - prefix-hash: Settings that decide the block hashes deviate, so the router makes keys that these replicas
          never have.
        - kv-events: Settings that decide the block hashes deviate, so the events of these replicas do not fit what the
          router's index expects.
        - kv-store: Settings that decide the block hashes deviate, so these replicas find nothing of what replicas that
          keep to the baseline put into the store, and they nothing of theirs.

    How to fix:
        Restart the replicas with the agreed values. Where the new value is the better one, agree on it: change the
        baseline's file, by hand or with `python -m dashboard baseline`, and have the change reviewed.

    Exceptions:
        A trial on some replicas: suppress the finding for them until a day. A setting that may have several values
        belongs under `tolerated`, one that does not matter under `ignored`.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (what goes into the hash of a block)
        - vllm/config/cache.py (block size, hash algorithm and prefix caching can be set per server)

    Example:
        A pool was agreed to cut blocks of 16 tokens. A new base image made it 32 on every replica: they are all alike,
        so nothing differs, and yet the router still cuts prompts into 16.
    """
    baseline = cast("Baseline", pool.baseline)
    usual = usual_values(baseline, (pool.settings(each) for each in pool.members))
    held = pool.of_documents(lambda settings: deviations(baseline, settings, usual).deviating)
    told = {each: [one for one in held[each] if not pool.is_ignored(one.path)] for each in sorted(held)}
    alike: dict[tuple[bool, tuple[Deviation, ...]], list[str]] = defaultdict(list)
    for replica, deviating in told.items():
        for is_hashing in (True, False):
            if alone := tuple(each for each in deviating if (each.path in PREFIX_PATHS) is is_hashing):
                alike[is_hashing, alone].append(replica)
    for (is_hashing, alone), replicas in alike.items():
        staying = min(replicas, key=lambda each: any(one.path == VERSION for one in told[each]))
        how = _ways(pool, baseline, staying, told[staying])
        yield _draft(baseline, alone, tuple(replicas), how, is_hashing=is_hashing)


def _ways(pool: PoolSubject, baseline: Baseline, replica: str, deviating: Sequence[Deviation]) -> Mapping[str, How]:
    """Return how each setting takes its value on one replica, as a what-if of the baseline says it too."""
    member = next(each for each in pool.members if each.id == replica)
    wanted = {each.path: each.wanted for each in deviating}
    after = {path: Setting(*told, Source.SERVER_INFO) for path, told in wanted.items()}
    usual = {each.path: each.usual for each in deviating if each.usual is not None}
    left = left_to_people(baseline, usual, pool.values, wanted)
    return ways(wanted, derives_sizes=follow({**pool.settings(member), **after}), left=left)


def _draft(
    baseline: Baseline,
    deviating: Sequence[Deviation],
    replicas: tuple[str, ...],
    how: Mapping[str, How],
    *,
    is_hashing: bool,
) -> Draft:
    """Write one finding: of settings that all decide the block hashes, or of others only."""
    evidence = [
        told
        for each in deviating
        for told in (
            Evidence(each.path, *each.own, replicas),
            Evidence(each.path, *_held_to(each), holder=baseline.file, is_reference=True, comment=each.comment),
        )
    ]
    return Draft(
        replicas,
        _sentence(baseline, deviating),
        tuple(evidence),
        _remedy(baseline, deviating, how),
        severity=None if is_hashing else Severity.WARNING,
        why=None if is_hashing else deviates_from_baseline.page.why[ImpactContext.MODEL],
    )


def _sentence(baseline: Baseline, deviating: Sequence[Deviation]) -> str:
    """Say `Deviates from the baseline chat in 2 settings: block_size 32, agreed 16 (“the router's”); dtype ...`."""
    words = [f"{short_name(each.path)} {say(each.own)}, {_agreed(each)}{_beside(each)}" for each in deviating]
    named = middle_cut(one_line(baseline.name), LONGEST_NAME)
    more = len(words) - MOST_NAMED
    shown = "; ".join([*words[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])
    return f"Deviates from the baseline {named} in {count(len(words), 'setting')}: {shown}."


def _agreed(deviation: Deviation) -> str:
    return f"{'tolerated' if deviation.tolerance else 'agreed'} {deviation.agreed_words}"


def _held_to(deviation: Deviation) -> SettingValue:
    """Return what a value is held against: the agreed one, or in words all that are tolerated."""
    if deviation.tolerance is None:
        return deviation.agreed
    return SettingValue(canonical_text(deviation.agreed_words), State.REPORTED)


def _beside(deviation: Deviation) -> str:
    return f" (“{middle_cut(one_line(deviation.comment), LONGEST_COMMENT)}”)" if deviation.comment else ""


def _remedy(baseline: Baseline, deviating: Sequence[Deviation], how: Mapping[str, How]) -> Remedy:
    """Say how to give replicas the agreed values, what to take away, and what people have to choose or mend first.

    What waits for another image is not pasted, as in a what-if of the baseline.
    """
    later = waiting(how)
    first = [each for each in deviating if each.path not in later]
    mend = [short_name(each.path) for each in deviating if how[each.path] is How.MISFIT]
    sentences = [
        _do(baseline, deviating, how),
        *([IMAGE_FIRST] if len(first) < len(deviating) else []),
        *_left(first, how),
        *([_mend(mend)] if mend else []),
        *_opened(baseline, [each.path for each in deviating if how[each.path] is How.OPEN]),
    ]
    snippets = [typed(each.path, each.wanted) for each in first if how[each.path] in _TYPED]
    return remedy.of_snippets(snippets, " ".join(filter(None, sentences)))


def _do(baseline: Baseline, deviating: Sequence[Deviation], how: Mapping[str, How]) -> str:
    """Say what makes the replicas keep to the baseline, and what else can be done; nothing where nothing does."""
    taken = [remedy.lever(each.path) for each in deviating if how[each.path] in {How.NO_FLAG, How.NO_VARIABLE}]
    misfits = [each for each in deviating if how[each.path] is How.MISFIT]
    opened = [each for each in deviating if how[each.path] is How.OPEN]
    removed = f"remove {first_of(taken, MOST_NAMED)} from these replicas" if taken else ""
    given = "give these replicas the agreed values" if len(taken) + len(misfits) + len(opened) < len(deviating) else ""
    what = " and ".join(filter(None, (given, removed)))
    file = middle_cut(one_line(baseline.file), LONGEST_NAME)
    if not what:
        return f"Agree on a value that vLLM can have in {file}." if misfits else ""
    return f"{what[:1].upper()}{what[1:]}, and restart them; or agree on theirs in {file}."


def _left(deviating: Sequence[Deviation], how: Mapping[str, How]) -> Iterator[str]:
    """Yield what is not pasted, and why: vLLM derives it, or there is a range to choose from."""
    if flags := optional(each.path for each in deviating if how[each.path] is How.FOLLOWS):
        yield optional_words(flags)
    for each in deviating:
        if how[each.path] is How.CHOICE:
            yield f"Choose a value for {short_name(each.path)}: {each.agreed_words}."


def _mend(names: Sequence[str]) -> str:
    """Say what the baseline expects that vLLM cannot have."""
    return f"{first_of(names, MOST_NAMED)}: the baseline expects text where vLLM has a number or a switch; mend it."


def _opened(baseline: Baseline, paths: Sequence[str]) -> Iterator[str]:
    """Say what no replica can keep to, whichever of the values that are allowed it has."""
    if paths:
        sources = dict.fromkeys(short_name(each) for path in paths for each in open_sources(baseline, path))
        names, file = [short_name(path) for path in paths], middle_cut(one_line(baseline.file), LONGEST_NAME)
        verb, them = ("follows", "it") if len(paths) == 1 else ("follow", "them")
        yield (
            f"{first_of(names, MOST_NAMED)} {verb} from {joined(list(sources))}, which may have several values: "
            f"take {them} out of {file}, or ignore {them} there."
        )
