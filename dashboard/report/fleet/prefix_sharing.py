"""Who of a pool can share prefixes, as a part of the fleet document."""

from collections.abc import Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.compare import Share, Verdict, pool_sharing, sharing_sentence
from dashboard.fleet import Pool, Replica
from dashboard.report.parts import Many, Part
from dashboard.rules.findings import Confidence


class SharingCellPart(Part):
    """A cohort and another one, or itself: whether equal tokens get equal block hashes on all replicas of both.

    `confidence`: reported where engines told their fingerprints, derived where only settings tell. `not_known` is how
    many replicas do not tell.
    """

    cohorts: tuple[str, str]
    share: Share
    confidence: Confidence
    reason: str
    not_known: int


class PrefixSharingPart(Part):
    """Whether the replicas of a pool can share prefixes; `not_known` do not tell all that decides it.

    `groups` are cohorts that hash alike, by their fingerprints: only those of which all replicas tell. `cells` is empty
    where there are too many cohorts.
    """

    verdict: Verdict
    confidence: Confidence = Confidence.DERIVED  # documents that were saved before it was measured
    sentence: str
    not_known: int
    groups: Many[Many[str]] = ()
    cells: Many[SharingCellPart] = ()


def prefix_sharing(pool: Pool, fleet: Fleet, replicas: Mapping[str, Replica]) -> PrefixSharingPart:
    """Say it of one pool; `replicas` are the fleet's, by id."""
    sharing = pool_sharing(pool, replicas)
    told = sharing_sentence(pool, sharing, fleet.documents, replicas)
    return PrefixSharingPart(
        verdict=told.verdict,
        confidence=_confidence(is_measured=told.is_measured),
        sentence="".join(part.text for part in told.parts),
        not_known=told.not_known,
        groups=sharing.groups,
        cells=tuple(
            SharingCellPart(
                cohorts=(cell.one, cell.other),
                share=cell.share,
                confidence=_confidence(is_measured=cell.is_measured),
                reason=cell.reason,
                not_known=cell.silent,
            )
            for cell in sharing.cells
        ),
    )


def _confidence(*, is_measured: bool) -> Confidence:
    return Confidence.REPORTED if is_measured else Confidence.DERIVED
