"""How the replicas of one pool differ: cohorts, differences, and what a page shows of them."""

from dashboard.compare.columns import Column
from dashboard.compare.derived_sentence import SharingSentence
from dashboard.compare.hash_row import hash_row
from dashboard.compare.matrix import Cell, CellState, Matrix, Row, build_matrix
from dashboard.compare.pool import Member, compare_pool
from dashboard.compare.prefix import PREFIX_PATHS, Part, PrefixSentence, Verdict, prefix_sentence
from dashboard.compare.reference import BASELINE, MAJORITY, Reference, ReferenceKind, parse_reference, reference_values
from dashboard.compare.sharing import PoolSharing, Share, pool_sharing
from dashboard.compare.sharing_sentence import sharing_sentence
from dashboard.compare.values import ValueHeld, values

__all__ = [
    "BASELINE",
    "MAJORITY",
    "PREFIX_PATHS",
    "Cell",
    "CellState",
    "Column",
    "Matrix",
    "Member",
    "Part",
    "PoolSharing",
    "PrefixSentence",
    "Reference",
    "ReferenceKind",
    "Row",
    "Share",
    "SharingSentence",
    "ValueHeld",
    "Verdict",
    "build_matrix",
    "compare_pool",
    "hash_row",
    "parse_reference",
    "pool_sharing",
    "prefix_sentence",
    "reference_values",
    "sharing_sentence",
    "values",
]
