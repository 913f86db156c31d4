"""Search finds things of every kind by words, the best kind first, and compares replicas that are listed."""

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet.pieces import Kind, Link
from dashboard.store.packing import StoredSnapshot, describe_fleet
from dashboard.views.chosen_columns import write_chosen
from dashboard.views.finding_list import list_findings
from dashboard.views.search import ALL_POOLS, MOST_HITS, HitGroup, scope_hits, search_hits
from tests.builders import NOW, alike, document, down, fleet, replica, story

SIZE = "cache_config.block_size"
USUAL, LARGE = document(), document({SIZE: 32})


@pytest.fixture(scope="module")
def built() -> Fleet:
    odd = replica("chat-odd", pool="chat", document=LARGE, version="0.33.0", labels={"pool": "chat", "rack": "r7"})
    gone = down("gone", pool="other")
    return inspected(fleet([*alike("chat", 3, USUAL), odd, gone], [USUAL, LARGE]), NOW)


def found(built: Fleet, text: str) -> dict[str, HitGroup]:
    return {each.title: each for each in search_hits(built, text, list_findings(built))}


def names(built: Fleet, text: str) -> dict[str, list[str]]:
    return {title: [hit.name for hit in group.hits] for title, group in found(built, text).items()}


def targets(built: Fleet, text: str, title: str) -> list[Link]:
    return [hit.link for hit in found(built, text)[title].hits]


def test_each_kind_is_found_by_its_name_and_opens_its_page(built: Fleet) -> None:
    assert targets(built, "block_size", "Settings")[0] == Link(Kind.PAGE, "settings", choices=(("path", SIZE),))
    assert targets(built, "0.33.0", "Versions") == [
        Link(Kind.PAGE, "replicas", choices=(("search", "version:0.33.0"),))
    ]
    assert targets(built, "r7", "Replicas") == [Link(Kind.REPLICA, "http://chat-odd:8000")]
    assert targets(built, "chat", "Pools") == [Link(Kind.POOL, "chat")]
    assert targets(built, "rt-01", "Rules") == [Link(Kind.RULE, "RT-01")]
    assert names(built, "capac")["Pages"] == ["Capacity"]
    assert "block_size" in names(built, "RT-01 chat-odd")["Findings"][0]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("block_size", SIZE),
        ("chat", "chat"),
        ("chat-01", "chat-01"),
        ("0.33.0", "vLLM 0.33.0"),
        ("capacity", "Capacity"),
        ("chat-odd, CHAT-01, nobody", "chat-odd and chat-01"),
    ],
)
def test_the_thing_whose_name_is_typed_is_the_first_hit(built: Fleet, text: str, first: str) -> None:
    """Enter opens it."""
    assert next(iter(names(built, text).values()))[0] == first


def test_every_word_has_to_match(built: Fleet) -> None:
    assert names(built, "cache_config block_size")["Settings"][0] == SIZE
    assert names(built, "zebra quagga") == {}


def test_where_nothing_matches_similar_settings_are_suggested(built: Fleet) -> None:
    assert names(built, "blok_size") == {"Similar settings": [SIZE]}


def test_a_snapshot_is_found_by_its_id_and_its_name(built: Fleet) -> None:
    kept = StoredSnapshot("3fa9c01b2e77", describe_fleet(built, "before", NOW), 0)
    for text in ("3fa9c01b2e", "before"):
        (group,) = search_hits(built, text, list_findings(built), [kept])
        assert (group.title, group.hits[0].link.choices) == ("Snapshots", (("snapshot", "3fa9c01b2e"),))


def test_the_meeting_mode_is_found(built: Fleet) -> None:
    assert targets(built, "meeting", "Pages") == [Link(Kind.PAGE, "review", choices=(("meeting", "1"),))]
    assert targets(built, "review", "Pages")[0] == Link(Kind.PAGE, "review")


def test_differing_settings_are_first_and_further_hits_are_counted(built: Fleet) -> None:
    group = found(built, "config")["Settings"]

    assert len(group.hits) == MOST_HITS
    assert group.hits[0].name == SIZE
    assert group.more > 0
    assert found(built, "chat-odd")["Replicas"].more == 0


def test_listed_replicas_are_compared(built: Fleet) -> None:
    ids = [each.id for name in ("chat-odd", "chat-01") for each in built.replicas if each.name == name]

    assert targets(built, "chat-odd, CHAT-01, nobody", "Compare") == [
        Link(Kind.PAGE, "compare", choices=(("replicas", write_chosen(ids)),))
    ]
    assert "Compare" not in found(built, "chat-odd, nobody")


def test_a_hit_knows_the_pools_that_have_it(built: Fleet) -> None:
    """What it opens is not limited to another pool."""
    assert found(built, "gone")["Replicas"].hits[0].pools == frozenset(["other"])
    assert found(built, "0.33.0")["Versions"].hits[0].pools == frozenset(["chat"])
    assert found(built, "block_size is 32")["Findings"].hits[0].pools == frozenset(["chat"])
    assert found(built, "block_size")["Settings"].hits[0].pools is None


def test_without_words_the_worst_of_the_fleet_is_suggested(built: Fleet) -> None:
    assert names(story(), " ")["Suggested"][:3] == ["Critical findings", "Replicas down", "Replicas partial"]
    assert names(built, "")["Suggested"][:2] == ["Replicas down", "Compare"]
    healthy = inspected(fleet(alike("chat", 3, USUAL), [USUAL]), NOW)
    assert names(healthy, "")["Suggested"][0] == "Compare"


def test_a_scope_is_one_of_the_pools_or_all(built: Fleet) -> None:
    def scopes(text: str, current: str | None = None) -> list[tuple[str, str]]:
        return [(hit.name, hit.link.key) for group in scope_hits(built, text, current, built) for hit in group.hits]

    assert scopes("") == [("chat", "chat"), ("other", "other")]
    assert scopes("", "chat")[0] == (ALL_POOLS, "")
    assert scopes("OTH", "chat") == [("other", "other")]
    assert scopes("zebra") == []
