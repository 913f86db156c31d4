"""The terms of pages and exports, each in one sentence, for tooltips and for the end of an export."""

from collections.abc import Iterable, Mapping

from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet.pieces import Piece, Style
from dashboard.views.blocks import Paragraph, Section

TERMS: Mapping[str, str] = {
    "replica": "One vLLM API server behind one address.",
    "pool": "A group of interchangeable replicas: the same model in the same role.",
    "cohort": "Replicas of a pool with identical settings; A is the largest.",
    "reference": "What a pool is compared with: its majority, a cohort, a replica or a baseline.",
    "majority": "The value of more than half of at least three replicas.",
    "baseline": "The agreed settings of a pool, in a YAML file.",
    "setting": "One value of a replica's configuration, under vLLM's name for it.",
    "finding": "A difference or a value with an impact, and how to fix it.",
    "block size": "Tokens that are hashed and cached as one block; replicas with different sizes share no prefixes.",
    "hash algorithm": "How vLLM computes the key of a block from its tokens; with another one equal tokens have other "
    "keys.",
    "prefix sharing": "Whether identical prompts hit the cache on every replica of the pool.",
    "DP rank": "One data-parallel engine of a replica, with its own KV cache.",
    "KV cache group": "Layers of a model with the same kind of KV cache; a hybrid model has several groups.",
    "capacity": "Tokens of KV cache of an engine, or the requests of one length that fit at a time.",
    "basis": "Source of a capacity: reported by vLLM, derived by its formula, assumed (an upper bound), or unknown.",
    "naive tokens": "Blocks × block size: right for uniform models, too much for hybrids.",
    "coverage": "How many of the polled replicas answered, in full or in part.",
    "snapshot": "A permanent copy of the fleet at one time, with an id.",
    "suppressed": "A finding that an owner has accepted until a date; counted separately.",
    "rollout": "One version of a pool replacing another.",
    "A ×14": "The 14 replicas of cohort A; a pool with one cohort is uniform, one with several is split.",
    "severity": "Critical breaks something now, a warning costs something or soon will, info is worth knowing.",
    "requests": "How many requests of the length in the heading fit into the KV cache of a rank at the same time.",
    "outlier": f"A DP rank with over {TOLERANCE * 100:.0f} % less or more KV cache than the median of its pool and "
    "kind of device.",
    "reported": "A value that vLLM reports.",
    "derived": "A value computed by vLLM's formula from reported ones.",
    "assumed": "An upper bound: a part of the formula is not reported.",
    "unknown": "Not reported and not computable; never taken for zero.",
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
    """Return terms with their explanations, for exports."""
    lines = [(Piece(f"{term[:1].upper()}{term[1:]}. ", Style.STRONG), Piece(TERMS[term])) for term in terms]
    return Section("words", "Glossary", tuple(map(Paragraph, lines)), is_exported_only=True)
