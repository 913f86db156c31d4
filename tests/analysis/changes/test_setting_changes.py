"""Settings that changed: groups of replicas, settings that only one side reports, ignored and unread ones."""

from typing import Any

import pytest

from dashboard.analysis.changes import changes_between
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
    without_value,
)
from tests.builders import CONFIG, document, down, replica, setting

BLOCKS = SettingChange(BLOCK_SIZE, SettingValue("16", State.REPORTED), SettingValue("32", State.REPORTED))
HIDDEN = document({SEQS: without_value(State.REDACTED)})


def test_replicas_with_the_same_change_are_one_group() -> None:
    settings = between(chat(4), [*chat(1), *chat(3, NEW, first=2, **RESTARTED)]).settings
    (group,) = settings.groups

    assert (group.pools, group.changes, group.pool_sizes) == (("chat", "chat"), (BLOCKS,), (4, 4))
    assert group.replicas == ids("chat-02", "chat-03", "chat-04")
    assert (group.cohorts_before, group.cohorts_after) == ({"B": 3}, {"A": 3})
    assert (group.restarted, group.start_unknown, settings.compared) == (3, 0, 4)
    assert settings.by_replica == dict.fromkeys(settings.replicas, (BLOCKS,))


def test_settings_that_changed_together_are_one_group_with_those_that_decide_prefix_sharing_first() -> None:
    much = document({BLOCK_SIZE: 32, SEQS: 512, "version": "0.33.0", "cache_config.hash_block_size": 32})
    (group,) = between(chat(2), chat(2, much), much).settings.groups

    assert [each.path for each in group.changes] == [BLOCK_SIZE, "cache_config.hash_block_size", "version", SEQS]


def test_groups_are_sorted_by_prefix_sharing_and_size() -> None:
    tokens = "scheduler_config.max_num_batched_tokens"
    more, seqs, batch = document({BLOCK_SIZE: 32, SEQS: 512}), document({SEQS: 512}), document({tokens: 1})
    nested = between(chat(3), [*chat(2, NEW), *chat(1, more, first=3)], more).settings.groups
    apart = between(chat(6), [*chat(3, seqs), *chat(2, batch, first=4), *chat(1, NEW, first=6)], seqs, batch).settings

    assert [(each.changes[0].path, len(each.replicas)) for each in nested] == [(BLOCK_SIZE, 3), (SEQS, 1)]
    assert [each.changes[0].path for each in apart.groups] == [BLOCK_SIZE, SEQS, tokens]


def test_pools_are_not_mixed_and_a_move_between_pools_is_its_own_group() -> None:
    before = [*chat(1), replica("e", pool="embed", document=OLD), replica("m", pool="embed", document=OLD)]
    after = [*chat(1, NEW), replica("e", pool="embed", document=NEW), replica("m", pool="chat", document=NEW)]
    groups = between(before, after).settings.groups

    assert {each.pools: each.pool_sizes for each in groups} == {
        ("chat", "chat"): (1, 2),
        ("embed", "embed"): (2, 1),
        ("embed", "chat"): (2, 2),
    }


def test_null_is_a_value_also_for_a_whole_section() -> None:
    size, method, tokens = (
        "cache_config.kv_offloading_size",
        "speculative_config.method",
        "speculative_config.num_speculative_tokens",
    )
    off, on = document({"speculative_config": None}), document({size: 64, method: "eagle", tokens: 3})
    (group,) = between(chat(1, off), chat(1, on), off, on).settings.groups

    assert [(each.path, each.before.state, each.after.value) for each in group.changes] == [
        (size, State.NULL, "64"),
        (method, State.NULL, '"eagle"'),
        (tokens, State.NULL, "3"),
    ]


@pytest.mark.parametrize("state", [State.REDACTED, State.UNKNOWN])
def test_a_setting_without_a_value_on_one_side_is_not_a_change(state: State) -> None:
    hidden = document({SEQS: without_value(state)})
    now = between(chat(2), chat(2, hidden), hidden).settings
    back = between(chat(2, hidden), chat(2), hidden).settings

    assert (now.groups, back.groups, now.newly_reported, back.no_longer_reported) == ((), (), (), ())
    (lost,) = now.no_longer_reported
    assert (lost.paths, lost.replicas, lost.why) == ((SEQS,), ids("chat-01", "chat-02"), state)
    assert back.newly_reported == now.no_longer_reported


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (setting("<a>", State.REDACTED), setting("<b>", State.REDACTED)),
        (without_value(State.REDACTED), without_value(State.UNKNOWN)),
    ],
)
def test_settings_without_a_value_on_both_sides_are_not_compared(one: Any, other: Any) -> None:
    before, after = document({SEQS: one}), document({SEQS: other})

    assert between(chat(1, before), chat(1, after), before, after).is_empty


