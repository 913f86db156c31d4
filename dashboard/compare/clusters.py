"""How pools of one name differ between clusters, by the value that most replicas of each cluster have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.compare.columns import MAJORITY, MatrixColumn, cohort_columns, reference_values
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Document, Pool, SettingChange, SettingValue
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.fleet.grouping import grouped

LONGEST_NAME = 40  # characters: it is foreign
NO_CLUSTER = "no cluster"  # of replicas without the label


def cluster_name(cluster: str) -> str:
    return middle_cut(one_line(cluster), LONGEST_NAME) or NO_CLUSTER


def prefix_order(path: str) -> int:
    """Return the place of a setting among those that decide prefix sharing; all others are behind them."""
    return PREFIX_PATHS.index(path) if path in PREFIX_PATHS else len(PREFIX_PATHS)


class ClusterSplit(NamedTuple):
    """Clusters with the same values, which differ from those of the `others`: `after` is theirs, `before` the others'.

    `others` are the clusters with the most frequent value; the rest has further values, or none.
    """

    clusters: tuple[str, ...]
    others: tuple[str, ...]
    settings: tuple[SettingChange, ...]


def cluster_splits(whole: Pool, pools: Sequence[Pool]) -> tuple[ClusterSplit, ...]:
    """Return on what clusters differ: settings that decide prefix sharing first, then as `whole` orders differences.

    `whole` has all replicas of the pools as one. A cluster has the value of all or most of its replicas; on a tie none.
    """
    known = {pool.cluster: reference_values(pool, MAJORITY, None) for pool in pools}
    sizes = {pool.cluster: len(pool.replicas) for pool in pools}

    def weight(item: tuple[SettingValue, Sequence[str]]) -> tuple[object, ...]:
        value, clusters = item
        return -len(clusters), -sum(sizes[each] for each in clusters), value

    splits: dict[tuple[tuple[str, ...], tuple[str, ...]], list[SettingChange]] = {}
    for path in sorted((each.path for each in whole.differences), key=prefix_order):
        own = ((values[path], cluster) for cluster, values in known.items() if path in values)
        order = sorted(grouped(own).items(), key=weight)
        for value, clusters in order[1:]:
            most, others = order[0]
            splits.setdefault((tuple(clusters), tuple(others)), []).append(SettingChange(path, most, value))
    return tuple(ClusterSplit(*both, tuple(changes)) for both, changes in splits.items())


def cluster_columns(pools: Sequence[Pool], documents: Mapping[str, Document]) -> tuple[MatrixColumn, ...]:
    """Return a column for each cohort of each pool; its key is the pool's key and the letter, with a blank between."""
    return tuple(
        replace(
            column,
            key=f"{pool.name} {column.key}",
            title=f"{cluster_name(pool.cluster)} {column.key} ×{column.count:,}",
        )
        for pool in pools
        for column in cohort_columns(pool, documents)
    )
