"""Replicas that came, went, restarted or changed their state, each process once."""

from collections.abc import Iterable
from dataclasses import replace

from dashboard.analysis.changes import ReplicaSide
from dashboard.fleet import ReplicaState
from tests.analysis.changes.sides import OLD, RESTARTED, between, chat, ids, one_process
from tests.builders import down, replica


def names(told: Iterable[ReplicaSide]) -> list[str]:
    return [each.name for each in told]


def test_a_replica_of_one_side_only_came_or_went() -> None:
    replicas = between(chat(3), [*chat(2), replica("new", pool="embed", document=OLD)]).replicas

    assert names(replicas.added) == ["new"]
    assert names(replicas.removed) == ["chat-03"]
    assert (replicas.added[0].pool, replicas.removed[0].letter) == ("embed", "A")
    assert len(replicas.both) == 2
    assert not replicas.changed


def test_lone_replicas_stand_by_pool_and_then_as_people_count() -> None:
    lone = [
        replica("b-10", pool=None, document=OLD),
        replica("a-10", pool="z", document=OLD),
        replica("a-9", pool="z", document=OLD),
        replica("c-1", pool="a", document=OLD),
    ]

    assert names(between([], lone).replicas.added) == ["c-1", "a-9", "a-10", "b-10"]


def test_another_start_is_a_restart_and_an_untold_one_is_nothing_that_anybody_knows() -> None:
    before = [*chat(2), *chat(1, first=3, started_at=None), *chat(1, first=4)]
    after = [*chat(1), *chat(1, first=2, **RESTARTED), *chat(1, first=3), *chat(1, first=4, started_at=None)]
    replicas = between(before, after).replicas

    assert [each.after.name for each in replicas.restarted] == ["chat-02"]
    assert replicas.start_untold == ids("chat-03", "chat-04")
    assert [each.restarted for each in replicas.both] == [False, True, None, None]


def test_a_replica_that_went_down_changed_its_state() -> None:
    (changed,) = between(chat(1), [down("chat-01", started_at=None)]).replicas.changed

    assert changed.has_other_state
    assert (changed.before.state, changed.after.state) == (ReplicaState.UP, ReplicaState.DOWN)
    assert not changed.has_other_version, "a replica that is down tells no version: nobody knows"


def test_pool_name_and_version_are_changes_too() -> None:
    before = chat(1, version="0.31.0")
    after = [replica("chat-01", pool="other", document=OLD, version="0.32.0")]
    (changed,) = between(before, after).replicas.changed
    (renamed,) = between(chat(1), [replace(chat(1)[0], name="blue")]).replicas.changed

    assert (changed.has_other_pool, changed.has_other_version, changed.has_other_name) == (True, True, False)
    assert renamed.has_other_name


def test_another_build_of_a_release_is_another_version() -> None:
    assert between(chat(1, version="0.32.0"), chat(1, version="0.32.0+cpu")).replicas.changed
    assert between(chat(1, version="mine"), chat(1, version="yours")).replicas.changed


def test_one_process_behind_two_addresses_counts_once() -> None:
    before = one_process("a", "b")
    after = one_process("a", "b", **RESTARTED)
    replicas = between(before, after).replicas

    assert [each.after.name for each in replicas.restarted] == ["a"]
    assert len(between(before, []).replicas.removed) == 1
    assert len(between([], after).replicas.added) == 1


def test_an_address_more_or_less_of_a_process_is_no_replica_that_came_or_went() -> None:
    both, one = one_process("a", "b"), one_process("b")
    for before, after in ((both, one), (one, both)):
        replicas = between(before, after).replicas

        assert (replicas.added, replicas.removed) == ((), ())
        assert [each.after.name for each in replicas.both] == ["b"]
