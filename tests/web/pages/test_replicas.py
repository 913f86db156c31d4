"""The page Replicas: controls, selection, empty states."""

import re

import pytest

from dashboard.views.blocks import SIGNS
from dashboard.views.replicas import TITLES
from tests.builders import document, fleet, replica, story
from tests.page_runner import address, html, open_page, opened, rerun

TABLE = "replicas_0"  # key of the table


def test_the_table_has_all_replicas_with_state_and_reason() -> None:
    app = open_page(story(), "replicas")
    table = app.dataframe[0].value

    assert "<h1>40 replicas: 1 down and 1 partial</h1>" in html(app)
    assert "40 of 40 replicas shown, 5 pools." in html(app)
    assert table["Differs in"].max() == 5
    assert dict(zip(table["State"], table["Reason"], strict=True))["? down, timeout"] == "No answer within 5 s."
    assert {each[0] for each in table["Findings"] if each} <= set(SIGNS.values())
    assert "Findings: worst severity" in html(app)


def test_a_live_page_shows_ages_and_a_still_one_times() -> None:
    read = open_page(story(), "replicas", screenshot="1").dataframe[0].value["Read"]

    assert read.str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").all()
    assert open_page(story(), "replicas").dataframe[0].value["Read"].str.endswith(" ago").all()


def test_filters_are_in_the_url() -> None:
    app = open_page(story(), "replicas", pool="embed-8b", search="state:partial")
    assert app.dataframe[0].value["Replica"].to_list() == ["embed-8b-10"]
    assert "<h1>10 replicas in embed-8b: 1 partial</h1>" in html(app)
    assert "1 of 10 replicas shown" in html(app)

    app = open_page(story(), "replicas", search="http://gemma 03")
    assert app.dataframe[0].value["Replica"].to_list() == ["gemma-27b-03"]


def test_filters_of_several_values_sort_and_columns_are_in_the_url() -> None:
    app = open_page(story(), "replicas", search="version:0.31.0 cohort:x", sort="-replica", columns="Pool,vLLM")
    shown = app.dataframe[0].value

    assert shown["Replica"].to_list() == [f"embed-8b-{number:02}" for number in (10, 9, 8, 7, 6)]
    assert [each for each in shown if each in TITLES] == ["Replica", "Pool", "vLLM"]
    assert "Ignored “cohort:x”: unknown value." in html(app)

    app.multiselect(key="filter_version").set_value(["0.31.0", "0.32.0"])
    app.multiselect(key="filter_cohort").set_value(["B"])
    app.multiselect(key="columns").set_value([])
    app.selectbox(key="sort").set_value("")
    rerun(app)
    found = [address(app, each) for each in ("search", "sort", "columns")]
    assert found == ["version:0.31.0 version:0.32.0 cohort:B", None, None]
    assert {"State", "Address"} <= set(app.dataframe[0].value)
    assert set(app.dataframe[0].value["Pool"]) == {"chat-70b", "embed-8b"}


def test_a_new_order_or_filter_keeps_the_ticked_replicas() -> None:
    app = open_page(story(), "replicas", pool="gemma-27b")
    app.session_state[TABLE] = {"selection": {"rows": [1], "columns": [], "cells": []}}
    (ticked,) = re.findall(r'"([^"]*replica\?replica=[^"]*)">Open the ticked', html(rerun(app)))

    app.selectbox(key="sort").set_value("-replica")
    assert f'"{ticked}">Open the ticked' in html(rerun(app))
    app.query_params["pool"] = "chat-70b"
    assert "Open the ticked" not in html(rerun(app))


def test_filters_that_match_nothing_can_be_cleared() -> None:
    app = open_page(story(), "replicas", search="unknown")

    assert "No matches for these filters" in html(app)
    assert "40 replicas hidden." in html(app)
    assert 'href="replicas"' in html(app)
    assert not app.dataframe
    assert "Share" in [each.proto.popover.label for each in app.get("popover")]


@pytest.mark.parametrize(
    ("clicked", "rows", "row"),
    [
        (2, [], 2),
        (None, [0], None),
        (2, [0], 2),
        (99, [], None),  # filters removed it
    ],
)
def test_a_clicked_name_opens_the_replica_and_a_tick_opens_nothing(
    clicked: int | None, rows: list[int], row: int | None
) -> None:
    app = open_page(story(), "replicas", pool="gemma-27b")
    app.session_state[TABLE] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    names = app.dataframe[0].value["Replica"]
    if clicked is not None:
        app.session_state[f"{TABLE}_name"] = {"row": clicked, "label": "name"}

    expected = [] if row is None else [f"replica?replica=http%3A%2F%2F{names.iloc[row]}%3A8000&pool=gemma-27b"]
    assert opened(rerun(app)) == expected


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([], ""),
        ([0], "Open the ticked replica"),
        ([0], ">Compare it with a snapshot</a>"),
        ([0, 1], "Compare 2 replicas"),
        (list(range(13)), "13 replicas ticked: at most 12 can be compared."),
        ([99], ""),  # filters removed it
    ],
)
def test_ticked_replicas_can_be_opened_or_compared(rows: list[int], shown: str) -> None:
    app = open_page(story(), "replicas", pool="chat-70b")
    app.session_state[TABLE] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    names = app.dataframe[0].value["Replica"]
    page = html(rerun(app))

    assert (shown in page) if shown else 'class="ticked"' not in page
    if len(rows) == 2:
        ids = "%2C".join(f"http%3A%2F%2F{name}%3A8000" for name in names.iloc[:2])
        assert f'href="compare?replicas={ids}"' in page


def test_the_selection_is_above_the_table_and_can_be_cleared() -> None:
    app = open_page(story(), "replicas", pool="chat-70b")
    assert "Tick up to 12 replicas to compare them." in html(app)

    app.session_state[TABLE] = {"selection": {"rows": [0, 1], "columns": [], "cells": []}}
    page = rerun(app)
    assert "2 selected · " in html(page)
    page.button(key=f"{TABLE}_clear").click()
    assert "Tick up to 12 replicas to compare them." in html(rerun(page))


@pytest.mark.parametrize("name", ["[delete, edit]", ":material/delete: chat"])
def test_a_name_is_neither_a_menu_nor_an_icon(name: str) -> None:
    """Streamlit reads both in the label of a button."""
    app = open_page(fleet([replica(name, document=document())], [document()]), "replicas")

    assert app.dataframe[0].value["Replica"].to_list() == [f"\N{WORD JOINER}{name}"]
