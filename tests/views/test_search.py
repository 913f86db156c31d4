"""Search finds things of every kind by words, and compares replicas that are listed."""

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet.pieces import Kind, Link
from dashboard.views.blocks import Entries, View
from dashboard.views.chosen_columns import write_chosen
from dashboard.views.search import MOST_HITS, search_report
from tests.builders import NOW, alike, document, fleet, replica

SIZE = "cache_config.block_size"
USUAL, LARGE = document(), document({SIZE: 32})


@pytest.fixture(scope="module")
def built() -> Fleet:
    odd = replica("chat-odd", pool="chat", document=LARGE, version="0.33.0", labels={"pool": "chat", "rack": "r7"})
    return inspected(fleet([*alike("chat", 3, USUAL), odd], [USUAL, LARGE]), NOW)


def hits(view: View) -> dict[str, list[str]]:
    return {
        part.anchor: [
            entry.head[0].text for block in part.blocks if isinstance(block, Entries) for entry in block.items
        ]
        for part in view.parts
    }


def targets(view: View, anchor: str) -> list[Link | None]:
    (part,) = (each for each in view.parts if each.anchor == anchor)
    return [entry.head[0].link for block in part.blocks if isinstance(block, Entries) for entry in block.items]


def test_each_kind_is_found_by_its_name_and_opens_its_page(built: Fleet) -> None:
    assert targets(search_report(built, "block_size"), "settings")[0] == Link(
        Kind.PAGE, "settings", choices=(("path", SIZE),)
    )
    assert targets(search_report(built, "0.33.0"), "versions") == [
        Link(Kind.PAGE, "replicas", choices=(("search", "version:0.33.0"),))
    ]
    assert targets(search_report(built, "r7"), "replicas") == [Link(Kind.REPLICA, "http://chat-odd:8000")]
    assert targets(search_report(built, "chat"), "pools") == [Link(Kind.POOL, "chat")]
    assert targets(search_report(built, "rt-01"), "rules") == [Link(Kind.RULE, "RT-01")]
    assert hits(search_report(built, "capac"))["pages"] == ["Capacity"]
    assert targets(search_report(built, "changes"), "pages") == [Link(Kind.PAGE, "changes")]
    assert "block_size" in hits(search_report(built, "RT-01 chat-odd"))["findings"][0]


def test_every_word_has_to_match_and_an_equal_name_is_first(built: Fleet) -> None:
    assert hits(search_report(built, "cache_config block_size"))["settings"][0] == SIZE
    assert hits(search_report(built, "chat-01"))["replicas"][0] == "chat-01"
    assert list(hits(search_report(built, "zebra quagga"))) == ["nothing"]


def test_differing_settings_are_first_and_many_hits_are_cut_with_a_number(built: Fleet) -> None:
    view = search_report(built, "config")
    (section,) = (each for each in view.parts if each.anchor == "settings")

    assert len(hits(view)["settings"]) == MOST_HITS
    assert hits(view)["settings"][0] == SIZE
    assert len(section.blocks) == 2


def test_listed_replicas_are_compared(built: Fleet) -> None:
    view = search_report(built, "chat-odd, CHAT-01, nobody")
    ids = [each.id for name in ("chat-odd", "chat-01") for each in built.replicas if each.name == name]

    assert hits(view)["compare"] == ["chat-odd and chat-01"]
    assert targets(view, "compare") == [Link(Kind.PAGE, "compare", choices=(("replicas", write_chosen(ids)),))]
    assert "compare" not in hits(search_report(built, "chat-odd, nobody"))


def test_without_words_nothing_is_searched(built: Fleet) -> None:
    view = search_report(built, " ")
    assert (view.headline, view.parts) == ("Search", ())
