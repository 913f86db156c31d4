"""The terms of pages and reports, each in one sentence: tooltips and the end of a report use the same."""

from collections.abc import Iterable, Mapping

from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.pieces import Piece, Style
from dashboard.views.blocks import Paragraph, Section

TERMS: Mapping[str, str] = {
    "replica": "One vLLM API server behind one address.",
    "pool": "Replicas that are meant to be interchangeable: the same model, in the same role.",
    "cohort": "Replicas of a pool that say the same wherever they say something; A is the largest.",
    "reference": "What a pool is compared with: its majority, a cohort, a replica or a baseline.",
    "majority": "What more than half of at least three replicas say.",
    "baseline": "What people agreed that a pool should look like, in a YAML file.",
    "setting": "One value of a replica's configuration, under vLLM's own name for it.",
    "finding": "A difference or a value that breaks something, with what to do about it.",
    "block size": "How many tokens are hashed and cached as one block; replicas with another one share no prefixes.",
    "hash algorithm": "How vLLM names a block by its tokens; with another one the same tokens have another name.",
    "prefix sharing": "Whether equal prompts hit the cache on whichever replica they meet.",
    "DP rank": "One data-parallel engine of a replica, with a KV cache of its own.",
    "KV cache group": "Layers of a model that keep their KV cache alike; a hybrid model has several.",
    "capacity": "How many tokens of KV cache an engine holds, or how many requests of one length at a time.",
    "basis": "Where a capacity number comes from: reported by vLLM, derived by its formula, assumed (at most), or "
    "unknown.",
    "naive tokens": "Blocks times block size: right for uniform models, too much for hybrids.",
    "coverage": "How many of the replicas that were asked answered, in full or in part.",
    "snapshot": "A permanent copy of the fleet at one time, with an id.",
    "suppressed": "A finding that somebody answers for until a day; it is counted apart.",
    "rollout": "One version of a pool replacing another.",
    "A ×14": "The 14 replicas of cohort A; a pool with one cohort is uniform, one with several is split.",
    "severity": "Critical breaks something now, a warning costs something or soon will, info is worth knowing.",
    "requests": "How many requests of the length in the heading a rank holds in its KV cache at the same time.",
    "outlier": f"A DP rank with over {TOLERANCE * 100:.0f} % less or more KV cache than the median of its pool and "
    "kind of device.",
    "reported": "Said by vLLM itself.",
    "derived": "Worked out by vLLM's own formula from what it reports.",
    "assumed": "At most this: a part of the formula is not told.",
    "unknown": "Not told, and not to be worked out; it is never taken for zero.",
}
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


def glossary(terms: Iterable[str]) -> Section:
    """Return the last part of a report, before its appendices."""
    lines = [(Piece(f"{term[:1].upper()}{term[1:]}. ", Style.STRONG), Piece(TERMS[term])) for term in terms]
    return Section("words", "Words", tuple(map(Paragraph, lines)), is_exported_only=True)
