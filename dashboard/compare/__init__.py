"""Compares the replicas of one pool: cohorts, differences, the matrix, and prefix sharing."""

from dashboard.compare.columns import BASELINE as BASELINE
from dashboard.compare.columns import MAJORITY as MAJORITY
from dashboard.compare.columns import MatrixColumn as MatrixColumn
from dashboard.compare.columns import Reference as Reference
from dashboard.compare.columns import ReferenceKind as ReferenceKind
from dashboard.compare.columns import parse_reference as parse_reference
from dashboard.compare.hashes import Share as Share
from dashboard.compare.hashes import SharingCell as SharingCell
from dashboard.compare.holders import holders as holders
from dashboard.compare.matrix import Matrix as Matrix
from dashboard.compare.matrix import MatrixRow as MatrixRow
from dashboard.compare.matrix import hash_row as hash_row
from dashboard.compare.matrix import lay_out as lay_out
from dashboard.compare.pool import compare_pool as compare_pool
from dashboard.compare.prefix import PREFIX_PATHS as PREFIX_PATHS
from dashboard.compare.sharing import SharingVerdict as SharingVerdict
from dashboard.compare.sharing import sharing_verdict as sharing_verdict
from dashboard.compare.sharing_counts import SharingCounts as SharingCounts
from dashboard.compare.sharing_counts import count_sharing as count_sharing
from dashboard.compare.sharing_counts import sum_counts as sum_counts
