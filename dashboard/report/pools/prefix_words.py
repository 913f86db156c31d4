"""Whether a pool's replicas can share prefixes: how bad the verdict is, and in a few words."""

from collections.abc import Iterable, Mapping
from itertools import chain

from dashboard.analysis.assembly import Fleet
from dashboard.compare import PREFIX_PATHS, SharingSentence, Verdict, pool_sharing, sharing_sentence
from dashboard.compare.prefix import VERSION_PATH, is_tie
from dashboard.compare.sharing import DECIDING_PATHS
from dashboard.fleet import Difference, Pool, Replica, State
from dashboard.fleet.formatting import first_of
from dashboard.rules.domain import Domain, Router, Store
from dashboard.rules.findings import Finding, Inspection, Severity
from dashboard.rules.subject import FINGERPRINT

MOST_LETTERS = 4  # cohorts named in a table's cell
_TOLD = {State.REPORTED, State.NULL}
# What a finding names that says why not all can share; a version alone leaves it open.
_REASONS = frozenset({*DECIDING_PATHS, FINGERPRINT}) - {VERSION_PATH}
_KINDS = {Verdict.AGREES: "good", Verdict.UNKNOWN: "unknown", Verdict.OFF: "unknown"}


def prefix_sentences(fleet: Fleet) -> dict[str, SharingSentence]:
    """Say of every pool, by name, who can share prefixes."""
    replicas = {replica.id: replica for replica in fleet.replicas}
    return {pool.name: prefix_sentence(fleet, pool, replicas) for pool in fleet.pools}


def prefix_sentence(fleet: Fleet, pool: Pool, replicas: Mapping[str, Replica]) -> SharingSentence:
    """Say of one pool who can share prefixes. `replicas` are those of the fleet, by their ids."""
    return sharing_sentence(pool, pool_sharing(pool, replicas), fleet.documents, replicas)


def severity(sentence: SharingSentence, named: Mapping[str, Severity]) -> str:
    """Say how bad a verdict is: as bad as the worst finding that names one of the settings that decide it.

    Without such a finding a version alone warns, for it may or may not hash differently; the rest only differs.
    """
    if sentence.verdict is not Verdict.DIFFERS:
        return _KINDS[sentence.verdict]
    worst = min(
        (named[path] for path in (*DECIDING_PATHS, FINGERPRINT) if path in named),
        key=lambda each: each.rank,
        default=None,
    )
    return worst or ("info" if sentence.is_certain else "warning")


def is_unshared(sentence: SharingSentence) -> bool:
    """Say whether it is certain that not all replicas can share prefixes."""
    return sentence.verdict is Verdict.DIFFERS and sentence.is_certain


def is_doubtful(sentence: SharingSentence) -> bool:
    """Say whether perhaps not all replicas can share prefixes: only their versions differ, or roots may be random."""
    return not is_unshared(sentence) and (sentence.is_doubted or sentence.verdict is Verdict.DIFFERS)


def suppressed_pools(inspection: Inspection) -> frozenset[str]:
    """Return the pools whose every finding that says why not all can share prefixes is suppressed."""
    return _explained(inspection.suppressed) - _explained(inspection.findings)


def is_needed(domain: Domain | None) -> bool:
    """Say whether anything of a pool uses shared prefixes: a router or a store, also an assumed one."""
    return domain is None or domain.router is not Router.NONE or domain.kv_store is not Store.NONE


def short_words(pool: Pool, sentence: SharingSentence) -> str:
    """Say in a few words whether a pool's replicas differ: `B and C differ from A`."""
    if sentence.verdict is Verdict.UNKNOWN:
        return "probably cannot share" if sentence.is_doubted else _not_known(pool, sentence.not_known)
    if sentence.verdict is not Verdict.DIFFERS:
        return "all can share" if sentence.verdict is Verdict.AGREES else "prefix caching off"
    return _measured(sentence) if sentence.is_measured or sentence.split else _apart(pool, sentence)


def _explained(findings: Iterable[Finding]) -> frozenset[str]:
    """Return the pools of the findings that say why not all can share."""
    return frozenset(chain.from_iterable(each.pools for each in findings if not _REASONS.isdisjoint(each.paths)))


def _measured(sentence: SharingSentence) -> str:
    """Name who does not share within itself, and who not with the cohort that others are held against."""
    split, apart = (first_of(letters, MOST_LETTERS) for letters in (sentence.split, sentence.apart))
    said = []
    if split:
        said.append(f"{split}: equal settings, different hashes")
    if apart:
        said.append(f"{apart} {'differs' if len(sentence.apart) == 1 else 'differ'} from {sentence.base}")
    return "; ".join(said) or "cohorts differ"


def _apart(pool: Pool, sentence: SharingSentence) -> str:
    """Name the cohorts that tell another value than the largest one, of anything that decides."""
    if not sentence.is_certain:
        return "versions differ"
    deciding = [difference for difference in pool.differences if difference.path in PREFIX_PATHS]
    if not deciding:
        return "cohorts differ"
    if all(is_tie(each) for each in deciding):
        return "cohorts differ, no majority"
    first = pool.cohorts[0].letter
    letters = {letter for each in deciding for letter in _against(each, first)}
    apart = [cohort.letter for cohort in pool.cohorts if cohort.letter in letters]
    if not apart:
        return "cohorts differ"
    return f"{first_of(apart, MOST_LETTERS)} {'differs' if len(apart) == 1 else 'differ'} from {first}"


def _against(difference: Difference, letter: str) -> set[str]:
    """Return the cohorts that tell another value than this one; none if it tells nothing itself."""
    sides = [value.cohorts for value in difference.values if value.state in _TOLD]
    return {other for side in sides if letter not in side for other in side} if letter in chain(*sides) else set()


def _not_known(pool: Pool, number: int) -> str:
    if not pool.cohorts:
        return "not known"
    if len(pool.replicas) == 1:
        return "one replica"
    return f"unknown for {number:,}" if 0 < number < len(pool.replicas) else "unknown"
