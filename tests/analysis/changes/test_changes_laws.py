"""What holds of any two fleets: nothing changed from one to itself, and the other way round everything is reversed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import Changes, SettingGroup, changes_between
from dashboard.fleet import ReplicaState
from dashboard.rules.findings import Inspection
from tests.analysis.changes.sides import ADDRESS, between, chat, fleet
from tests.builders import NOW, document, down, engine, hostile, replica, story
from tests.saved_fleets import built_of_captures

DOCUMENTS = [
    document({"cache_config.block_size": size, "scheduler_config.max_num_seqs": seqs, **more})
    for size in (16, 32)
    for seqs in (256, None)
    for more in ({}, {"model_config.revision": "main"})
]
EXAMPLES = 25  # each builds fleets whole, with their frames
NAMES = ("a", "b", "c", "d", "e", "f")


@st.composite
def fleets(draw: st.DrawFn, *, is_judged: bool = False) -> Fleet:
    """A fleet of a few replicas: up or down, in two pools, some behind two addresses. Judging takes time."""
    twins = draw(st.booleans())
    members = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        pool = draw(st.sampled_from(["x", "y", None]))
        if draw(st.integers(0, 4)) == 0:
            members.append(down(name, pool=pool))
            continue
        more: dict[str, Any] = {
            "started_at": draw(st.sampled_from([None, NOW, NOW - timedelta(days=1)])),
            "engines": tuple(
                engine(tokens) for tokens in draw(st.lists(st.sampled_from([None, 500, 700]), max_size=1))
            ),
            "fresh": draw(st.integers(0, 5)) > 0,
        }
        members.append(replica(name, pool=pool, document=draw(st.sampled_from(DOCUMENTS)), **more))
    known = {each.name for each in members if each.state is ReplicaState.UP}
    if twins and {"a", "b"} <= known:
        other = {"a": ADDRESS.format("b"), "b": ADDRESS.format("a")}
        members = [replace(each, same_process=(other[each.name],)) if each.name in other else each for each in members]
    return fleet(*members, told=DOCUMENTS, **({} if is_judged else {"inspection": Inspection()}))


def settings_turned(group: SettingGroup) -> tuple[object, ...]:
    """A group as it reads the other way round."""
    return (
        group.pools[::-1],
        {(each.path, each.after, each.before) for each in group.changes},
        group.replicas,
        group.pool_sizes[::-1],
        (group.cohorts_after, group.cohorts_before),
    )


def settings_told(group: SettingGroup) -> tuple[object, ...]:
    return (
        group.pools,
        {tuple(each) for each in group.changes},
        group.replicas,
        group.pool_sizes,
        (group.cohorts_before, group.cohorts_after),
    )


def check_turned(there: Changes, back: Changes) -> None:
    assert (there.replicas.added, there.replicas.removed) == (back.replicas.removed, back.replicas.added)
    assert {(each.before, each.after) for each in there.replicas.changed} == {
        (each.after, each.before) for each in back.replicas.changed
    }
    assert there.replicas.restarted == () or back.replicas.restarted != ()
    told = [settings_told(each) for each in there.settings.groups]
    turned = [settings_turned(each) for each in back.settings.groups]
    assert len(told) == len(turned)
    assert all(each in turned for each in told)
    assert {each[1:] for each in there.settings.no_longer_told} == {each[1:] for each in back.settings.now_told}
    assert there.settings.ignored == back.settings.ignored
    assert there.settings.unread_before == back.settings.unread_after
    assert (there.findings.new, there.findings.gone) == (back.findings.gone, back.findings.new)
    assert {(each.before.id, each.joined, each.left) for each in there.findings.kept} == {
        (each.before.id, each.left, each.joined) for each in back.findings.kept
    }
    assert [(each.pool, each.before, each.after) for each in there.capacity.pools] == [
        (each.pool, each.after, each.before) for each in back.capacity.pools
    ]
    assert {(each.replica, each.before, each.after) for each in there.capacity.ranks} == {
        (each.replica, each.after, each.before) for each in back.capacity.ranks
    }
    assert there.is_empty == back.is_empty


@settings(max_examples=EXAMPLES)
@given(fleets(is_judged=True), fleets(is_judged=True))
def test_the_other_way_round_everything_is_reversed(one: Fleet, other: Fleet) -> None:
    check_turned(changes_between(one, other), changes_between(other, one))


@settings(max_examples=EXAMPLES)
@given(fleets())
def test_nothing_changed_from_a_fleet_to_itself(one: Fleet) -> None:
    assert changes_between(one, one).is_empty


@settings(max_examples=EXAMPLES)
@given(fleets(), fleets())
def test_every_replica_of_either_side_is_counted_at_most_once(one: Fleet, other: Fleet) -> None:
    replicas = changes_between(one, other).replicas
    told = [each.id for each in (*replicas.added, *replicas.removed, *(both.after for both in replicas.both))]

    assert len(told) == len(set(told))
    assert set(told) <= {each.id for each in (*one.replicas, *other.replicas)}


@settings(max_examples=EXAMPLES)
@given(fleets(), fleets())
def test_a_change_of_a_setting_is_one_that_both_documents_tell(one: Fleet, other: Fleet) -> None:
    then = {each.id: each for each in one.replicas}
    now = {each.id: each for each in other.replicas}
    for key, changes in changes_between(one, other).settings.by_replica.items():
        for change in changes:
            before = one.documents[str(then[key].document)].settings[change.path]
            after = other.documents[str(now[key].document)].settings[change.path]
            assert (before.value, after.value) == (change.before.value, change.after.value)
            assert before.value != after.value


def test_real_servers_and_hostile_ones_do_not_change_by_themselves(demo_fleet: Fleet) -> None:
    for one in (built_of_captures(), hostile(), story(), demo_fleet):
        assert changes_between(one, one).is_empty


def test_real_servers_changed_into_others_and_back(demo_fleet: Fleet) -> None:
    captured = built_of_captures()
    moved = replace(captured, replicas=captured.replicas[::2], pools=captured.pools[::2])
    for other in (moved, hostile(), story(), demo_fleet):
        check_turned(changes_between(captured, other), changes_between(other, captured))


def test_what_a_side_is_told_with() -> None:
    changes = between(
        [*chat(2), down("chat-03")], chat(1), then={"name": "a"}, now={"name": "b", "snapshot": "0a1b2c3d4e"}
    )

    assert (changes.before.fleet, changes.after.fleet) == ("a", "b")
    assert (changes.before.coverage, changes.after.coverage) == ((3, 2, 0, 1), (1, 1, 0, 0))
    assert (changes.before.snapshot, changes.after.snapshot) == (None, "0a1b2c3d4e")
    assert not changes.after_is_older
    assert changes_between(fleet(polled_at=NOW), fleet(polled_at=NOW - timedelta(1))).after_is_older
    assert not changes_between(fleet(polled_at=None, inspection=story().inspection), fleet()).after_is_older


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_replica_is_called_as_the_second_side_calls_it(side: str) -> None:
    renamed = [replace(chat(1)[0], name="blue")]
    changes = between(chat(1), renamed) if side == "after" else between(renamed, chat(1))

    assert list(changes.names.values()) == ["blue" if side == "after" else "chat-01"]
