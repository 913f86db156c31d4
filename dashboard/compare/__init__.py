"""How the replicas of one pool differ: cohorts, differences, and what a page shows of them."""

from dashboard.compare.columns import Column
from dashboard.compare.derived_sentence import SharingSentence
from dashboard.compare.matrix import Cell, CellState, Matrix, Row, build_matrix, hash_row
from dashboard.compare.pool import Member, ValueHolders, compare_pool, group_by_value
from dashboard.compare.prefix import PREFIX_PATHS, Part, PrefixSentence, Verdict, prefix_sentence
from dashboard.compare.reference import BASELINE, MAJORITY, Reference, ReferenceKind, parse_reference, reference_values
from dashboard.compare.sharing import PoolSharing, Share, pool_sharing
from dashboard.compare.sharing_sentence import sharing_sentence

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
    "ValueHolders",
    "Verdict",
    "build_matrix",
    "compare_pool",
    "group_by_value",
    "hash_row",
    "parse_reference",
    "pool_sharing",
    "prefix_sentence",
    "reference_values",
    "sharing_sentence",
]
