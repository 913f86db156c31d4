"""Settings in a report of what changed: groups of replicas, and what could not be compared."""

from dashboard.fleet import State
from tests.analysis.changes.sides import BLOCK_SIZE, NEW, RESTARTED, SEQS, chat, silent
from tests.builders import document, down
from tests.report.changes.changed import entries, lines, paragraphs, report, rows, text


def test_a_group_shows_its_settings_its_restarts_and_its_replicas() -> None:
    many = document({BLOCK_SIZE: 32, SEQS: 512, **{f"x.y{number}": number for number in range(6)}})
    none = document({f"x.y{number}": None for number in range(6)})
    told = report(chat(2, none), chat(2, many, **RESTARTED), many, none)
    (group,) = entries(told, "settings")

    assert text(group.head) == "Both replicas of chat: block_size 16 to 32 and 7 more settings"
    assert group.side == "in A ×2 before and after"
    assert lines(group)[:2] == ["cache_config.block_size 16 to 32", "scheduler_config.max_num_seqs 256 to 512"]
    assert lines(group)[-2:] == ["and 2 more settings, in the appendix", "All of them restarted. chat-01 and chat-02"]
    assert len(rows(told, "setting-changes")) == 8
    assert rows(told, "setting-changes")[0] == ["chat", BLOCK_SIZE, "16", "32", "2", "chat-01 and chat-02"]


def test_what_is_not_compared_is_told_and_never_called_the_same() -> None:
    hidden = document({SEQS: silent(State.REDACTED)})
    after = [*chat(1, hidden), down("chat-02"), *chat(1, first=3), down("chat-04")]
    told = report([*chat(2), down("chat-03"), down("chat-04")], after, hidden)

    assert paragraphs(told, "settings") == [
        "No setting has another value on the 1 replica that were compared.",
        "Not compared, for they were not read on either side: 1 replica (chat-04).",
        "Not compared, for they were not read before: 1 replica (chat-03).",
        "Not compared, for they were not read after: 1 replica (chat-02).",
    ]
    (untold,) = entries(told, "one-sided")
    assert text(untold.head) == "No longer told, so no change is known"
    assert lines(untold) == ["1 setting of 1 replica of chat, redacted now: max_num_seqs."]


def test_what_is_told_now_and_what_is_ignored_is_said_and_long_lists_are_counted() -> None:
    bare = [document(base={"version": "0.32.0", "n": number}) for number in range(14)]
    full = [document({"n": number, SEQS: 1000 + number}) for number in range(14)]
    before = [each for number, one in enumerate(bare) for each in chat(1, one, first=number)]
    after = [each for number, one in enumerate(full) for each in chat(1, one, first=number)]
    (told,) = entries(report(before, after, *bare, *full), "one-sided")
    ignoring = report(chat(1), chat(1, NEW), ignored=(BLOCK_SIZE,))

    assert text(told.head) == "Now told, so no change is known"
    assert lines(told)[-1].startswith("16 settings of 14 replicas of chat, not reported before: block_size, ")
    assert "Changed, but left out because fleet.yaml says that it does not matter: cache_config.block_size." in (
        paragraphs(ignoring, "settings")
    )


def test_many_groups_of_settings_are_cut() -> None:
    each_its_own = [document({SEQS: number}) for number in range(45)]
    after = [one for number, told in enumerate(each_its_own) for one in chat(1, told, first=number)]
    told = report(chat(45, first=0), after, *each_its_own)

    assert len(entries(told, "settings")) == 40
    assert paragraphs(told, "settings")[0] == "5 more groups of replicas stand in the appendix."
    assert len(rows(told, "setting-changes")) == 45
