"""The page Replicas: controls, selection, empty states."""

import re
from urllib.parse import quote

import pytest

from dashboard.rules.findings import Severity
from tests.builders import document, fleet, replica, story
from tests.page_runner import address, html, open_page, opened, rerun, table_of
from tests.used import traffic, with_traffic

TICKED = "replicas_0_ticked"  # ids, in the session
CAPTION = "Replicas"


def test_the_table_has_all_replicas_with_state_and_reason() -> None:
    app = open_page(story(), "replicas")
    table = table_of(app, CAPTION)

    assert "<h1>40 replicas: 1 down and 1 partial</h1>" in html(app)
    assert "5 pools." in html(app)
    assert max(table["Differs in"]) == "5"
    assert table["State"][0].split() == ["down,", "timeout", "No", "answer", "within", "5", "s."]
    assert {each.split()[0] for each in table["Findings"] if each} <= set(map(str, Severity))
    assert "Findings: worst severity" in html(app)


def test_a_live_page_shows_ages_and_a_still_one_times() -> None:
    shown = html(open_page(story(), "replicas", columns="Read"))
    times = re.findall(r'<time datetime="([^"]*)" data-age="{}">([^<]*)</time>', shown)

    assert len(times) == 40
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", at) and at == text for at, text in times)


def test_more_than_200_replicas_are_a_grid_with_the_same_ticks() -> None:
    shared = document()
    built = fleet([replica(f"chat-{number}", document=shared) for number in range(201)], [shared])
    app = open_page(built, "replicas", columns="State,Read")
    grid = app.dataframe[0].value

    assert "chat-200" in grid["Replica"].to_list()
    assert grid["Read"].str.endswith(" ago").all()
    assert "data-tick" not in html(app)
    app.session_state[TICKED] = [each.id for each in built.replicas[:2]]
    rerun(app)
    assert "2 selected · " in html(app)
    selected = app.session_state["replicas_0_grid"]["selection"]["rows"]
    assert sorted(app.dataframe[0].value["Replica"].iloc[selected]) == ["chat-0", "chat-1"]
    app.session_state["replicas_0_name"] = {"row": 0, "label": "name"}
    assert opened(rerun(app)) == [f"replica?replica=http%3A%2F%2F{grid['Replica'].iloc[0]}%3A8000"]
    still = open_page(built, "replicas", columns="Read", screenshot="1").dataframe[0].value["Read"]
    assert still.str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").all()


def test_a_grid_has_hit_rates_as_the_table_does_and_why_one_is_missing() -> None:
    shared = document()
    built = fleet([replica(f"chat-{number}", document=shared) for number in range(201)], [shared])
    used = with_traffic(built, {"chat-7": 0.62, "chat-8": traffic(0.5, requests=3)})

    grid = open_page(used, "replicas", columns="Prefix hit rate,Requests/min").dataframe[0].value

    rates = dict(zip(grid["Replica"], grid["Prefix hit rate"], strict=True))
    assert [rates[f"chat-{number}"] for number in (7, 8, 9)] == ["62%", "not enough traffic", "not read twice yet"]
    assert dict(zip(grid["Replica"], grid["Requests/min"], strict=True))["chat-7"] == "20"


def test_filters_are_in_the_url() -> None:
    app = open_page(story(), "replicas", pool="embed-8b", search="state:partial")
    assert table_of(app, CAPTION)["Replica"] == ["embed-8b-10"]
    assert "<h1>10 replicas in embed-8b: 1 partial</h1>" in html(app)
    assert "1 of 10 replicas shown" in html(app)

    app = open_page(story(), "replicas", search="http://gemma 03")
    assert table_of(app, CAPTION)["Replica"] == ["gemma-27b-03"]


def test_filters_of_several_values_sort_and_columns_are_in_the_url() -> None:
    app = open_page(story(), "replicas", search="version:0.31.0 cohort:x", sort="-replica", columns="Pool,vLLM")
    shown = table_of(app, CAPTION)

    assert shown["Replica ↓"] == [f"embed-8b-{number:02}" for number in (10, 9, 8, 7, 6)]
    assert list(shown) == ["Replica ↓", "Pool", "vLLM"]
    assert "Ignored “cohort:x”: unknown value." in html(app)

    app.multiselect(key="filter_version").set_value(["0.31.0", "0.32.0"])
    app.multiselect(key="filter_cohort").set_value(["B"])
    app.multiselect(key="columns").set_value([])
    app.selectbox(key="sort").set_value("")
    rerun(app)
    found = [address(app, each) for each in ("search", "sort", "columns")]
    assert found == ["version:0.31.0 version:0.32.0 cohort:B", None, None]
    assert {"State", "Findings"} <= set(table_of(app, CAPTION))
    assert set(table_of(app, CAPTION)["Pool"]) == {"chat-70b", "embed-8b"}


def test_a_head_sorts_by_a_link_that_keeps_search_and_columns() -> None:
    shown = html(open_page(story(), "replicas", search="chat", columns="Pool,Differs in", sort="pool"))

    assert 'href="replicas?search=chat&amp;columns=Pool%2CDiffers+in&amp;sort=-pool"' in shown
    assert 'aria-sort="ascending"' in shown


def test_a_new_order_or_filter_keeps_the_ticked_replicas() -> None:
    app = open_page(story(), "replicas", pool="gemma-27b")
    app.session_state[TICKED] = ["http://gemma-27b-03:8000"]
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
    assert "<table" not in html(app)
    assert "Share" in [each.proto.popover.label for each in app.get("popover")]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "Tick up to 12 replicas to compare them."),
        (1, "Open the ticked replica"),
        (1, ">Compare it with a snapshot</a>"),
        (2, "Compare 2 replicas"),
        (13, "13 replicas ticked: at most 12 can be compared."),
    ],
)
def test_ticked_replicas_can_be_opened_or_compared(number: int, shown: str) -> None:
    app = open_page(story(), "replicas", pool="chat-70b")
    ids = re.findall(r'data-tick="([^"]*)"', html(app))[:number]
    app.session_state[TICKED] = [*ids, "http://filtered:8000"]
    page = html(rerun(app))

    assert shown in page
    if number == 2:
        assert f'href="compare?replicas={quote(",".join(ids), safe="")}"' in page


def test_the_selection_is_above_the_table_and_can_be_cleared() -> None:
    app = open_page(story(), "replicas", pool="chat-70b")
    assert "Tick up to 12 replicas to compare them." in html(app)

    app.session_state[TICKED] = re.findall(r'data-tick="([^"]*)"', html(app))[:2]
    page = rerun(app)
    assert html(page).index("2 selected · ") < html(page).index("<table")
    page.button(key="replicas_0_clear").click()
    assert "Tick up to 12 replicas to compare them." in html(rerun(page))


@pytest.mark.parametrize("name", ["[delete, edit]", ":material/delete: chat"])
def test_a_name_is_neither_a_menu_nor_an_icon(name: str) -> None:
    """Streamlit reads both in the label of a button."""
    members = [replica(f"{name}{number}", document=document()) for number in range(201)]
    app = open_page(fleet(members, [document()]), "replicas")

    assert app.dataframe[0].value["Replica"].str.startswith(f"\N{WORD JOINER}{name}").all()
