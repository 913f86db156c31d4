"""The page Settings: search, one setting, filters in the URL, empty states."""

import re

from tests.builders import story
from tests.page_runner import address, copied, html, open_page, rerun, table_of

SIZE = "cache_config.block_size"


def test_filters_of_the_url_choose_replicas() -> None:
    every = html(open_page(story(), "settings", path=SIZE))
    decoding = html(open_page(story(), "settings", path=SIZE, role="decode"))

    assert "gemma-27b" in every
    assert "gemma-27b" not in decoding


def test_filters_of_the_url_also_choose_the_replicas_of_a_search() -> None:
    every = html(open_page(story(), "settings", search=SIZE))
    old = open_page(story(), "settings", search=SIZE, version="0.31.0")

    assert "<h1>1 setting, 1 with different values in a pool</h1>" in every
    assert "<h1>1 setting, none with different values in a pool</h1>" in html(old)
    assert f'href="settings?path={SIZE}&amp;version=0.31.0"' in html(old)
    old.selectbox(key="version").set_value("all versions")
    old.text_input(key="label").set_value("pool=gemma")
    assert "<h1>1 setting, none with different values in a pool</h1>" in html(rerun(old))
    assert (address(old, "version"), address(old, "label")) == (None, "pool=gemma")


def test_a_setting_is_chosen_from_all_of_the_fleet_and_the_url_has_it() -> None:
    app = open_page(story(), "settings", path="version")
    listed = app.selectbox(key="path")
    assert {SIZE, "version", "all settings"} <= set(listed.options)

    listed.set_value(SIZE)
    assert f"<h1>{SIZE}</h1>" in html(rerun(app))
    assert address(app, "path") == SIZE
    app.selectbox(key="path").set_value("")
    assert "Open a setting for its values" in html(rerun(app))
    assert address(app, "path") is None


def test_an_unknown_setting_is_an_empty_page_with_a_reason() -> None:
    shown = html(open_page(story(), "settings", path="<b>x</b>"))

    assert "no vLLM version has it" in shown
    assert "<b>x" not in shown


def test_ticked_replicas_of_a_setting_are_compared() -> None:
    app = open_page(story(), "settings", path=SIZE, pool="chat-70b")
    shown = table_of(app, f"{SIZE} by replica")
    assert list(shown) == ["Replica", "Pool", "Cohort", "Value", "Origin"]
    assert [each[0] for each in shown.values()] == ["chat-70b-17", "chat-70b", "B", "32", "unknown"]

    app.session_state[f"settings_{SIZE}_1_ticked"] = [f"http://{name}:8000" for name in shown["Replica"][:2]]

    ids = "%2C".join(f"http%3A%2F%2F{name}%3A8000" for name in sorted(shown["Replica"][:2], key=shown["Replica"].index))
    assert f'<a href="compare?replicas={ids}">Compare 2 replicas</a>' in html(rerun(app))


def test_the_entry_that_ignores_a_setting_says_what_its_glob_would_hide() -> None:
    app = open_page(story(), "settings", path=SIZE)
    assert f"Hides 1 setting, 1 with differences: {SIZE}." in html(app)
    assert copied(app)[-1] == f"ignore:\n- {SIZE}\n"

    app.text_input(key=f"ignore_{SIZE}").set_value("cache_config.*")
    assert re.search(r"Hides \d+ settings, \d+ with differences: cache_config", html(rerun(app)))
    assert copied(app)[-1] == "ignore:\n- cache_config.*\n"
    app.text_input(key=f"ignore_{SIZE}").set_value("nothing.*")
    assert "Hides nothing: no reported setting matches." in html(rerun(app))


def test_the_heads_of_the_list_sort_it_and_keep_the_search() -> None:
    app = open_page(story(), "settings", search="config", sort="-setting")
    shown = table_of(app, "Settings")["Setting ↓"]

    assert shown == sorted(shown, reverse=True)
    assert 'href="settings?search=config&amp;sort=values"' in html(app)
