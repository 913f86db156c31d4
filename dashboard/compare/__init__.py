"""Compares the replicas of one pool: cohorts, differences, the matrix, and prefix sharing."""

from dashboard.compare.columns import BASELINE, MAJORITY, MatrixColumn, Reference, ReferenceKind, parse_reference
from dashboard.compare.hashes import Share, SharingCell
from dashboard.compare.holders import Holders, holders
from dashboard.compare.matrix import CellState, Matrix, MatrixCell, MatrixRow, hash_row, lay_out
from dashboard.compare.pool import compare_pool
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.compare.sharing import SharingVerdict, sharing_verdict
from dashboard.compare.sharing_counts import SharingCounts, count_sharing, sum_counts

__all__ = [
    "BASELINE",
    "MAJORITY",
    "PREFIX_PATHS",
    "CellState",
    "Holders",
    "Matrix",
    "MatrixCell",
    "MatrixColumn",
    "MatrixRow",
    "Reference",
    "ReferenceKind",
    "Share",
    "SharingCell",
    "SharingCounts",
    "SharingVerdict",
    "compare_pool",
    "count_sharing",
    "hash_row",
    "holders",
    "lay_out",
    "parse_reference",
    "sharing_verdict",
    "sum_counts",
]
