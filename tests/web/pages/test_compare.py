"""Compare shows how the replicas of one pool differ, setting by setting."""

import re

from dashboard.analysis.assembly import empty_fleet
from tests.builders import HASHING, alike, document, down, fleet, hashing, hostile, replica, story
from tests.page_runner import html, open_page, rerun, tables


def rows(table: str) -> list[str]:
    """The paths of a table's rows, in order."""
    return re.findall(r'<tr data-path="([^"]+)"', table)


def test_the_pool_that_needs_a_look_most_is_shown_first() -> None:
    """Without a choice in the URL, Compare opens where prefixes are not shared."""
    app = open_page(story(), "compare")

    assert app.selectbox(key="pool").value == "chat-70b"
    assert "<h1>chat-70b</h1>" in html(app)
    assert "18 replicas in 3 cohorts · H100 ×4 · router: prefix-hash (fleet.yaml)" in html(app)


def test_the_url_chooses_the_pool() -> None:
    """A link to a pool opens that pool."""
    app = open_page(story(), "compare", pool="embed-8b")

    assert "<h1>embed-8b</h1>" in html(app)


def test_the_band_on_prefix_sharing_stands_on_top_with_a_plain_sentence() -> None:
    """All that decides prefix sharing is in the band, equal or not, and the sentence names who stands apart."""
    app = open_page(story(), "compare", pool="chat-70b")

    assert "does not share prefixes with" in html(app)
    assert rows(tables(app)[0])[:2] == ["version", "cache_config.enable_prefix_caching"]
    assert len(rows(tables(app)[0])) == 6


def test_equal_settings_with_other_block_hashes_are_said_first_and_shown() -> None:
    """What engines measured stands above the settings that show nothing: the sentence, then a table of cohorts."""
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"root {index}")) for index in range(3)]
    shown = html(open_page(fleet(members, [told]), "compare"))

    assert "<b> share no prefixes</b>" in shown
    assert (
        shown.index("(measured, settings match)")
        < shown.index("Which cohorts can share prefixes")
        < shown.index("No setting differs:")
    )
    assert "every engine process uses a random hash seed" in shown
    assert '<div class="notice good">' not in shown


def test_the_row_that_decides_stands_beside_the_settings_and_is_as_bad_as_its_finding() -> None:
    """Settings that are all equal do not hide that hashes are not: the seed policy and the hashes are rows, too."""
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash", "seed_policy": "random"})
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"root {index}")) for index in range(3)]
    app = open_page(fleet(members, [told], policy=HASHING), "compare")
    table = tables(app)[0]

    assert rows(table)[-2:] == ["seed_policy", "replicas.fingerprint"]
    assert re.findall(r'data-path="replicas.fingerprint".*?class="glyph (\w+)"', table) == ["critical"]
    assert ">3 different<" in table

    opened = html(open_page(fleet(members, [told]), "compare", path="replicas.fingerprint"))
    assert "Each engine computes these digests" in opened


def test_the_matrix_lists_only_what_differs_and_says_what_it_hides() -> None:
    """Seven settings differ; the ten equal ones and the silent replica are named below."""
    app = open_page(story(), "compare", pool="chat-70b")

    assert len(rows(tables(app)[1])) == 7
    assert "7 of 17 settings differ. Hidden: 10 equal." in html(app)
    assert "Not compared (unreachable): chat-70b-18." in html(app)


def test_all_settings_can_be_shown() -> None:
    """Equal settings appear when asked for, and are then no longer called hidden."""
    app = open_page(story(), "compare", pool="chat-70b", show="All settings")

    assert len(rows(tables(app)[1])) == 17
    assert "Hidden" not in html(app)


def test_section_and_search_narrow_the_matrix() -> None:
    """Both stand in the URL; what they hide is counted."""
    app = open_page(story(), "compare", pool="chat-70b", section="cache_config", search="util 0.88")

    assert rows(tables(app)[1]) == ["cache_config.gpu_memory_utilization"]
    assert "Hidden: 6 filtered out, 10 equal." in html(app)


def test_filters_that_hide_all_say_so_and_offer_the_way_back() -> None:
    """An empty table is explained, and one link removes the filters."""
    app = open_page(story(), "compare", pool="chat-70b", search="no such thing")

    assert len(tables(app)) == 1
    assert "No matches for these filters" in html(app)
    assert "None of 7 differing settings matches “no such thing”." in html(app)
    assert '<a href="compare?pool=chat-70b">Clear filters</a>' in html(app)


def test_a_pool_without_differences_says_that_all_agree() -> None:
    """Nothing to show is good news here, and does not look like a failure."""
    app = open_page(story(), "compare", pool="gemma-27b")

    assert "<b>No setting differs:</b> 17 settings compared." in html(app)


def test_a_pool_that_does_not_exist_is_said_and_another_can_be_chosen() -> None:
    """No other pool is shown in its place."""
    app = open_page(story(), "compare", pool="nope")

    assert "Pool “nope” not found" in html(app)
    assert "chat-70b" not in html(app)
    assert not tables(app)

    app.selectbox(key="other_pool").set_value("embed-8b")
    assert "<h1>embed-8b</h1>" in html(rerun(app))
    assert app.query_params["pool"] in ("embed-8b", ["embed-8b"])


