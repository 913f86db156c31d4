"""Compares the replicas of one pool: cohorts, differences, the matrix, and prefix sharing."""

from dashboard.compare.columns import BASELINE, MAJORITY, MatrixColumn, Reference, ReferenceKind, parse_reference
from dashboard.compare.conditions import Share
from dashboard.compare.hashes import hash_row
from dashboard.compare.holders import Holders, holders
from dashboard.compare.matrix import CellState, Matrix, MatrixCell, MatrixRow, lay_out
from dashboard.compare.pool import compare_pool
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.compare.sharing import SharingCell, SharingVerdict, sharing_verdict
from dashboard.compare.sharing_text import cause_text, sharing_text

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
    "SharingVerdict",
    "cause_text",
    "compare_pool",
    "hash_row",
    "holders",
    "lay_out",
    "parse_reference",
    "sharing_text",
    "sharing_verdict",
]