def test_settings_that_a_source_no_longer_reports_are_grouped_by_reason() -> None:
    later = document({"cache_config.hash_block_size": None})  # the engine resolves it later: null is unknown
    less = document(base={"version": "0.32.0", BLOCK_SIZE: 16})
    (unknown,) = between(chat(1), chat(1, later), later).settings.no_longer_reported
    (absent,) = between(chat(3), chat(3, less), less).settings.no_longer_reported

    assert unknown.why is State.UNKNOWN
    assert (set(absent.paths), absent.why) == (CONFIG.keys() - {"version", BLOCK_SIZE}, State.ABSENT)
    assert len(absent.replicas) == 3


def test_a_setting_that_one_version_does_not_have_is_unsupported() -> None:
    path = "cache_config.hash_block_size"
    old = document(base={"version": "0.12.0", BLOCK_SIZE: 16})
    new = document(base={"version": "0.32.0", BLOCK_SIZE: 16, path: 16})
    (found,) = between(chat(1, old), chat(1, new), old, new).settings.newly_reported

    assert (found.paths, found.why) == ((path,), State.UNSUPPORTED)


@pytest.mark.parametrize("side", ["then", "now"])
def test_settings_that_fleet_yaml_of_either_side_ignores_are_listed_apart(side: str) -> None:
    both = document({BLOCK_SIZE: 32, SEQS: 512})
    ignoring: dict[str, Any] = {side: {"ignore": ("scheduler_config.*",)}}
    settings = between(chat(2), chat(2, both), both, **ignoring).settings
    hidden = between(chat(1), chat(1, HIDDEN), HIDDEN, **ignoring).settings

    assert ([each.path for each in settings.groups[0].changes], settings.ignored) == ([BLOCK_SIZE], (SEQS,))
    assert (hidden.no_longer_reported, hidden.ignored) == ((), ())


def test_replicas_that_were_not_read_on_a_side_are_not_compared() -> None:
    lost = [down("chat-02", document=OLD, fresh=True), *chat(1, NEW, first=3, fresh=False)]
    settings = between(chat(4), [*chat(1), *lost, *chat(1, first=4)]).settings

    assert (settings.compared, settings.groups) == (2, ())
    assert (settings.unread_before, settings.unread_after) == ((), ids("chat-02", "chat-03"))


def test_restarts_and_unknown_start_times_of_a_group_are_counted() -> None:
    before = [*chat(1), *chat(1, first=2, started_at=None), *chat(1, first=3)]
    after = [*chat(1, NEW), *chat(1, NEW, first=2), *chat(1, NEW, first=3, **RESTARTED)]
    (group,) = between(before, after).settings.groups

    assert (len(group.replicas), group.restarted, group.start_unknown) == (3, 1, 1)


def test_one_process_behind_two_addresses_changes_once() -> None:
    (group,) = between(one_process("a", "b"), one_process("a", "b", document=NEW)).settings.groups

    assert (group.replicas, group.pool_sizes) == (ids("a"), (1, 1))


def test_documents_are_compared_by_content_because_ids_of_an_edited_file_prove_nothing() -> None:
    forged = type(NEW)(OLD.id, NEW.version, NEW.settings)
    changes = changes_between(fleet(*chat(1), documents=[OLD]), fleet(*chat(1, forged), documents=[forged]))

    assert changes.settings.groups[0].changes == (BLOCKS,)


def test_another_spelling_of_one_value_is_no_change() -> None:
    """A pinned id and the snapshot of that commit; `auto` and the model's dtype."""
    kv_dtype, revision = "cache_config.cache_dtype", "model_config.revision"
    pinned = document({"model_config.model": "org/llama", revision: "abc", kv_dtype: "auto"})
    snapshot = {"model_config.model": "org/llama", revision: None, kv_dtype: CONFIG["model_config.dtype"]}
    same, other = (document({**snapshot, "model_snapshot": commit}) for commit in ("abc", "def"))

    assert between(chat(document=pinned), chat(document=same), pinned, same).settings.groups == ()
    (group,) = between(chat(document=pinned), chat(document=other), pinned, other).settings.groups
    assert [each.path for each in group.changes] == [revision]
