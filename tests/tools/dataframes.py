"""docs/dataframes.md: the public Python API, and the columns of every frame."""

from pathlib import Path

from dashboard.fleet.frames import FRAMES, Frames
from dashboard.render.rule_markdown import table_cell

PAGE = Path(__file__).parents[2] / "docs" / "dataframes.md"
NOTE = "<!-- Written by `make docs` from dashboard/fleet/frames.py and tests/tools/dataframes.py. -->"
INTRODUCTION = """\
# Dataframes

A polled fleet as pandas dataframes, for notebooks and scripts. Pages, reports and CSV files are made from the same
frames.

```python
from dashboard import poll_fleet

fleet = poll_fleet(["http://h1:8000", "http://h2:8000"])
engines = fleet.frames.engines
print(engines[["replica", "dp_rank", "kv_cache_size_tokens", "basis"]])
print(engines[engines["adds"]].groupby("pool")["kv_cache_size_tokens"].sum(min_count=1))
```

Run it in the checkout of this repository with `PYTHONPATH=. .venv/bin/python FILE`, or install
[the package](deployment.md#install) with its extra `dashboard`.

- `poll_fleet(targets, config=None, traffic_seconds=None)` polls as [`poll`](command-line.md#poll) does. Without targets
  those of `fleet.yaml` are polled, whose credentials, pools and rules count in any case. An unreachable replica is a
  row with the state `down`; wrong options and a fleet without targets raise `dashboard.errors.OptionsError`.
- `load_fleet(file)` loads what `poll --format json --full` wrote, or an exported snapshot; a file that is unreadable
  or has no fleet raises `dashboard.errors.SnapshotError`.
- `compare_fleets(before, after)` returns [what changed](#changes-between-two-fleets).

A fleet is immutable, and its frames are shared: change a copy only. A frame is built when it is first read. `replica`,
`pool` and `cohort` are the same in every frame, `document` joins `replicas` and `settings`. A column ends in its unit,
such as `_bytes`; times are UTC; a missing value is NA, never 0.

## Hit rates

Counters of use are differences of two reads. With `traffic_seconds` every replica is polled twice with that time in
between; the frame `traffic` has what they rose by. Add them up before you divide: an average of rates is no rate.

```python
from dashboard import poll_fleet

fleet = poll_fleet(["http://h1:8000", "http://h2:8000"], traffic_seconds=60)
traffic = fleet.frames.traffic
sums = traffic[traffic["counts"]].groupby(["pool", "cohort"])[["hits", "queries"]].sum(min_count=1)
print(sums["hits"] / sums["queries"])
print(traffic[["replica", "dp_rank", "prefix_hit_rate", "missing"]].to_string())
```

## Changes between two fleets

`compare_fleets` returns dataclasses with tuples, not dataframes. Their fields are in
`dashboard/analysis/changes/models.py`.

```python
from dashboard import compare_fleets, load_fleet

changes = compare_fleets(load_fleet("monday.json"), load_fleet("tuesday.json"))
print("added:", [replica.name for replica in changes.replicas.added])
for group in changes.settings.groups:  # replicas of one pool with the same changes
    for change in group.changes:
        print(change.path, change.before.value, change.after.value, group.replicas)
for rank in changes.capacity.ranks:  # DP ranks with more or fewer tokens of KV cache
    print(rank.replica, rank.dp_rank, rank.before, rank.after)
for new in changes.findings.new:  # and .fixed
    print(new.finding.severity, new.finding.sentence)
```
"""


def page_text() -> str:
    """Return the page as it is committed."""
    parts = [NOTE, INTRODUCTION]
    for name, columns in FRAMES.items():
        rows = [f"| `{column}` | {dtype} | {table_cell(text)} |" for column, (dtype, text) in columns.items()]
        head = f"## {name}\n\n{getattr(Frames, name).__doc__}\n\n| column | dtype | content |\n| --- | --- | --- |"
        parts.append("\n".join([head, *rows]) + "\n")
    return "\n".join(parts)
