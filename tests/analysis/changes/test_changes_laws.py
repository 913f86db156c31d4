"""Laws of any two fleets: a fleet equals itself, and the reverse comparison reverses everything."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes, SettingGroup
from dashboard.fleet import ReplicaState
from dashboard.rules.findings import Inspection
from tests.analysis.changes.sides import ADDRESS, LATER, between, chat, fleet
from tests.builders import NOW, document, down, engine, hostile, replica, story
from tests.saved_fleets import built_of_captures

DOCUMENTS = [
    document({"cache_config.block_size": size, "scheduler_config.max_num_seqs": seqs, **more})
    for size in (16, 32)
    for seqs in (256, None)
    for more in ({}, {"model_config.revision": "main"})
]
EXAMPLES = settings().max_examples // 3  # each builds two fleets


@st.composite
def fleets(draw: st.DrawFn, *, is_inspected: bool = False) -> Fleet:
    """A fleet of a few replicas: up or down, in two pools, some behind two addresses. Rules take time."""
    members = []
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        pool = draw(st.sampled_from(["x", "y", None]))
        if draw(st.integers(0, 4)) == 0:
            members.append(down(name, pool=pool))
            continue
        tokens = draw(st.lists(st.sampled_from([None, 500, 700]), max_size=1))
        more: dict[str, Any] = {
            "started_at": draw(st.sampled_from([None, NOW, NOW - timedelta(days=1)])),
            "engines": tuple(map(engine, tokens)),
            "fresh": draw(st.integers(0, 5)) > 0,
        }
        members.append(replica(name, pool=pool, document=draw(st.sampled_from(DOCUMENTS)), **more))
    known = {each.name for each in members if each.state is ReplicaState.UP}
    if draw(st.booleans()) and {"a", "b"} <= known:
        other = {"a": ADDRESS.format("b"), "b": ADDRESS.format("a")}
        members = [replace(each, same_process=(other[each.name],)) if each.name in other else each for each in members]
    return fleet(*members, documents=DOCUMENTS, **({} if is_inspected else {"inspection": Inspection()}))


def content(group: SettingGroup, step: int) -> tuple[object, ...]:
    """Return a group as it is (step 1) or reversed (step -1)."""
    return (
        group.pools[::step],
        {(each.path, (each.before, each.after)[::step]) for each in group.changes},
        group.replicas,
        group.pool_sizes[::step],
        (group.cohorts_before, group.cohorts_after)[::step],
    )


def assert_reversed(there: Changes, back: Changes) -> None:
    assert (there.replicas.added, there.replicas.removed) == (back.replicas.removed, back.replicas.added)
    assert all(pair[::-1] in [tuple(each) for each in back.replicas.changed] for pair in there.replicas.changed)
    assert len(there.replicas.changed) == len(back.replicas.changed)
    groups = [content(each, 1) for each in there.settings.groups]
    assert len(groups) == len(back.settings.groups)
    assert all(content(each, -1) in groups for each in back.settings.groups)
    lost, new = there.settings.no_longer_reported, back.settings.newly_reported
    assert {each[1:] for each in lost} == {each[1:] for each in new}
    assert there.settings.ignored == back.settings.ignored
    assert there.settings.unread_before == back.settings.unread_after
    assert (there.findings.new, there.findings.no_longer_found) == (back.findings.no_longer_found, back.findings.new)
    assert {(each.before.id, each.joined, each.left) for each in there.findings.persisting} == {
        (each.before.id, each.left, each.joined) for each in back.findings.persisting
    }
    assert [(each.pool, each.before, each.after) for each in there.capacity.pools] == [
        (each.pool, each.after, each.before) for each in back.capacity.pools
    ]
    assert {(each.replica, each.before, each.after) for each in there.capacity.ranks} == {
        (each.replica, each.after, each.before) for each in back.capacity.ranks
    }
    assert there.is_empty == back.is_empty


@settings(max_examples=EXAMPLES)
@given(fleets(is_inspected=True), fleets(is_inspected=True))
def test_the_reverse_comparison_reverses_everything(one: Fleet, other: Fleet) -> None:
    later = replace(other, polled_at=LATER)
    assert_reversed(changes_between(one, later), changes_between(later, one))


@settings(max_examples=EXAMPLES)
@given(fleets(), fleets())
def test_a_fleet_equals_itself_and_each_replica_of_two_fleets_is_counted_once(one: Fleet, other: Fleet) -> None:
    replicas = changes_between(one, other).replicas
    found = (*replicas.added, *replicas.removed, *(pair.after for pair in replicas.both))
    counted = [replica.id for replica in found]

    assert changes_between(one, one).is_empty
    assert len(counted) == len(set(counted))
    assert set(counted) <= {each.id for each in (*one.replicas, *other.replicas)}


@settings(max_examples=EXAMPLES)
@given(fleets(), fleets())
def test_a_changed_setting_has_different_values_in_both_documents(one: Fleet, other: Fleet) -> None:
    then = {each.id: each for each in one.replicas}
    now = {each.id: each for each in other.replicas}
    for key, changes in changes_between(one, other).settings.by_replica.items():
        for change in changes:
            before = one.documents[str(then[key].document)].settings[change.path]
            after = other.documents[str(now[key].document)].settings[change.path]
            assert (before.value, after.value) == (change.before.value, change.after.value)
            assert before.value != after.value


def test_real_and_hostile_servers_equal_themselves_and_the_reverse_comparison_reverses(demo_fleet: Fleet) -> None:
    captured = built_of_captures()
    moved = replace(captured, replicas=captured.replicas[::2], pools=captured.pools[::2])

    assert changes_between(captured, captured).is_empty
    for other in (moved, hostile(), story(), demo_fleet):
        assert changes_between(other, other).is_empty
        assert_reversed(changes_between(captured, other), changes_between(other, captured))


def test_the_order_of_both_sides_is_known() -> None:
    assert not between(chat(1), chat(1)).after_is_older
    assert changes_between(fleet(polled_at=NOW), fleet(polled_at=NOW - timedelta(1))).after_is_older
    assert not changes_between(replace(fleet(), polled_at=None), fleet()).after_is_older


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_renamed_replica_has_the_name_of_the_second_side(side: str) -> None:
    renamed = [replace(chat(1)[0], name="blue")]
    changes = between(chat(1), renamed) if side == "after" else between(renamed, chat(1))

    assert list(changes.names.values()) == ["blue" if side == "after" else "chat-01"]
