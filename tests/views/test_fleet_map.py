"""The map: a cell for each replica by its worst finding, rows of pools or of clusters, and its form as a table."""

from dataclasses import replace

import pytest

from dashboard.fleet.pieces import Kind, Link
from dashboard.views import overview
from dashboard.views.blocks import FleetMap, MapCell, Tone
from dashboard.views.overview import fleet_map
from tests.builders import SAME_KV, alike, document, fleet, hashing, replica, story
from tests.frozen import frozen_fleet

SAME = document(SAME_KV)


def cells_of(shown: FleetMap) -> list[MapCell]:
    """All cells of a map, in their order."""
    return [cell for row in shown.rows for group in row.groups for cell in group]


def test_every_replica_has_one_cell_with_the_tone_of_its_worst_active_finding() -> None:
    known = story()
    shown = cells_of(fleet_map(known, known.pools))
    found = {key: each for each in reversed(known.inspection.findings) for key in each.replicas}
    names = {each.name: each for each in known.replicas}

    assert sorted(cell.name for cell in shown) == sorted(names)
    for cell in shown:
        own = names[cell.name]
        assert cell.link == Link(Kind.REPLICA, own.id)
        if own.document is None:
            assert cell.kind == Tone.UNKNOWN
        else:
            severities = [each.severity for each in known.inspection.findings if own.id in each.replicas]
            worst = min(severities, key=lambda each: each.rank, default=None)
            assert cell.kind == (Tone(worst) if worst else Tone.PLAIN)
            assert (own.id in found) == (worst is not None)


def test_a_cell_tells_its_replica_its_severity_and_the_settings_that_differ() -> None:
    known = frozen_fleet()
    hints = {cell.name: cell.hint for cell in cells_of(fleet_map(known, known.pools))}

    assert hints["chat-70b-01"] == "chat-70b-01 · no findings · cohort A"
    assert hints["chat-70b-04"] == "chat-70b-04 · critical · cohort B: block_size 32"
    assert sum(hint.endswith("no data") for hint in hints.values()) == 3


def test_a_row_is_a_pool_and_says_how_many_replicas_share() -> None:
    known = frozen_fleet()
    rows = {row.title: row.number for row in fleet_map(known, known.pools).rows}

    assert rows["chat-70b"] == "14 of 16 share"
    assert rows["deepseek-v3/prefill"] == "not needed"
    assert rows["qwen3-8b"] == "unknown for 6"


def test_with_clusters_a_row_is_a_cluster_and_a_column_a_pool_of_each() -> None:
    members = [
        replace(each, labels={"cluster": cluster})
        for cluster in ("c10", "c2")
        for name, number in (("chat", 2), ("code", 3))
        for each in alike(f"{cluster}/{name}", number, SAME, engines=hashing("one"))
        if (cluster, name) != ("c10", "code")
    ]
    known = fleet(members, [SAME])
    shown = fleet_map(known, known.pools)

    assert shown.columns == ("chat", "code")
    sizes = [(row.title, [len(group) for group in row.groups]) for row in shown.rows]
    assert sizes == [("c2", [2, 3]), ("c10", [2, 0])]
    assert [row.number for row in shown.rows] == ["all 5 share", "all 2 share"]


def test_of_very_many_replicas_in_clusters_a_cell_has_the_number_of_a_kind_of_a_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines = hashing("one")
    members = [*alike("eu/chat", 3, SAME, engines=engines), *alike("us/chat", 2, SAME, engines=engines)]
    members.append(replica("lost", pool=None))
    known = fleet([replace(each, labels={"cluster": str(each.pool)[:2]}) for each in members], [SAME])
    whole = fleet_map(known, known.pools)
    monkeypatch.setattr(overview, "MOST_CELLS", 5)
    shown = fleet_map(known, known.pools)

    assert [(cell.mark, cell.hint, cell.link.key) for row in shown.rows for cell in row.groups[0]] == [
        ("3", "eu/chat · 3 replicas: warning", "eu/chat"),
        ("2", "us/chat · 2 replicas: warning", "us/chat"),
        ("1", "no pool · 1 replica: no data", "replicas"),
    ]
    assert (whole.look, shown.look, shown.data) == ("", "summed", whole.data)


def test_replicas_without_a_pool_have_a_row_of_their_own() -> None:
    known = fleet([*alike("calm", 2, SAME, engines=hashing("one")), replica("lost", pool=None)], [SAME])
    *_, last = fleet_map(known, known.pools).rows

    assert (last.title, [cell.name for cell in last.groups[0]]) == ("no pool", ["lost"])


def test_a_single_replica_and_a_pool_without_answers_are_not_counted() -> None:
    known = fleet([*alike("one", 1, SAME, engines=hashing("one")), replica("gone-1", pool="gone")], [SAME])

    assert {row.title: row.number for row in fleet_map(known, known.pools).rows}["one"] == "one replica"


def test_as_a_table_it_has_the_same_replicas() -> None:
    known = story()
    shown = fleet_map(known, known.pools)
    numbers = [cell.value for row in shown.data.rows for cell in row if isinstance(cell.value, int)]

    assert sum(numbers) == len(known.replicas)
    assert [row[0].text for row in shown.data.rows] == [row.title for row in shown.rows]
