"""The words of a report that its readers may not know, each explained once."""

from collections.abc import Iterable

from dashboard.report.blocks import Paragraph, Part, Piece, Style
from dashboard.report.glossary import TERMS

REPLICA, POOL, COHORT, LETTERS, REFERENCE = "replica", "pool", "cohort", "A ×14", "reference"
SEVERITY, SUPPRESSED, PREFIXES = "severity", "suppressed", "prefix sharing"
RANK, CAPACITY, BASIS, REQUESTS, OUTLIER = "DP rank", "capacity", "basis", "requests", "outlier"
ALL_TERMS = (
    REPLICA,
    POOL,
    COHORT,
    LETTERS,
    REFERENCE,
    SEVERITY,
    SUPPRESSED,
    PREFIXES,
    RANK,
    CAPACITY,
    BASIS,
    REQUESTS,
    OUTLIER,
)


def glossary(terms: Iterable[str]) -> Part:
    """Return the last part of a report, before its appendices."""
    lines = [(Piece(f"{term[:1].upper()}{term[1:]}. ", Style.STRONG), Piece(TERMS[term])) for term in terms]
    return Part("words", "Words", tuple(map(Paragraph, lines)))
