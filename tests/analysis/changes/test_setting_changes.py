"""Settings that changed: groups of replicas, what only one side tells, what is left out."""

import pytest

from dashboard.analysis.changes import CohortCount, changes_between
from dashboard.fleet import SettingChange, SettingValue, State
from tests.analysis.changes.sides import (
    BLOCK_SIZE,
    NEW,
    OLD,
    RESTARTED,
    SEQS,
    between,
    chat,
    fleet,
    ids,
    one_process,
    silent,
)
from tests.builders import CONFIG, document, down, replica, setting

SIXTEEN, THIRTY_TWO = SettingValue("16", State.REPORTED), SettingValue("32", State.REPORTED)
BLOCKS = SettingChange(BLOCK_SIZE, SIXTEEN, THIRTY_TWO)


def test_replicas_in_which_the_same_changed_are_one_group() -> None:
    settings = between(chat(4), [*chat(1), *chat(3, NEW, first=2, **RESTARTED)]).settings
    (group,) = settings.groups

    assert group.pools == ("chat", "chat")
    assert group.changes == (BLOCKS,)
    assert group.replicas == ids("chat-02", "chat-03", "chat-04")
    assert group.pool_sizes == (4, 4)
    assert (group.cohorts_before, group.cohorts_after) == ((CohortCount("A", 3),), (CohortCount("A", 3),))
    assert (group.restarted, group.start_untold) == (3, 0)
    assert settings.compared == 4
    assert settings.replicas == set(group.replicas)
    assert settings.by_replica[group.replicas[0]] == (BLOCKS,)


def test_settings_that_changed_in_the_same_replicas_stand_in_one_group_what_decides_sharing_first() -> None:
    much = document({BLOCK_SIZE: 32, SEQS: 512, "version": "0.33.0", "cache_config.hash_block_size": 32})
    (group,) = between(chat(2), chat(2, much), much).settings.groups

    assert [each.path for each in group.changes] == [BLOCK_SIZE, "cache_config.hash_block_size", "version", SEQS]


def test_a_setting_that_more_replicas_share_than_another_is_a_group_of_its_own() -> None:
    more = document({BLOCK_SIZE: 32, SEQS: 512})
    groups = between(chat(3), [*chat(2, NEW), *chat(1, more, first=3)], more).settings.groups

    assert [(each.changes[0].path, len(each.replicas)) for each in groups] == [(BLOCK_SIZE, 3), (SEQS, 1)]


def test_pools_are_not_mixed_and_a_move_between_pools_is_its_own_group() -> None:
    before = [*chat(1), replica("e", pool="embed", document=OLD), replica("m", pool="embed", document=OLD)]
    after = [*chat(1, NEW), replica("e", pool="embed", document=NEW), replica("m", pool="chat", document=NEW)]
    groups = between(before, after).settings.groups

    assert {each.pools: each.pool_sizes for each in groups} == {
        ("chat", "chat"): (1, 2),
        ("embed", "embed"): (2, 1),
        ("embed", "chat"): (2, 2),
    }


def test_null_is_a_value_like_any_other() -> None:
    path = "cache_config.kv_offloading_size"
    some = document({path: 64})
    (group,) = between(chat(1), chat(1, some), some).settings.groups

    assert group.changes == (SettingChange(path, SettingValue("null", State.NULL), SettingValue("64", State.REPORTED)),)


@pytest.mark.parametrize("state", [State.REDACTED, State.UNKNOWN])
def test_what_has_no_value_on_one_side_is_no_change_but_no_longer_told(state: State) -> None:
    hidden = document({SEQS: silent(state)})
    now = between(chat(2), chat(2, hidden), hidden).settings
    back = between(chat(2, hidden), chat(2), hidden).settings

    assert (now.groups, back.groups, now.now_told, back.no_longer_told) == ((), (), (), ())
    (lost,) = now.no_longer_told
    assert (lost.paths, lost.replicas, lost.why) == ((SEQS,), ids("chat-01", "chat-02"), state)
    assert back.now_told == now.no_longer_told


def test_two_redacted_values_are_never_compared() -> None:
    one, other = (document({SEQS: setting(mark, State.REDACTED)}) for mark in ("<a>", "<b>"))
    changes = between(chat(1, one), chat(1, other), one, other)

    assert changes.is_empty


def test_what_has_no_value_on_either_side_is_not_spoken_of() -> None:
    one, other = (document({SEQS: silent(state)}) for state in (State.REDACTED, State.UNKNOWN))

    assert between(chat(1, one), chat(1, other), one, other).is_empty


