"""Prefix sharing of pools: severity, verdict in a few words, groups of cohorts; and the order of pools by urgency."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Share, SharingVerdict
from dashboard.compare.encoding import is_comparable
from dashboard.compare.prefix import VERSION_PATH
from dashboard.compare.sharing import DECIDING_PATHS
from dashboard.fleet import Difference, Pool, Replica, ReplicaState
from dashboard.fleet.formatting import MOST, SOME, count, shortlist
from dashboard.rules.domain import Domain, Router, Store
from dashboard.rules.findings import Finding, Inspection, Severity
from dashboard.rules.subject import FINGERPRINT

MOST_GROUPS = 8  # lines of the list of groups; the rest is counted
MOST_VERSIONS = 2  # versions that are named; of more, the lowest and the highest
SHARE_WORDS = {Share.YES: "yes", Share.NO: "no", Share.PARTLY: "partly", Share.UNKNOWN: "unknown"}
SPLIT = {Share.NO, Share.PARTLY}
ABOUT = "For identical prompts without LoRA, multimodal input or cache salt."
# Paths of findings that say why not all replicas share; a version alone leaves it open.
_REASONS = frozenset({*DECIDING_PATHS, FINGERPRINT}) - {VERSION_PATH}


def severity(verdict: SharingVerdict, named: Mapping[str, Severity]) -> str:
    """Return the severity of a verdict: that of the worst finding on a setting that decides it.

    Without such a finding a different version alone is a warning: it may or may not hash differently.
    """
    if not verdict.is_split:
        return "good" if verdict.share is Share.YES else "unknown"
    worst = min(
        (named[path] for path in (*DECIDING_PATHS, FINGERPRINT) if path in named),
        key=lambda each: each.rank,
        default=None,
    )
    return worst or ("info" if verdict.is_certain else "warning")


def is_doubtful(verdict: SharingVerdict) -> bool:
    """Return whether sharing is doubtful: only versions differ, or hash seeds may be random."""
    return not verdict.is_certain and (verdict.is_doubted or verdict.is_split)


def suppressed_pools(inspection: Inspection) -> frozenset[str]:
    """Return the pools whose findings on prefix sharing are all suppressed."""
    return _explained(inspection.suppressed) - _explained(inspection.findings)


def is_needed(domain: Domain | None) -> bool:
    """Return whether a router or a store uses shared prefixes of a pool, also an assumed one."""
    return domain is None or domain.router is not Router.NONE or domain.kv_store is not Store.NONE


def short_text(verdict: SharingVerdict) -> str:
    """Write the verdict for a table's cell: `B and C differ from A`."""
    if verdict.is_off:
        return "prefix caching off"
    if verdict.share is Share.YES:
        return "shared"
    if not verdict.is_split:
        return "probably not shared" if verdict.is_doubted else _unknown(verdict)
    if not verdict.is_certain:
        return "versions differ"
    split = [f"{shortlist(verdict.split, SOME)}: hashes differ within"] if verdict.split else []
    return "; ".join([*split, *_differing(verdict)]) or "cohorts differ"


def group_lines(verdict: SharingVerdict) -> list[str]:
    """List the cohorts that hash alike, the group with the largest cohort first, and the exceptions."""
    groups = [shortlist(letters, MOST) for letters in verdict.groups if len(letters) > 1]
    lines = [f"{group} hash alike" for group in groups[:MOST_GROUPS]]
    if (more := len(groups) - MOST_GROUPS) > 0:
        lines.append(f"{count(more, 'more group')} of cohorts that hash alike")
    return [*lines, *_exceptions(verdict)]


def _exceptions(verdict: SharingVerdict) -> Iterator[str]:
    alone = [letters[0] for letters in verdict.groups if len(letters) == 1]
    split = [each.letter for each in verdict.cohorts if verdict.cell(each, each).share in SPLIT]
    silent = [each.letter for each in verdict.cohorts if not each.is_reporting]
    partly = [each.letter for each in verdict.cohorts if each.silent and each.is_reporting and each.letter not in split]
    if alone:
        yield f"{shortlist(alone, MOST)} {'shares' if len(alone) == 1 else 'share'} with no other whole cohort"
    if split:
        yield f"not all replicas of {shortlist(split, MOST)} share with each other"
    if silent and len(silent) < len(verdict.cohorts):
        yield f"block hashes of {shortlist(silent, MOST)} are not reported"
    if partly:
        yield f"block hashes of {shortlist(partly, MOST)} are not reported by all replicas"


def _explained(findings: Iterable[Finding]) -> frozenset[str]:
    return frozenset(chain.from_iterable(each.pools for each in findings if not _REASONS.isdisjoint(each.paths)))


def _differing(verdict: SharingVerdict) -> list[str]:
    """Name the cohorts that do not share with the one that others are compared with."""
    deciding = [each for each in verdict.pool.differences if each.path in DECIDING_PATHS]
    if deciding and not verdict.is_measured and all(map(_is_tie, deciding)):
        return ["cohorts differ, no majority"]
    base = verdict.base
    others = [each for each in verdict.cohorts if each is not base and each.letter not in verdict.split]
    apart = [each.letter for each in others if verdict.cell(base, each).share is Share.NO]
    verb = "differs" if len(apart) == 1 else "differ"
    return [f"{shortlist(apart, SOME)} {verb} from {base.letter}"] if apart else []


def _is_tie(difference: Difference) -> bool:
    counts = sorted(value.count for value in difference.values if is_comparable(value.state))
    return len(counts) > 1 and counts[-1] == counts[-2]


def _unknown(verdict: SharingVerdict) -> str:
    total = len(verdict.pool.replicas)
    if len(verdict.cohorts) and total == 1:
        return "one replica"
    return f"unknown for {verdict.not_known:,}" if 0 < verdict.not_known < total else "unknown"


def pools_by_urgency(fleet: Fleet) -> list[Pool]:
    """Sort pools by urgency: findings, prefixes not shared, number of cohorts, replicas down, size."""
    domains = fleet.inspection.domains
    down = {replica.pool for replica in fleet.replicas if replica.state is ReplicaState.DOWN}

    def urgency(pool: Pool) -> tuple[object, ...]:
        tally = fleet.inspection.tallies[pool.name]
        agrees = not fleet.sharing[pool.name].is_split or not is_needed(domains.get(pool.name))
        wrong = (-tally.critical, -tally.warning, agrees, -max(len(pool.cohorts), 1), pool.name not in down)
        return (*wrong, -len(pool.replicas), pool.name)

    return sorted(fleet.pools, key=urgency)


def versions_text(members: Iterable[Replica]) -> str:
    """Write the versions of some replicas, the lowest first: `0.31.0 → 0.32.0`; empty if none is known."""
    versions = sorted({replica.version for replica in members if replica.version}, key=_version_key)
    return " → ".join(versions if len(versions) <= MOST_VERSIONS else [versions[0], "…", versions[-1]])


def _version_key(version: str) -> list[tuple[bool, int, str]]:
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in version.split(".")]