def test_references_are_named_and_stand_in_the_order_in_which_people_count() -> None:
    """The address keeps the id; the reader sees the name."""
    told = document()
    app = open_page(fleet([replica(name, pool="chat", document=told) for name in ("c-10", "c-2")], [told]), "compare")

    assert app.selectbox(key="reference").options == ["majority", "cohort A", "c-2", "c-10"]
    app.selectbox(key="reference").set_value("http://c-10:8000")
    assert app.query_params.get("reference") is None
    assert rerun(app).query_params["reference"] in ("http://c-10:8000", ["http://c-10:8000"])


def test_a_reference_that_there_is_not_says_so() -> None:
    """One against one: no majority."""
    told = [document({"model_config.seed": seed}) for seed in (7, 8)]
    members = [replica(f"chat-{index}", document=each) for index, each in enumerate(told)]
    app = open_page(fleet(members, told), "compare")

    assert app.selectbox(key="reference").options[0] == "majority (none)"


def test_a_cohort_can_be_the_reference() -> None:
    """Against B, the others are marked and B is not."""
    table = tables(open_page(story(), "compare", pool="chat-70b", reference="B"))[1]

    row = table[table.index('data-path="cache_config.block_size"') :].split("</tr>")[0]
    assert [cell.startswith(' class="differs"') for cell in re.findall(r"<td( class=\"differs\")?[^>]*>", row)[1:]] == [
        True,
        False,
        True,
    ]


def test_a_small_pool_can_show_replicas_as_columns() -> None:
    """Ten replicas fit beside each other under their names; eighteen are compared by cohort only."""
    small = open_page(story(), "compare", pool="embed-8b", columns="Replicas")
    large = open_page(story(), "compare", pool="chat-70b", columns="Replicas")

    assert tables(small)[1].count('scope="col"') == 11
    assert "embed-8b-07" in tables(small)[1]
    assert tables(large)[1].count('scope="col"') == 4


def test_a_path_in_the_url_opens_all_its_values() -> None:
    """The dialog shows every value with who has it and who said it, and can be linked to."""
    app = open_page(story(), "compare", pool="chat-70b", path="cache_config.block_size")

    assert "<pre><code>32</code></pre>" in html(app)
    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-17%3A8000">chat-70b-17</a>' in html(app)


def test_a_cohort_in_the_url_opens_its_replicas() -> None:
    """One click on a column's head leads to who is in it and what tells it apart."""
    app = open_page(story(), "compare", pool="chat-70b", cohort="C")

    assert "<code>cache_config.prefix_caching_hash_algo = xxhash</code>" in html(app)
    assert ">chat-70b-16</a>" in html(app)
    assert '<a href="compare?pool=chat-70b&amp;reference=C">Compare with C</a>' in html(app)
    assert '<a href="compare?pool=chat-70b&amp;converge=C">What if all were like C</a>' in html(app)


def test_the_page_keeps_its_fleet_while_paused_and_follows_again_after() -> None:
    """Pause stops this session only from following; nothing moves until it is released."""
    app = open_page(story(), "compare")
    app.toggle(key="paused").set_value(True).run()
    told = document()
    from dashboard import service

    service.put(fleet(alike("other", 3, told), [told], name="next"))
    assert "<h1>chat-70b</h1>" in html(rerun(app))

    app.toggle(key="paused").set_value(False).run()
    assert "<h1>other</h1>" in html(rerun(app))


def test_a_fleet_without_any_pool_is_explained() -> None:
    """When nobody told a model, there is nothing to compare, and the page says where to look."""
    app = open_page(fleet([down("chat-1", pool=None)]), "compare")

    assert "No pools to compare" in html(app)


def test_before_the_first_poll_the_page_says_that_it_waits() -> None:
    """The same empty state as on every page."""
    assert "Waiting for the first poll" in html(open_page(empty_fleet("prod-eu"), "compare"))


def test_a_pool_of_which_nothing_was_read_shows_no_columns_and_does_not_claim_agreement() -> None:
    """A labelled pool whose replicas are all down has no cohorts: unknown is not equal."""
    app = open_page(fleet([down("chat-1"), down("chat-2"), replica("other-1", pool="other")]), "compare", pool="chat")

    assert "No difference:" not in html(app)
    assert "Not compared (unreachable): chat-1 and chat-2." in html(app)


def test_a_pool_that_answers_but_tells_no_settings_says_what_helps() -> None:
    """It is no list of zeros, and leads to where the provider is offered."""
    shown = html(open_page(fleet([replica("chat-1", pool="chat"), replica("chat-2", pool="chat")]), "compare"))

    assert "No replica of this pool reports its settings" in shown
    assert "0 of 0 settings" not in shown
    assert 'href="replicas"' in shown


def test_hostile_values_and_names_stay_text() -> None:
    """Values, paths, names and pools are escaped in the table, the dialog and the line below."""
    shown = html(open_page(hostile(), "compare", show="All settings", path="model_config.tokenizer"))

    assert "<script>" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


def test_more_cohorts_than_can_be_compared_by_eye_are_said_to_be_in_the_csv() -> None:
    """Nothing is hidden silently."""
    told = [document({"model_config.seed": index}) for index in range(30)]
    shown = html(
        open_page(fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(told)], told), "compare")
    )

    assert "6 more columns only in the CSV." in shown