def test_null_of_what_the_engine_fills_in_later_is_not_known() -> None:
    later = document({"cache_config.hash_block_size": None})
    settings = between(chat(1), chat(1, later), later).settings

    assert not settings.groups
    assert settings.no_longer_told[0].why is State.UNKNOWN


def test_settings_of_another_source_that_tells_less_are_no_longer_told_together() -> None:
    less = document(base={"version": "0.32.0", BLOCK_SIZE: 16})
    (lost,) = between(chat(3), chat(3, less), less).settings.no_longer_told

    assert set(lost.paths) == CONFIG.keys() - {"version", BLOCK_SIZE}
    assert (len(lost.replicas), lost.why) == (3, State.ABSENT)


def test_a_path_that_the_other_version_does_not_have_says_so() -> None:
    path = "cache_config.hash_block_size"
    old = document(base={"version": "0.12.0", BLOCK_SIZE: 16})
    new = document(base={"version": "0.32.0", BLOCK_SIZE: 16, path: 16})
    (told,) = between(chat(1, old), chat(1, new), old, new).settings.now_told

    assert (told.paths, told.why) == ((path,), State.UNSUPPORTED)


def test_a_section_that_was_null_changes_by_its_leaves() -> None:
    off = document({"speculative_config": None})
    on = document({"speculative_config.method": "eagle", "speculative_config.num_speculative_tokens": 3})
    (group,) = between(chat(1, off), chat(1, on), off, on).settings.groups

    assert [(each.path, each.before.state) for each in group.changes] == [
        ("speculative_config.method", State.NULL),
        ("speculative_config.num_speculative_tokens", State.NULL),
    ]


@pytest.mark.parametrize("side", ["then", "now"])
def test_what_fleet_yaml_of_either_side_ignores_is_left_out_and_counted(side: str) -> None:
    both = document({BLOCK_SIZE: 32, SEQS: 512})
    settings = between(chat(2), chat(2, both), both, **{side: {"ignore": ("scheduler_config.*",)}}).settings

    assert [each.path for each in settings.groups[0].changes] == [BLOCK_SIZE]
    assert settings.ignored == (SEQS,)


def test_what_is_ignored_and_no_longer_told_is_not_spoken_of() -> None:
    hidden = document({SEQS: silent(State.REDACTED)})
    settings = between(chat(1), chat(1, hidden), hidden, now={"ignore": (SEQS,)}).settings

    assert (settings.no_longer_told, settings.ignored) == ((), ())


def test_a_replica_that_could_not_be_read_is_not_compared_and_never_the_same() -> None:
    stale = chat(1, NEW, first=3, fresh=False)
    settings = between(
        chat(4), [*chat(1), down("chat-02", document=OLD, fresh=True), *stale, *chat(1, first=4)]
    ).settings

    assert (settings.compared, settings.groups) == (2, ())
    assert (settings.unread_before, settings.unread_after) == ((), ids("chat-02", "chat-03"))


def test_a_change_without_a_restart_is_counted_as_that() -> None:
    before = [*chat(1), *chat(1, first=2, started_at=None), *chat(1, first=3)]
    after = [*chat(1, NEW), *chat(1, NEW, first=2), *chat(1, NEW, first=3, **RESTARTED)]
    (group,) = between(before, after).settings.groups

    assert (len(group.replicas), group.restarted, group.start_untold) == (3, 1, 1)


def test_one_process_behind_two_addresses_changes_once() -> None:
    (group,) = between(one_process("a", "b"), one_process("a", "b", told=NEW)).settings.groups

    assert group.replicas == ids("a")
    assert group.pool_sizes == (1, 1)


def test_documents_are_compared_by_what_they_say_not_by_what_they_are_called() -> None:
    """A file can be written by hand: the same id on both sides proves nothing."""
    forged = type(NEW)(OLD.id, NEW.version, NEW.settings)
    then, now = chat(1), chat(1, forged)
    changes = changes_between(fleet(*then, told=[OLD]), fleet(*now, told=[forged]))

    assert changes.settings.groups[0].changes == (BLOCKS,)


def test_groups_that_decide_sharing_come_first_then_the_larger_ones() -> None:
    seqs, tokens = document({SEQS: 512}), document({"scheduler_config.max_num_batched_tokens": 1})
    after = [*chat(3, seqs), *chat(2, tokens, first=4), *chat(1, NEW, first=6)]
    groups = between(chat(6), after, seqs, tokens).settings.groups

    assert [each.changes[0].path for each in groups] == [BLOCK_SIZE, SEQS, "scheduler_config.max_num_batched_tokens"]
