"""The comparison of pools of one name across clusters."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.pieces import Kind, Link, to_plain
from dashboard.render.tabular import matrix_csv
from dashboard.views.across import BETWEEN, WITHIN, across_report, cluster_pools, clusters_section, clusters_table
from dashboard.views.blocks import DifferenceTable, Entries, Paragraph
from dashboard.views.pool_comparison import SettingChoice
from tests.e2e.frozen_fleets import CLUSTERS, STORY, frozen

ODD = "ap: vLLM version 0.32.0 (eu and us: 0.32.1), block_size 32 (16), hash_block_size 32 (16) and 2 more settings"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return frozen(CLUSTERS)


def tables(fleet: Fleet, **choices: object) -> dict[str, DifferenceTable]:
    view = across_report(fleet, "chat-70b", **choices)  # type: ignore[arg-type]
    return {part.anchor: block for part in view.parts for block in part.blocks if isinstance(block, DifferenceTable)}


def marked(table: DifferenceTable, path: str) -> list[str]:
    row = next(each for each in table.matrix.rows if each.path == path)
    return [
        column.title for column, cell in zip(table.matrix.columns, row.cells, strict=True) if cell.state == "differs"
    ]


def test_overview_names_the_cluster_that_differs_and_links_to_the_comparison(fleet: Fleet) -> None:
    (section,) = clusters_section(fleet)
    (entries,) = section.blocks
    assert isinstance(entries, Entries)
    (entry,) = entries.items
    assert (to_plain(entry.head), [to_plain(each) for each in entry.lines]) == ("chat-70b", [ODD])
    assert entry.head[0].link == Link(Kind.PAGE, "compare", choices=(("pool", "chat-70b"), ("across", "cluster")))


def test_pools_that_differ_alike_are_one_entry(fleet: Fleet) -> None:
    copies = [replace(each, name=each.name.replace("chat", "code")) for each in fleet.pools]
    (section,) = clusters_section(replace(fleet, pools=(*fleet.pools, *copies)))
    (entries,) = section.blocks
    assert isinstance(entries, Entries)
    (entry,) = entries.items
    assert to_plain(entry.head) == "chat-70b and code-70b"
    assert [piece.link.choices[0] for piece in entry.head if piece.link] == [("pool", "chat-70b"), ("pool", "code-70b")]


def test_the_share_of_prompts_of_a_cohort_is_that_in_its_own_cluster(fleet: Fleet) -> None:
    shares = dict(tables(fleet)[BETWEEN].measures)["Share of prompts"]
    assert {key: cell.text for key, cell in shares.items()} == {
        "ap/chat-70b A": "100%",
        "eu/chat-70b A": "74%",
        "eu/chat-70b B": "26%",
        "us/chat-70b A": "100%",
    }


def test_a_fleet_without_clusters_has_no_such_section() -> None:
    assert clusters_section(frozen(STORY)) == ()


def test_equal_clusters_have_no_such_section(fleet: Fleet) -> None:
    us = [each for each in fleet.pools if each.cluster == "us"]
    assert clusters_section(replace(fleet, pools=(us[0], replace(us[0], name="xx/chat-70b", cluster="xx")))) == ()


def test_a_column_is_a_cohort_of_a_cluster_and_settings_between_clusters_are_first(fleet: Fleet) -> None:
    found = tables(fleet)
    heads = ["ap A ×4", "eu A ×3", "eu B ×1", "us A ×4"]
    assert {anchor: [each.title for each in table.matrix.columns] for anchor, table in found.items()} == {
        BETWEEN: heads,
        WITHIN: heads,
    }
    assert [each.path for each in found[BETWEEN].matrix.rows][:2] == ["version", "cache_config.block_size"]
    assert marked(found[BETWEEN], "version") == marked(found[BETWEEN], "cache_config.block_size") == ["ap A ×4"]
    assert marked(found[WITHIN], "cache_config.prefix_caching_hash_algo") == ["eu B ×1"]


def test_a_cluster_can_be_the_reference(fleet: Fleet) -> None:
    table = tables(fleet, reference="ap")[BETWEEN]
    assert marked(table, "version") == ["eu A ×3", "eu B ×1", "us A ×4"]
    assert marked(tables(fleet, reference="none")[BETWEEN], "version") == ["ap A ×4"]


def test_the_csv_has_the_names_of_clusters_and_cohorts(fleet: Fleet) -> None:
    lines = matrix_csv(tables(fleet)[BETWEEN]).splitlines()
    assert lines[0] == "path,ap A ×4,eu A ×3,eu B ×1,us A ×4"
    assert "version,0.32.0,0.32.1,0.32.1,0.32.1" in lines


def test_a_search_that_hides_all_says_so(fleet: Fleet) -> None:
    view = across_report(fleet, "eu/chat-70b", SettingChoice(search="nothing-like-it"))
    texts = [to_plain(block.line) for part in view.parts for block in part.blocks if isinstance(block, Paragraph)]
    assert any("nothing-like-it" in each for each in texts)


def test_a_pool_is_found_by_its_name_and_by_its_key(fleet: Fleet) -> None:
    names = ["ap/chat-70b", "eu/chat-70b", "us/chat-70b"]
    assert [each.name for each in cluster_pools(fleet, "chat-70b")] == names
    assert [each.name for each in cluster_pools(fleet, "eu/chat-70b")] == names
    assert cluster_pools(fleet, "chat") == ()


def test_a_row_of_the_clusters_opens_one_and_has_its_share_of_the_plan(fleet: Fleet) -> None:
    table = clusters_table(fleet)
    rows = {
        row[0].text: {head.title: cell.text for head, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    }

    assert list(rows) == ["ap", "eu", "us"]
    assert table.rows[0][0].link == Link(Kind.PAGE, "", choices=(("cluster", "ap"),))
    assert (rows["ap"]["vLLM"], rows["us"]["vLLM"]) == ("0.32.0", "0.32.1")
    assert rows["eu"]["Replicas"] == "4"
    assert "1 to restart" in rows["eu"]["Fix plan"]
    assert "critical" in rows["eu"]["Findings"]
    assert rows["us"]["Prefix sharing"] == "all 4 share"
    assert rows["us"]["KV tokens"] != "unknown"
