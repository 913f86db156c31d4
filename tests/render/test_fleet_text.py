"""The table for a terminal says the same as the pages, and foreign text cannot move the cursor."""

import re
from dataclasses import replace

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet.formatting import end_cut
from dashboard.render.fleet_text import to_table
from tests.builders import document, down, fleet, hashing, replica


def test_every_replica_has_a_line_with_its_state(demo_fleet: Fleet) -> None:
    lines = to_table(demo_fleet, width=200, colour=False).splitlines()

    for each in demo_fleet.replicas:
        assert any(line.startswith(each.name) and f" {each.state} " in line for line in lines)


def test_a_pool_names_its_cohorts_and_what_differs(demo_fleet: Fleet) -> None:
    text = to_table(demo_fleet, width=200, colour=False)

    assert re.search(r"[BC] x1 chat-70b-11", text)
    assert "cache_config.prefix_caching_hash_algo" in text
    assert "xxhash" in text


def test_a_pool_says_who_can_share_prefixes_as_the_pages_do() -> None:
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"root {index}")) for index in range(2)]
    text = to_table(fleet(members, [told]), width=200, colour=False)

    assert "  Replicas of A share no prefixes (measured, settings match)" in text


def test_one_replica_is_not_said_to_differ_in_nothing() -> None:
    """`no difference in the 0 settings` would sound as if something had been compared."""
    one = document()
    alone = to_table(fleet([replica("a", document=one)], [one]), width=200, colour=False)
    unread = to_table(fleet([down("a")]), width=200, colour=False)

    assert "one replica: nothing to compare with" in alone
    assert "no difference" not in alone
    assert "no replica was read: nothing to compare" in unread


def test_no_line_ends_with_blanks(demo_fleet: Fleet) -> None:
    """Padded to the longest reason, every line would be folded where the table is shown in fewer columns."""
    lines = to_table(demo_fleet, width=200, colour=False).splitlines()

    assert [line for line in lines if line != line.rstrip()] == []


def test_the_last_line_says_how_many_answered(demo_fleet: Fleet) -> None:
    last = to_table(demo_fleet, width=200, colour=False).strip().splitlines()[-1]

    answered = sum(replica.state != "down" for replica in demo_fleet.replicas)
    assert last.startswith(f"{answered} of {len(demo_fleet.replicas)} answered")


def test_an_upper_bound_is_marked_and_so_is_what_is_not_known(demo_fleet: Fleet) -> None:
    assumed = next(each for each in demo_fleet.replicas if each.engines and each.engines[0].basis == "assumed")
    lost = assumed.engines[0]._replace(kv_cache_size_tokens=None)
    unknown = replace(demo_fleet, replicas=(replace(assumed, engines=(lost,)),), pools=())

    assert f"≤ {assumed.engines[0].kv_cache_size_tokens:,}" in to_table(demo_fleet, width=200, colour=False)
    assert "not known" in to_table(unknown, width=200, colour=False)


def test_an_empty_fleet_says_that_nothing_was_asked() -> None:
    assert "0 of 0 answered" in to_table(empty_fleet("nothing"), width=80, colour=False)


def test_control_characters_and_markup_of_strangers_are_shown_as_text(demo_fleet: Fleet) -> None:
    hostile = replace(demo_fleet.replicas[0], name="\x1b[31m[bold]evil[/bold]\u202e\n")
    text = to_table(replace(demo_fleet, replicas=(hostile,), pools=()), width=200, colour=True)

    assert "\x1b[31m[bold]" not in text
    assert "[bold]evil[/bold]" in text
    assert "\u202e" not in text


def test_long_text_is_cut_and_says_so() -> None:
    assert end_cut("x" * 500, 10) == "xxxxxxxxx…"


def test_differences_beyond_the_first_dozen_are_counted(demo_fleet: Fleet) -> None:
    pool = next(each for each in demo_fleet.pools if each.name == "chat-70b")
    many = replace(pool, differences=pool.differences[:1] * 20)
    text = to_table(replace(demo_fleet, pools=(many,)), width=200, colour=False)

    assert "and 8 more differences" in text
