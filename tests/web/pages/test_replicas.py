"""Replicas lists all of them, filters them, and opens one."""

import re

from tests.builders import alike, document, fleet, hostile, replica, story
from tests.page_runner import html, open_page, opened, rerun

DOCUMENT = document()


def test_all_replicas_are_listed_with_how_they_stand() -> None:
    app = open_page(story(), "replicas")

    table = app.dataframe[0].value
    assert "<h1>40 replicas: 1 down and 1 partial</h1>" in html(app)
    assert len(table) == 40
    assert table["Differs in"].max() == 5
    assert dict(zip(table["State"], table["Reason"], strict=True))["? down, timeout"] == "No answer within 5 s."


def test_the_signs_in_the_column_of_findings_are_explained_below_the_table() -> None:
    """Its help is seen by those alone who point at its head."""
    explained = "40 replicas shown. Findings: the worst, how many of these (×), and how many milder ones (+)."

    assert explained in html(open_page(story(), "replicas"))


def test_where_the_clock_stands_replicas_are_told_with_the_time_at_which_they_were_read() -> None:
    read = open_page(story(), "replicas", screenshot="1").dataframe[0].value["Read"]

    assert read.str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").all()
    assert open_page(story(), "replicas").dataframe[0].value["Read"].str.endswith(" ago").all()


def test_a_healthy_fleet_is_called_so() -> None:
    app = open_page(fleet(alike("chat", 2, DOCUMENT), [DOCUMENT]), "replicas")

    assert "<h1>2 replicas, all up</h1>" in html(app)


def test_filters_come_from_the_url() -> None:
    app = open_page(story(), "replicas", pool="embed-8b", state="partial")

    assert app.dataframe[0].value["Replica"].to_list() == ["embed-8b-10"]
    assert "1 of 40 replicas shown." in html(app)


def test_a_search_looks_into_names_addresses_and_labels() -> None:
    app = open_page(story(), "replicas", search="http://gemma 03")

    assert app.dataframe[0].value["Replica"].to_list() == ["gemma-27b-03"]


def test_filters_that_hide_all_say_so_and_can_be_removed() -> None:
    app = open_page(story(), "replicas", search="nothing is called so")

    assert "No matches for these filters" in html(app)
    assert re.search(r"They hide all \d+ replicas\.", html(app))
    assert 'href="replicas"' in html(app)
    assert not app.dataframe


def test_a_click_on_a_name_opens_the_replica() -> None:
    app = open_page(story(), "replicas", pool="gemma-27b")
    app.session_state["replicas_table"] = {"selection": {"rows": [], "columns": [], "cells": [(2, "Replica")]}}

    chosen = app.dataframe[0].value["Replica"].iloc[2]
    assert opened(rerun(app)) == [f"replica?replica=http%3A%2F%2F{chosen}%3A8000"]


def test_a_click_on_another_cell_opens_nothing() -> None:
    """A value can be selected to be copied."""
    app = open_page(story(), "replicas", pool="gemma-27b")
    app.session_state["replicas_table"] = {"selection": {"rows": [], "columns": [], "cells": [(2, "Pool")]}}

    assert opened(rerun(app)) == []


def test_a_selected_row_opens_the_replica() -> None:
    app = open_page(story(), "replicas")
    app.session_state["replicas_table"] = {"selection": {"rows": [0], "columns": [], "cells": []}}

    chosen = app.dataframe[0].value["Replica"].iloc[0]
    assert opened(rerun(app)) == [f"replica?replica=http%3A%2F%2F{chosen}%3A8000"]


def test_a_row_that_the_filters_took_away_opens_nothing() -> None:
    app = open_page(story(), "replicas", search="gemma-27b-03")
    app.session_state["replicas_table"] = {"selection": {"rows": [7], "columns": [], "cells": []}}

    assert opened(rerun(app)) == []


def test_what_is_shown_can_be_taken_away_as_csv() -> None:
    app = open_page(story(), "replicas")

    assert "CSV" in [button.proto.label for button in app.get("download_button")]


def test_foreign_text_is_never_markup() -> None:
    app = open_page(hostile(), "replicas")

    assert "<script" not in html(app)
    assert "<img" not in html(app)
    assert len(app.dataframe[0].value) == 3


def test_one_replica_is_one_row() -> None:
    app = open_page(fleet([replica(document=DOCUMENT)], [DOCUMENT]), "replicas")

    assert len(app.dataframe[0].value) == 1
    assert "1 replica shown." in html(app)
