"""The most telling differences are sentences with values, replicas and a link."""

from __future__ import annotations

from dashboard.ui.telling import most_telling
from tests.builders import alike, document, fleet, replica, story


def test_what_decides_prefix_sharing_comes_first_and_then_the_smallest_minority() -> None:
    """One odd replica is more telling than an even split, unless prefixes are at stake."""
    even = [document({"model_config.seed": index}) for index in range(2)]
    odd = document({"model_config.seed": 0, "model_config.max_logprobs": 9, "cache_config.block_size": 64})
    told = fleet(
        [*alike("chat", 4, even[0]), *alike("chat", 4, even[1], first=5), replica("chat-9", document=odd)], [*even, odd]
    )

    found = [text for _, text, _ in most_telling(told)]

    assert [path in text for path, text in zip(("block_size", "max_logprobs", "seed"), found, strict=True)] == [
        True
    ] * 3


def test_a_version_alone_warns_and_other_settings_inform() -> None:
    """Nothing is called critical that is not known to keep prefixes apart."""
    kinds = {text.split("<small><code>")[1].split("<")[0]: kind for kind, text, _ in most_telling(story(), most=99)}

    assert kinds["cache_config.block_size"] == "critical"
    assert kinds["version"] == "warning"
    assert kinds["model_config.max_logprobs"] == "info"


def test_without_a_majority_every_value_is_named() -> None:
    """A tie has no `the others`."""
    even = [document({"model_config.seed": index}) for index in range(3)]
    told = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(even)], even)

    _, text, _ = most_telling(told)[0]

    assert "<code>seed</code> is <code>2</code> on 1 replica, <code>1</code> on 1 and <code>0</code> on 1" in text


def test_on_a_tie_all_cohorts_are_named() -> None:
    """Nobody is the odd one out."""
    even = [document({"cache_config.block_size": size}) for size in (16, 32)]
    told = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(even)], even)

    _, text, side = most_telling(told)[0]

    assert "<code>16</code> on 1 replica and <code>32</code> on 1; there is no majority" in text
    assert ">chat-0</a>" in side
    assert ">chat-1</a>" in side


def test_many_values_are_counted_and_not_listed() -> None:
    """Twenty values make no sentence."""
    many = [document({"model_config.seed": index}) for index in range(20)]
    told = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(many)], many)

    assert "and 17 more values" in most_telling(told)[0][1]


def test_the_cohorts_that_stand_apart_are_named_with_their_replicas_when_few() -> None:
    """One replica by name with a link; five by their number."""
    sides = [side for _, _, side in most_telling(story(), most=99)]

    assert any(">chat-70b-17</a>" in side for side in sides)
    assert any("×5" in side for side in sides)


def test_the_list_ends() -> None:
    """Overview shows a few, says how many more there are, and Compare lists all."""
    rows = most_telling(story(), most=3)

    assert len(rows) == 4
    assert rows[-1][1] == '<a href="compare?pool=chat-70b">5 more differences</a>'
    assert len(most_telling(story(), most=8)) == 8


def test_who_tells_nothing_is_no_side_of_a_difference() -> None:
    """`not reported` is no value that somebody has."""
    told = [document({"model_config.seed": 1}), document({"model_config.seed": 2}), document()]
    shown = fleet(
        [*alike("chat", 3, told[0]), replica("chat-8", document=told[1]), replica("chat-9", document=told[2])], told
    )

    _, text, _ = most_telling(shown)[0]

    assert "1 replica has <code>seed</code> <code>2</code>; the other 3 have <code>1</code>" in text
    assert "not reported" not in text


def test_what_only_follows_from_another_version_comes_last() -> None:
    """An upgrade moves many defaults; one odd replica is more telling than they are."""
    old = document({"version": "0.31.0", "model_config.seed": 1})
    new = document({"model_config.seed": 2})
    odd = document({"model_config.seed": 2, "model_config.max_logprobs": 9})
    odd_too = document({"model_config.seed": 2, "model_config.max_logprobs": 9, "model_config.dtype": "half"})
    shown = fleet(
        [
            replica("chat-1", document=old),
            *alike("chat", 3, new, first=2),
            *alike("chat", 2, odd, first=5),
            replica("chat-9", document=odd_too),
        ],
        [old, new, odd, odd_too],
    )

    paths = [text.split("<small><code>")[1].split("<")[0] for _, text, _ in most_telling(shown)]

    assert paths == ["version", "model_config.dtype", "model_config.max_logprobs", "model_config.seed"]
