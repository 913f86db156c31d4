"""Compares the replicas of one pool: cohorts, differences, the matrix, and prefix sharing."""

from dashboard.compare.columns import MatrixColumn
from dashboard.compare.conditions import Share
from dashboard.compare.hashes import hash_row
from dashboard.compare.matrix import CellState, Matrices, Matrix, MatrixCell, MatrixRow, build_matrix
from dashboard.compare.pool import Member, ValueHolders, compare_pool, group_by_value
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.compare.reference import BASELINE, MAJORITY, Reference, ReferenceKind, parse_reference
from dashboard.compare.sharing import SharingCell, SharingVerdict, sharing_verdict
from dashboard.compare.sharing_text import cause_text, sharing_text

__all__ = [
    "BASELINE",
    "MAJORITY",
    "PREFIX_PATHS",
    "CellState",
    "Matrices",
    "Matrix",
    "MatrixCell",
    "MatrixColumn",
    "MatrixRow",
    "Member",
    "Reference",
    "ReferenceKind",
    "Share",
    "SharingCell",
    "SharingVerdict",
    "ValueHolders",
    "build_matrix",
    "cause_text",
    "compare_pool",
    "group_by_value",
    "hash_row",
    "parse_reference",
    "sharing_text",
    "sharing_verdict",
]
