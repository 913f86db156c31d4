"""Findings before and after the restart: fixed, new, or unknown."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.comparison import ENGINES
from dashboard.analysis.changes.models import FindingChanges, OtherSideStatus, PersistingFinding
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Document, Replica
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding
from dashboard.rules.subject import FINGERPRINT

ADAPTERS = "adapters"
# Prefixes of evidence paths: what a running engine measured or loaded is lost with its process.
MEASURED = (ENGINES, "kv_cache_groups", ADAPTERS)
# Evidence that a restart does not change.
STAYING = ("devices", "replicas.")
ROUTE = "/"  # prefix of a route that answered: follows from settings, where these are reported


def known_changes(changes: FindingChanges, before: Fleet, after: Fleet, restarted: Collection[str]) -> FindingChanges:
    """Return the changes of findings as far as they are known before the restart; suppressed ones are left out.

    What a finding of a replica rests on can be lost with its process: the finding is then not evaluated, or the replica
    unread. A finding of which only less is known persists.
    """
    lost = partial(
        _lost_on,
        before={each.id: each for each in before.replicas if each.id in restarted},
        after={each.id: each for each in after.replicas if each.id in restarted},
        documents={**before.documents, **after.documents},
    )
    new = [each for each in changes.new if not each.is_suppressed]
    persisting = [each for each in changes.persisting if not each.is_suppressed_before and not each.is_suppressed_after]
    gone = []
    for each in changes.no_longer_found:
        if each.is_suppressed:
            continue
        same = next((other for other in new if _is_restated(each.finding, other.finding)), None)
        if same is not None:
            new.remove(same)
            left = set(each.finding.replicas) - set(same.finding.replicas)
            persisting.append(PersistingFinding(each.finding, same.finding, left=tuple(sorted(left))))
        else:
            status = OtherSideStatus.NOT_EVALUATED if lost(each.finding) else OtherSideStatus.EVALUATED
            gone.append(replace(each, other_side=status))
    return FindingChanges(
        new=tuple(new),
        no_longer_found=tuple(gone),
        persisting=tuple(
            replace(each, unread=tuple(sorted(lost(each.before).intersection(each.left)))) for each in persisting
        ),
    )


def _is_restated(one: Finding, other: Finding) -> bool:
    """Return whether both are one finding of which less is known: on the same replicas or some of them."""
    rows = [{(each.path, each.value) for each in side.evidence if not each.is_reference} for side in (one, other)]
    is_same_rule = (one.rule, one.subject) == (other.rule, other.subject)
    return is_same_rule and set(other.replicas) <= set(one.replicas) and not rows[0].isdisjoint(rows[1])


def _lost_on(
    finding: Finding, before: Mapping[str, Replica], after: Mapping[str, Replica], documents: Mapping[str, Document]
) -> set[str]:
    """Return the restarted replicas of which some evidence of a finding is not known afterwards.

    Fingerprints count only if the rule needs them.
    """
    paths: dict[str, list[str]] = defaultdict(list)
    for evidence in finding.evidence:
        if evidence.path != FINGERPRINT or FINGERPRINT in BY_ID[finding.rule].needs:
            for replica in before.keys() & evidence.replicas:
                paths[replica].append(evidence.path)
    return {replica for replica, own in paths.items() if _is_lost(own, before[replica], after[replica], documents)}


def _is_lost(paths: Sequence[str], before: Replica, after: Replica, documents: Mapping[str, Document]) -> bool:
    if not {each.path for each in before.contradictions}.isdisjoint(paths):
        return True
    settings = documents[str(after.document)].settings
    others = [path for path in paths if not path.startswith(ROUTE)]
    if len(others) < len(paths) and all(_has_same(each, before, after, documents) for each in others):
        return True  # the route still answers, unless a setting that opens it changed
    for path in others:
        if path == FINGERPRINT or path.startswith(MEASURED):
            if not path.startswith(ENGINES) or _has_other_tokens(before, after):
                return True
        elif not path.startswith(STAYING) and path not in after.identity and lookup_value(settings, path) is None:
            return True
    return False


def _has_same(path: str, before: Replica, after: Replica, documents: Mapping[str, Document]) -> bool:
    sides = (documents[str(each.document)].settings for each in (before, after))
    return len({lookup_value(each, path) for each in sides}) == 1


def _has_other_tokens(before: Replica, after: Replica) -> bool:
    """Return whether the KV cache of a replica may change."""
    return [(each.kv_cache_size_tokens, each.basis) for each in before.engines] != [
        (each.kv_cache_size_tokens, each.basis) for each in after.engines
    ]
