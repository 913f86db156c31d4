"""What replicas of a group share: a plain rule for small numbers, never a property that one of them lacks."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.cohorts import TOGETHER, Trait, shared_traits
from dashboard.fleet import Replica
from tests.builders import NOW, devices, replica

OLD = {"image": "a1", "zone": "x"}
NEW = {"image": "b2", "zone": "x"}
MINUTE = timedelta(minutes=1)

replicas = st.lists(
    st.builds(
        lambda number, version, image, minutes, names: replica(
            f"chat-{number}",
            id=f"http://host-{number % 2}:{8000 + number}",
            labels={} if image is None else {"image": image},
            version=version,
            started_at=None if minutes is None else NOW - minutes * MINUTE,
            devices=tuple(each for name in names for each in devices(1, name)),
        ),
        st.integers(0, 9),
        st.sampled_from(["0.32.0", "0.32.1", None]),
        st.sampled_from(["a1", "b2", None]),
        st.sampled_from([0, 30, 61, 900, None]),
        st.lists(st.sampled_from(["H100", "H200"]), max_size=2),
    ),
    max_size=6,
)


def several(number: int, **more: Any) -> list[Replica]:
    """Replicas on hosts of their own, which report nothing but what is given."""
    unknown: dict[str, Any] = {"labels": {}, "version": None, "started_at": None, "devices": ()}
    return [replica(f"r-{place}", id=f"http://r-{place}:80", **{**unknown, **more}) for place in range(number)]


def test_a_label_of_all_that_no_other_replica_has_is_a_trait() -> None:
    assert shared_traits(several(3, labels=NEW), several(37, labels=OLD)) == (Trait("image", "b2", 0, 37, True),)


@pytest.mark.parametrize(("group", "rest"), [(1, 37), (37, 1), (0, 2), (2, 0)])
def test_nothing_is_concluded_from_fewer_than_two_replicas_on_a_side(group: int, rest: int) -> None:
    assert shared_traits(several(group, labels=NEW), several(rest, labels=OLD)) == ()


@pytest.mark.parametrize(("others", "shown"), [(0, True), (3, True), (4, False)])
def test_a_trait_may_have_one_in_ten_of_the_others_but_fewer_than_the_group(others: int, *, shown: bool) -> None:
    rest = [*several(others, labels=NEW), *several(37 - others, labels=OLD)]

    assert bool(shared_traits(several(5, labels=NEW), rest)) is shown
    assert not others or shared_traits(several(others, labels=NEW), rest) == ()


def test_a_property_that_one_of_the_group_lacks_is_none() -> None:
    group = [*several(4, labels=NEW, version="0.32.1"), *several(1)]

    assert shared_traits(group, several(9, labels=OLD, version="0.32.0")) == ()


def test_labels_that_group_replicas_are_no_traits() -> None:
    group = several(3, labels={"pool": "chat", "name": "x", "role": "decode"})

    assert shared_traits(group, several(9, labels={"pool": "other"})) == ()


def test_version_devices_and_host_are_unknown_where_they_are_not_reported() -> None:
    alike: dict[str, Any] = {"version": "0.32.1", "devices": devices(2, "H200")}
    group = [
        replica(f"g-{place}", id=f"http://10.0.0.9:{place}/v", labels={}, started_at=None, **alike) for place in "12"
    ]
    rest = several(3, version="0.32.0", devices=devices(1, "H100"))

    assert shared_traits(group, [*rest, *several(2)]) == (
        Trait("host", "10.0.0.9", 0, 5),
        Trait("vLLM", "0.32.1", 0, 3),
        Trait("devices", "H200", 0, 3),
    )
    assert shared_traits(group, [*rest, *several(4)])[1:] == ()  # most others do not report it


def test_imported_replicas_have_no_host() -> None:
    group = [replica(name, id=f"file:///tmp/{name}", labels={}, started_at=None, devices=()) for name in "ab"]

    assert shared_traits(group, several(5)) == ()


def test_starts_within_an_hour_are_one_and_others_that_started_with_them_count() -> None:
    group = [*several(1, started_at=NOW), *several(1, started_at=NOW - 36 * MINUTE)]
    near = several(1, started_at=NOW + 24 * MINUTE)
    far = several(9, started_at=NOW - 2 * TOGETHER)

    assert shared_traits(group, far) == (Trait("started", "2026-03-02 11:06 to 11:42 UTC", 0, 9),)
    assert [(each.others, each.known) for each in shared_traits(group, [*near, *far])] == [(1, 10)]
    assert shared_traits([*group, *several(1, started_at=NOW - 61 * MINUTE)], far) == ()
    assert shared_traits(several(2, started_at=NOW), far)[0].value == "2026-03-02 11:42 UTC"


@given(replicas, replicas)
def test_all_of_the_group_have_each_trait_and_its_counts_are_true(group: list[Replica], rest: list[Replica]) -> None:
    for trait in shared_traits(group, rest):
        if trait.is_label:
            assert all(each.labels[trait.name] == trait.value for each in group)
            assert trait.others == sum(each.labels.get(trait.name) == trait.value for each in rest)
        elif trait.name == "vLLM":
            assert {each.version for each in group} == {trait.value}
            assert trait.others == sum(each.version == trait.value for each in rest)
        elif trait.name == "devices":
            assert {frozenset(own.name for own in each.devices) for each in group} == {
                frozenset(trait.value.split(", "))
            }
        elif trait.name == "host":
            assert all(f"//{trait.value}:" in each.id for each in group)
        else:
            times = [each.started_at for each in group if each.started_at]
            assert len(times) == len(group)
            assert max(times) - min(times) <= TOGETHER
        assert trait.others * 10 <= trait.known <= len(rest)


@given(replicas, replicas, st.randoms(use_true_random=False))
def test_the_order_of_replicas_does_not_matter(group: list[Replica], rest: list[Replica], random: Any) -> None:
    shuffled = [random.sample(each, len(each)) for each in (group, rest)]

    assert shared_traits(*shuffled) == shared_traits(group, rest)
