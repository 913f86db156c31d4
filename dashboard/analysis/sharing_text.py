"""The verdict on prefix sharing in sentences: which cohorts do not share, which do, and what is unknown."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from dashboard.compare.baseline import value_text
from dashboard.compare.hashes import CohortHashes, Share, SharingCause, SharingCell, same_conditions
from dashboard.compare.prefix import (
    MODEL_PATH,
    VERSION_PATH,
    differing_paths,
    random_seed_cause,
    short_name,
)
from dashboard.compare.sharing import (
    MEASURABLE,
    MOST_COHORTS,
    SHARING_PATHS,
    SharingVerdict,
    differing_settings,
    unreported_settings,
)
from dashboard.fleet import Replica
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.fleet.pieces import (
    Kind,
    Link,
    Piece,
    Style,
    Text,
    join_texts,
    plain,
    replica,
    setting,
    shortlist_texts,
    value,
)

MAX_NAMED = 5  # cohorts, replicas and causes that a sentence names before it counts the rest
LONGEST_NAME = 40  # characters of a replica's name
CAUSES = {
    SharingCause.EQUAL_HASHES: "equal block hashes",
    SharingCause.CACHING_OFF: "prefix caching is off",
    SharingCause.RANDOM_SEED: "every engine process uses a random hash seed",
    SharingCause.REPLICA_SEED: "every replica uses its own hash seed",
    SharingCause.BLOCK_LENGTH: "block lengths differ",
    SharingCause.OTHER_SEED: "hash seeds differ",
    SharingCause.OTHER_HASHES: "block hashes differ",
    SharingCause.BLOCKS: "KV cache blocks have different lengths",
    SharingCause.BLOCKS_UNKNOWN: "the block size of a KV cache group is not reported",
    SharingCause.SOME_SILENT: "reported block hashes are equal",
    SharingCause.MAYBE_RANDOM: "probably random hash seeds: PYTHONHASHSEED is not reported",
    SharingCause.VERSIONS: "two versions may hash differently",
    SharingCause.NOT_MEASURED: "block hashes not reported, no setting differs",
}


CONDITIONS = {SharingCause.WEIGHTS, SharingCause.WEIGHTS_UNKNOWN, SharingCause.BLOCKS, SharingCause.BLOCKS_UNKNOWN}


def cause_text(cell: SharingCell) -> str:
    """Write the cause of a cell: `block_size differs`, `equal block hashes`, `2 hash variants`."""
    names = [short_name(path) for path in cell.paths]
    differ = f"{joined(names)} {'differs' if len(names) == 1 else 'differ'}"
    if cell.cause is SharingCause.VARIANTS:
        return f"{cell.ways:,} hash variants"
    if cell.cause is SharingCause.SOME_SILENT:
        return f"{CAUSES[cell.cause]}; not reported by {count(cell.silent, 'replica')}"
    if cell.cause in CONDITIONS:
        why = CAUSES[cell.cause] if not names else differ
        if cell.cause is SharingCause.WEIGHTS_UNKNOWN and cell.paths != (MODEL_PATH,):
            why = f"{joined(names)} not reported"
        return f"hash alike, but {why}" if cell.ways else why
    if cell.cause is SharingCause.EQUAL_HASHES:
        return f"{CAUSES[cell.cause]}, although {differ}" if names else CAUSES[cell.cause]
    return differ if cell.cause is SharingCause.SETTINGS else CAUSES[cell.cause]


def sharing_text(verdict: SharingVerdict, replicas: Mapping[str, Replica]) -> Text:
    """Return the sentences on a pool, the worst first, as one text. `replicas` are by id."""
    return join_texts(sharing_lines(verdict, replicas), " ", " ")


def sharing_lines(verdict: SharingVerdict, replicas: Mapping[str, Replica]) -> list[Text]:
    """Return the sentences on a pool, the worst first: one for each group of cohorts with one cause."""
    total = len(verdict.pool.replicas)
    number = sum(each.replicas for each in verdict.cohorts)
    if verdict.is_off:
        off = _sentence(_claim(f"Prefix caching is off on {count(number, 'replica')}"))
        return [off, *_silent(verdict.unread, total)]
    if not verdict.cohorts:
        return [_sentence(_claim("Unknown"), f": {count(total, 'replica reports', 'replicas report')} no settings")]
    is_alone = number == 1 and sum(each.engines for each in verdict.cohorts) < MEASURABLE
    if is_alone and total == 1:
        return [_sentence(_claim("One replica"), ": nothing to compare")]
    isolated = _isolated(verdict)
    pairs = list(_pairs_that_differ(verdict, isolated))
    return [
        *_split(verdict, isolated, replicas),
        *_not_sharing(verdict, pairs),
        *_probably_random(verdict, {own.letter for own, _, _ in pairs}),
        *_other_versions(verdict, {own.letter for own, _, cell in pairs if cell.share is Share.NO}),
        *_sharing(verdict),
        *_unknown(verdict),
        *_unknown_within(verdict),
        *_not_reported(verdict),
    ]


def _isolated(verdict: SharingVerdict) -> set[str]:
    """Return the cohorts whose replicas share with no other replica of the pool."""
    if len(verdict.cohorts) > MOST_COHORTS:
        return set()
    sharing = {letter for cell in verdict.cells if cell.share is not Share.NO for letter in (cell.one, cell.other)}
    return set(verdict.split) - sharing


def _pairs_that_differ(
    verdict: SharingVerdict, isolated: Collection[str]
) -> Iterator[tuple[CohortHashes, CohortHashes, SharingCell]]:
    """Yield each cohort with the first that it does not share with, the base before all others."""
    base = verdict.base
    for own in verdict.cohorts:
        if own is base or own.letter in isolated:
            continue
        others = verdict.cohorts[: verdict.cohorts.index(own)] if len(verdict.cohorts) <= MOST_COHORTS else ()
        for other in (base, *others):
            cell = verdict.cell(other, own)
            if other.letter not in isolated and cell.share is not Share.UNKNOWN:
                if cell.share is not Share.YES:
                    yield own, other, cell
                break


def _split(verdict: SharingVerdict, isolated: Collection[str], replicas: Mapping[str, Replica]) -> Iterator[Text]:
    """Write which cohorts do not share within themselves: the same settings, and other hashes."""
    groups: dict[tuple[bool, Share, bool, bool, Text], list[CohortHashes]] = {}
    for each in verdict.cohorts:
        if each.letter in verdict.split:
            cell = verdict.cell(each, each)
            cause = _variants(each, replicas) if cell.share is Share.PARTLY else _cause(cell, each, each)
            is_isolated = each.letter in isolated and len(verdict.cohorts) > 1
            key = (each.replicas == 1, cell.share, cell.is_measured, is_isolated, cause)
            groups.setdefault(key, []).append(each)
    for (is_one, share, is_measured, is_isolated, cause), cohorts in list(groups.items())[:MAX_NAMED]:
        noun = "Engines of " if is_one else "Replicas of "
        verb = " share prefixes only partly" if share is Share.PARTLY else " share no prefixes"
        others = " with any other replica" if is_isolated else ""
        basis = _basis("measured", cohorts, ", settings match") if is_measured else _basis("derived from settings")
        yield _sentence(_claim(noun), _named(verdict, cohorts), _claim(f"{verb}{others}"), basis, ": ", cause)
    if (more := len(groups) - MAX_NAMED) > 0:
        yield _sentence(_claim(f"{count(more, 'more cohort')} also hash differently within"))


def _not_sharing(
    verdict: SharingVerdict, pairs: Iterable[tuple[CohortHashes, CohortHashes, SharingCell]]
) -> Iterator[Text]:
    """Write which cohorts do not share with another one, and why."""
    groups: dict[tuple[str, Share, bool, bool, Text], list[CohortHashes]] = {}
    bases = {each.letter: each for each in verdict.cohorts}
    for own, other, cell in pairs:
        is_alike = cell.cause in CONDITIONS and bool(cell.ways)
        key = (other.letter, cell.share, cell.is_measured, is_alike, _cause(cell, own, other))
        groups.setdefault(key, []).append(own)
    for (letter, share, is_measured, is_alike, cause), cohorts in list(groups.items())[:MAX_NAMED]:
        base, is_one = bases[letter], len(cohorts) == 1
        if share is Share.PARTLY:
            verb = f" {'shares' if is_one else 'share'} prefixes only partly with "
        else:
            verb = f" {'does' if is_one else 'do'} not share prefixes with "
        basis = _basis("block hashes match" if is_alike else "derived from settings")
        basis = _basis("measured", [*cohorts, base]) if is_measured else basis
        yield _sentence(_named(verdict, cohorts), _claim(verb), _named(verdict, [base]), basis, ": ", cause)
    if (more := sum(map(len, list(groups.values())[MAX_NAMED:]))) > 0:
        yield _sentence(_claim(f"{count(more, 'more cohort')} also {'differs' if more == 1 else 'differ'}"))


def _sharing(verdict: SharingVerdict) -> Iterator[Text]:
    """Write which cohorts share, or only hash alike where weights or blocks are not known to be the same."""
    classes = verdict.classes
    if verdict.ways == 1 and not verdict.silent and classes:
        number = sum(each.replicas for each in verdict.cohorts)
        engines = sum(each.engines for each in verdict.cohorts)
        subject = f"All {number:,} replicas" if number > 1 else f"All {engines:,} engines"
        yield _sentence(_claim(subject + _verb(classes[0])), _basis("measured"), _although(verdict, classes[0]))
        return
    several = [each for each in classes if len(each) > 1][:MAX_NAMED]
    if not several and len(classes) == 1 and classes[0][0].engines >= MEASURABLE and not verdict.split:
        claim = (*_claim("Replicas of "), *_named(verdict, classes[0]), *_claim(_verb(classes[0])))
        yield _sentence(claim, _basis("measured", classes[0]))
    for cohorts in several:
        basis = _basis("measured", cohorts)
        yield _sentence(_named(verdict, cohorts), _claim(_verb(cohorts)), basis, _although(verdict, cohorts))


def _probably_random(verdict: SharingVerdict, differing: Collection[str]) -> Iterator[Text]:
    """Write which cohorts probably use random seeds, except a single replica that is certain not to share."""
    is_several = sum(each.replicas for each in verdict.cohorts) > 1
    found = [
        each
        for each in verdict.cohorts
        if each.is_maybe_random and is_several and (each.replicas > 1 or each.letter not in differing)
    ]
    if found:
        subject = _named(verdict, found) if len(found) < len(verdict.cohorts) else _claim("Replicas")
        shares = "shares" if len(found) == 1 and len(verdict.cohorts) > 1 else "share"
        why = joined(sorted({random_seed_cause(each.values) for each in found}))
        seed = f": {why} every engine process uses a random hash seed unless PYTHONHASHSEED is set (not reported)"
        yield _sentence(subject, _claim(f" probably {shares} no prefixes"), seed)


def _other_versions(verdict: SharingVerdict, differing: Collection[str]) -> Iterator[Text]:
    """Write which cohorts may hash differently, because they run a different version."""
    groups: dict[Text, list[CohortHashes]] = {}
    first = next((each for each in verdict.cohorts if VERSION_PATH in each.values), verdict.cohorts[0])
    for each in verdict.other_versions:
        if each.letter not in differing and not each.is_off:
            groups.setdefault(_settings((VERSION_PATH,), each, first), []).append(each)
    for cause, cohorts in list(groups.items())[:MAX_NAMED]:
        claim = (*_named(verdict, cohorts), *_claim(" may hash differently from "), *_named(verdict, [first]))
        yield _sentence(claim, _basis("derived from settings"), ": ", cause)


def _unknown(verdict: SharingVerdict) -> Iterator[Text]:
    """Write why replicas that hash alike may still not share: weights or blocks are not known to be the same."""
    if verdict.share is not Share.UNKNOWN or verdict.ways != 1 or verdict.silent:
        return
    first = verdict.cohorts[0]
    cells = [(own, verdict.cell(first, own)) for own in verdict.cohorts]
    for own, cell in [each for each in cells if each[1].share is Share.UNKNOWN][:1]:
        is_model = cell.paths == (MODEL_PATH,) and MODEL_PATH in own.values and MODEL_PATH in first.values
        cause = _settings(cell.paths, own, first) if is_model else _condition(verdict, cell)
        yield _sentence(_claim("Sharing is unknown"), ": ", cause)


def _unknown_within(verdict: SharingVerdict) -> Iterator[Text]:
    """Write which cohorts of a split pool hash alike within, without being known to share."""
    found = [cell for cell in verdict.cells if cell.one == cell.other and cell.cause in CONDITIONS]
    if verdict.share is Share.NO and found:
        letters = {each.one for each in found}
        cohorts = _named(verdict, [each for each in verdict.cohorts if each.letter in letters])
        yield _sentence(_claim("Sharing is unknown"), " within ", cohorts, f": {cause_text(found[0])}")


def _condition(verdict: SharingVerdict, cell: SharingCell) -> Text:
    """Write what is not reported of weights or blocks."""
    return (*_names(verdict, cell.paths), Piece(" not reported")) if cell.paths else plain(CAUSES[cell.cause])


def _not_reported(verdict: SharingVerdict) -> Iterator[Text]:
    """Write how many replicas do not report hashes or settings, and which settings are reported by none or ignored."""
    total = len(verdict.pool.replicas)
    is_measured = any(each.is_reporting for each in verdict.cohorts)
    if is_measured:
        yield from _silent(verdict.silent, total)
    elif verdict.is_doubted or verdict.other_versions:
        yield _sentence("No replica reports block hashes")
    elif verdict.share is Share.UNKNOWN:
        agree = "" if verdict.incomplete else "settings match, "
        reason = f"{agree}no replica reports block hashes" if total > 1 else "block hashes not reported"
        yield _sentence(_claim("Unknown"), f": {reason}")
    if not is_measured and verdict.incomplete:
        yield _sentence(f"Incomplete settings on {verdict.incomplete:,} of {count(total, 'replica')}")
    if not verdict.is_measured and (paths := unreported_settings(verdict)):
        yield _sentence("Not reported by any replica: ", _names(verdict, paths))
    if ignored := [path for path in SHARING_PATHS if path in verdict.pool.ignored]:
        yield _sentence("Differs, but ignored by fleet.yaml: ", _names(verdict, ignored))


def _silent(silent: int, total: int) -> Iterator[Text]:
    if silent:
        verb = "does" if silent == 1 else "do"
        yield _sentence(f"{silent:,} of {count(total, 'replica')} {verb} not report block hashes")


def _cause(cell: SharingCell, own: CohortHashes, other: CohortHashes) -> Text:
    """Write the cause of a cell from the side of `own`; a different version is added to a measured cause."""
    if cell.paths:
        cause = _settings(cell.paths, own, other)
    elif cell.cause is SharingCause.CACHING_OFF:
        cause = plain(f"{CAUSES[cell.cause]}{'' if own.is_off else f' on {other.letter}'}")
    elif cell.cause is SharingCause.BLOCKS:
        cause = plain(f"blocks of {_sizes(own)} tokens ({other.letter}: {_sizes(other)})")
    elif cell.cause is SharingCause.RANDOM_SEED:
        whys = {random_seed_cause(each.values) for each in (own, other) if each.is_random} - {""}
        cause = plain(" ".join([*sorted(whys)[:1], CAUSES[cell.cause]]))
    else:
        cause = plain(cause_text(cell))
    versions = differing_paths(own.values, other.values, (VERSION_PATH,))
    if versions and cell.is_measured and cell.cause not in {SharingCause.BLOCK_LENGTH, SharingCause.VARIANTS}:
        cause = (*cause, Piece(", "), *_settings(versions, own, other))
    return cause


def _sizes(cohort: CohortHashes) -> str:
    """Write the lengths of the blocks that a cohort allocates: `64`, `16 and 256`."""
    sizes = {size for sizes in (*cohort.group_sizes, cohort.block_sizes) for size in sizes if size is not None}
    return joined([f"{size:,}" for size in sorted(sizes)])


def _settings(paths: Iterable[str], own: CohortHashes, other: CohortHashes) -> Text:
    """Write the values of some settings on two sides: `block_size is 32 (A: 16)`."""
    texts: list[Text] = []
    for path in paths:
        here, there = value(value_text(own.values[path])), value(value_text(other.values[path]))
        texts.append((setting(path), Piece(" is "), here, Piece(f" ({other.letter}: "), there, Piece(")")))
    return join_texts(texts)


def _names(verdict: SharingVerdict, paths: Iterable[str]) -> Text:
    return join_texts([(setting(path, verdict.pool.name),) for path in paths])


def _variants(cohort: CohortHashes, replicas: Mapping[str, Replica]) -> Text:
    """Name the replicas that hash differently from most of their cohort; of many, count the variants."""
    most, *others = sorted(cohort.digests.values(), key=lambda own: (-len(own), own))
    odd = sorted({key for own in others for key in own}.difference(most))
    if cohort.off or not odd or len(odd) > MAX_NAMED:
        return plain(f"{cohort.ways:,} hash variants on {count(cohort.reporting, 'replica')}")
    names = [(replica(middle_cut(one_line(replicas[key].name), LONGEST_NAME), key),) for key in odd]
    verb = "hashes" if len(odd) == 1 else "hash"
    return (*join_texts(names), Piece(f" {verb} differently from {count(len(most), 'replica')}"))


def _verb(cohorts: Sequence[CohortHashes]) -> str:
    is_same = all(same_conditions(cohorts[0], each).share is Share.YES for each in cohorts)
    return " share prefixes" if is_same else " hash alike"


def _although(verdict: SharingVerdict, cohorts: Sequence[CohortHashes]) -> Text:
    paths = differing_settings(cohorts)
    verb = " differs" if len(paths) == 1 else " differ"
    return (Piece(", although "), *_names(verdict, paths), Piece(verb)) if paths else ()


def _named(verdict: SharingVerdict, cohorts: Sequence[CohortHashes]) -> Text:
    """Name cohorts, of many the first ones."""
    names: list[Text] = [
        (Piece(each.letter, Style.STRONG, Link(Kind.COHORT, each.letter, verdict.pool.name)),) for each in cohorts
    ]
    return tuple(piece._replace(style=Style.STRONG) for piece in shortlist_texts(names, MAX_NAMED))


def _claim(text: str) -> Text:
    return (Piece(text, Style.STRONG),)


def _basis(words: str, cohorts: Sequence[CohortHashes] = (), more: str = "") -> Text:
    """Write the basis of a claim; where cohorts have silent replicas, on how many it was measured."""
    reporting, total = sum(each.reporting for each in cohorts), sum(each.replicas for each in cohorts)
    some = f" on {reporting:,} of {count(total, 'replica')}" if reporting < total else ""
    return (Piece(f" ({words}{some}{more})", Style.MUTED),)


def _sentence(*parts: str | Text) -> Text:
    return (*(piece for part in parts for piece in (plain(part) if isinstance(part, str) else part)), Piece("."))
