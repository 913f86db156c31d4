"""The dataframe of replicas, which the table and the CSV of replicas are made of."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from dashboard.fleet import Pool, Replica, cohort_letters
from dashboard.fleet.formatting import STALE_TARGET

TEXT, TIME, OBJECT = "string", "datetime64[ns, UTC]", "object"
REPLICAS = {
    "replica": TEXT,  # the id: scheme://host:port
    "name": TEXT,
    "labels": OBJECT,  # dict of str to str
    "pool": TEXT,
    "role": TEXT,
    "state": TEXT,
    "reason": TEXT,  # "kind: sentence"
    "version": TEXT,  # of vLLM
    "started_at": TIME,
    "observed_at": TIME,
    "document": TEXT,  # id
    "cohort": TEXT,  # letter
    "sources": OBJECT,  # list of str
}


def replicas_frame(replicas: Sequence[Replica], pools: Iterable[Pool]) -> pd.DataFrame:
    """Return one row per replica, in the order given, with the columns and types of REPLICAS."""
    letters = cohort_letters(pools)
    rows = [_row(replica, letters.get(replica.id)) for replica in replicas]
    columns = zip(*rows, strict=True) if rows else ([] for _ in REPLICAS)
    return pd.DataFrame(
        {name: _series([*values], dtype) for (name, dtype), values in zip(REPLICAS.items(), columns, strict=True)}
    )


def _series(values: list[Any], dtype: str) -> "pd.Series[Any]":
    if dtype == TIME:
        return pd.Series(pd.DatetimeIndex(pd.to_datetime(values, utc=True)).as_unit("ns"))
    return pd.Series(values, dtype=dtype)


def _row(replica: Replica, cohort: str | None) -> tuple[Any, ...]:
    failure = replica.failure
    reasons = [f"{failure.kind}: {failure.detail}"] if failure else []
    reasons += [f"stale target: {STALE_TARGET}"] if replica.target_stale else []
    return (
        replica.id,
        replica.name,
        dict(replica.labels),
        replica.pool,
        str(replica.role),
        str(replica.state),
        " ".join(reasons) or None,
        replica.version,
        replica.started_at,
        replica.observed_at,
        replica.document,
        cohort,
        [str(source) for source in replica.sources],
    )
