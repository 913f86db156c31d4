"""Timelines of a history: what the database counts is what the polls had."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import COLUMNS, MarkKind, Period, TimelineGroup, TimelineMark
from dashboard.fleet import Gap, Setting, Source, State
from dashboard.rules.findings import Severity, Suppression
from dashboard.views.time_chart import details_of
from tests.captured import AT
from tests.e2e.frozen_fleets import STORY, frozen
from tests.polled_fleets import at, built, unreachable
from tests.store.history.recorded import POLL, Recorded, later
from tests.store.history.week import (
    BEGIN,
    CHAT,
    CHAT_ROLLOUT,
    DECODE,
    GAP,
    GAP_HOURS,
    HOUR,
    MOST_SEQUENCES,
    QWEN,
    QWEN_ROLLOUT,
    RESTARTS,
    record_week,
)

EMBED, LLAMA = {"pool": "embed"}, {"pool": "chat"}
FLEETS = (
    built(at(1, labels=LLAMA)),
    built(at(1, labels=LLAMA), at(2, labels=LLAMA)),
    built(at(1, labels=LLAMA), at(2, "llama_noprefix", labels=LLAMA)),
    built(at(1, labels=EMBED), at(2, labels=LLAMA), unreachable(3, pool="chat")),
)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return frozen(STORY)


@pytest.fixture(scope="module")
def week(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    history = Recorded(tmp_path_factory.mktemp("week"))
    record_week(history, fleet)
    history.writer.close()
    return history


@pytest.fixture(scope="module")
def period(fleet: Fleet) -> Period:
    assert fleet.polled_at is not None
    return Period(fleet.polled_at - BEGIN * HOUR, fleet.polled_at)


def counted(groups: tuple[TimelineGroup, ...], time: datetime) -> dict[tuple[str, str], int]:
    """The number of replicas by pool and key at a time, without those that are 0."""
    return {(each.pool, each.key): number for each in groups if (number := each.number_at(time))}


def cohorts(fleet: Fleet) -> dict[tuple[str, str], int]:
    return {(pool.name, each.document): len(each.replicas) for pool in fleet.pools for each in pool.cohorts}


def documents(fleet: Fleet) -> dict[tuple[str, str], int]:
    return dict(Counter((each.pool, each.document) for each in fleet.replicas if each.pool and each.document))


@settings(max_examples=settings().max_examples // 5)
@given(st.lists(st.sampled_from(FLEETS), min_size=1, max_size=6), st.integers(0, 5))
def test_a_timeline_counts_what_each_poll_had(polls: list[Fleet], first: int) -> None:
    """Also where the period begins between polls, and polls of other settings follow each other."""
    times = [AT + number * POLL for number in range(len(polls))]
    period = Period(AT + first * POLL - POLL / 2, AT + (first + COLUMNS / 4) * POLL)
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        recorded = [history.record(replace(each, polled_at=time)) for each, time in zip(polls, times, strict=True)]
        found = history.reader.timeline(period)
        values = history.reader.setting_timeline(period, "cache_config.block_size")
        history.writer.close()

    for each, time in zip(recorded, times, strict=True):
        if time > period.since:
            assert counted(found.groups, time) == cohorts(each)
            by_pool = Counter(pool for (pool, _), number in documents(each).items() for _ in range(number))
            known = counted(values.groups, time)
            assert Counter({pool: sum(n for (p, _), n in known.items() if p == pool) for pool in by_pool}) == by_pool


def test_a_rollout_of_a_week_is_one_mark(week: Recorded, period: Period) -> None:
    marks = [each for each in week.reader.timeline(period).marks if each.kind in {MarkKind.ROLLOUT, MarkKind.SETTINGS}]
    begin = period.until - CHAT_ROLLOUT * HOUR

    assert [(each.kind, each.pools, each.text) for each in marks] == [
        (MarkKind.ROLLOUT, (CHAT,), "rollout 0.31.0 -> 0.32.0 (16/16)"),
        (MarkKind.SETTINGS, (QWEN,), "settings changed (6/6)"),
    ]
    assert (marks[0].at, marks[1].at) == (begin, period.until - QWEN_ROLLOUT * HOUR)
    assert marks[0].until - begin == timedelta(minutes=135)


def test_restarts_and_findings_are_marks_of_their_pools(week: Recorded, period: Period) -> None:
    restarts = [each for each in week.reader.timeline(period, DECODE).marks if each.kind is MarkKind.RESTART]
    chat = week.reader.timeline(period, CHAT)
    began, ended = ([each for each in chat.marks if each.kind is kind] for kind in (MarkKind.WARNING, MarkKind.ENDED))

    assert [each.text for each in restarts] == [f"deepseek-v3-decode-{number} restarted" for number in range(3)]
    assert restarts[0].at == period.until - RESTARTS * HOUR
    assert {CHAT} == {pool for each in chat.marks for pool in each.pools} == {each.pool for each in chat.groups}
    assert began[0].at == period.until - CHAT_ROLLOUT * HOUR
    assert (began[0].text, began[0].number) == ("Rollout in progress: 0.32.0 -> 0.31.0 (14/16).", 2)
    assert began[0].at < ended[-1].at < began[0].at + 3 * HOUR


def marks_of(folder: Path, polls: Iterable[Mapping[str, Any]]) -> tuple[TimelineMark, ...]:
    """Record a finding that changes from poll to poll; return what its timeline has."""
    history = Recorded(folder)
    fleet = built(*(at(number, labels=LLAMA) for number in range(3)), at(4, "llama_noprefix", labels=LLAMA))
    for number, changes in enumerate(polls):
        found = (replace(fleet.inspection.findings[0], **changes),)
        parts = {"findings": (), "suppressed": found} if "suppression" in changes else {"findings": found}
        inspection = replace(fleet.inspection, **parts)
        history.record(replace(fleet, inspection=inspection, polled_at=AT + number * POLL))
    return history.reader.timeline(Period(AT - POLL, AT + 4 * POLL)).marks


@pytest.mark.parametrize(
    ("before", "now", "mark"),
    [
        (Severity.WARNING, Severity.CRITICAL, (MarkKind.CRITICAL, "warning")),
        (Severity.INFO, Severity.WARNING, (MarkKind.WARNING, "info")),
        (Severity.INFO, Severity.CRITICAL, (MarkKind.CRITICAL, "info")),
        (Severity.CRITICAL, Severity.WARNING, None),
        (Severity.WARNING, Severity.INFO, None),
    ],
)
def test_a_finding_that_becomes_worse_has_a_mark_with_its_severity_before(
    tmp_path: Path, before: Severity, now: Severity, mark: tuple[MarkKind, str] | None
) -> None:
    found = marks_of(tmp_path, [{"severity": each} for each in (before, now, now)])

    assert [(each.kind, each.before) for each in found if each.text] == ([mark] if mark else [])
    assert [each.at for each in found] == ([AT + POLL] if mark else [])


def test_a_finding_that_spreads_has_a_mark_with_its_severity(tmp_path: Path) -> None:
    ids = [f"http://10.0.0.{number}:8000" for number in range(2)]
    polls = [{"severity": Severity.WARNING, "replicas": tuple(ids[:number])} for number in (1, 2, 1, 1)]
    (found,) = marks_of(tmp_path, polls)

    assert (found.kind, found.before, found.at) == (MarkKind.WARNING, "warning", AT + POLL)
    assert details_of(found).startswith("worse, on more replicas: ")


def test_a_suppressed_finding_has_no_mark_where_it_becomes_worse(tmp_path: Path) -> None:
    suppression = Suppression("RT-01", "a", "b", AT.date())
    polls = [{"severity": each, "suppression": suppression} for each in (Severity.WARNING, Severity.CRITICAL)]
    assert marks_of(tmp_path, polls) == ()


def test_a_finding_that_the_recording_began_with_has_no_beginning(week: Recorded, period: Period) -> None:
    first = week.reader.timeline(Period(period.since - HOUR, period.since + HOUR))

    assert first.groups
    assert first.marks == ()


def test_a_cohort_whose_most_complete_replica_is_removed_is_no_rollout(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    both = built(at(1, labels=LLAMA), at(2, paths=None, labels=LLAMA))
    others = built(at(1, "llama_noprefix", labels=LLAMA))
    for number, each in enumerate((both, FLEETS[0], others)):
        history.record(replace(each, polled_at=AT + number * POLL))
    found = history.reader.timeline(Period(AT - POLL, AT + 3 * POLL))

    assert len(found.groups) == 3
    assert [(each.at, each.text) for each in found.marks if each.kind is MarkKind.SETTINGS] == [
        (AT + 2 * POLL, "settings changed (1/1)")
    ]


def test_times_without_polls_are_gaps(week: Recorded, period: Period) -> None:
    begin = period.until - GAP * HOUR
    (gap,) = week.reader.timeline(period).gaps
    before, *_ = week.reader.timeline(Period(period.since - HOUR, period.until)).gaps

    assert gap == Gap(begin, begin + GAP_HOURS * HOUR)
    assert before == Gap(period.since - HOUR, period.since)


def test_a_replica_has_its_settings_state_and_version(week: Recorded, period: Period, fleet: Fleet) -> None:
    one = next(each for each in fleet.replicas if each.pool == CHAT)
    found = week.reader.replica_timeline(period, one.id)
    end, begin = counted(found.groups, period.until), counted(found.groups, period.since)
    restarted = next(each.id for each in fleet.replicas if each.pool == DECODE)

    assert end == {("document", one.document): 1, ("state", "up"): 1, ("version", "0.32.0"): 1}
    assert begin.keys() - end.keys() == {
        ("document", *{key for name, key in begin if name == "document"}),
        ("version", "0.31.0"),
    }
    assert [each.kind for each in week.reader.replica_timeline(period, restarted).marks] == [MarkKind.RESTART]
    assert week.reader.replica_timeline(period, "http://unknown:1").groups == ()


def test_a_setting_has_its_values_by_pool(week: Recorded, period: Period) -> None:
    found = week.reader.setting_timeline(period, MOST_SEQUENCES, CHAT).groups

    assert counted(found, period.since) == {(CHAT, "77"): 16}
    assert counted(found, period.until) == {(CHAT, "256"): 15, (CHAT, "128"): 1}
    assert {pool for pool, _ in counted(week.reader.setting_timeline(period, MOST_SEQUENCES).groups, period.until)} > {
        CHAT
    }


def test_a_setting_that_nobody_reports_is_not_reported(week: Recorded, period: Period) -> None:
    found = week.reader.setting_timeline(period, "cache_config.no_such_setting", CHAT).groups

    assert counted(found, period.until) == {(CHAT, "not reported"): 16}


def test_a_setting_is_not_a_key_within_the_value_of_another_one(tmp_path: Path) -> None:
    history, one = Recorded(tmp_path), FLEETS[0].replicas[0]
    document = FLEETS[0].documents[str(one.document)]
    nested = Setting('{"z.path":{"value":1},"value":2}', State.REPORTED, Source.METRICS)
    own = Setting('"own"', State.REPORTED, Source.METRICS)
    settings = {"a.object": nested, "z.path": own, "é.path": own, **document.settings}
    history.record(replace(FLEETS[0], polled_at=AT, documents={document.id: replace(document, settings=settings)}))
    period = Period(AT - HOUR, AT)

    for path, text in (("z.path", "own"), ("é.path", "own"), ("value", "not reported")):
        assert [each.key for each in history.reader.setting_timeline(period, path).groups] == [text]


def test_the_number_of_steps_is_bounded(tmp_path: Path) -> None:
    """A pool that changes at every poll has one step a column."""
    history = Recorded(tmp_path)
    period = Period(AT, AT + 2 * COLUMNS * POLL)
    for number in range(300):
        history.record(later(FLEETS[number % 2], number * POLL))
    found = history.reader.timeline(period)

    assert all(len(each.steps) <= COLUMNS + 1 for each in found.groups)
    assert counted(found.groups, AT + 299 * POLL) == cohorts(FLEETS[1])


def test_an_empty_history_has_gaps_only(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    history.record(replace(FLEETS[0], polled_at=AT))
    before = Period(AT - 2 * HOUR, AT - HOUR)

    assert history.reader.timeline(before).groups == ()
    assert history.reader.setting_timeline(before, "cache_config.block_size").groups == ()
    assert history.reader.timeline(before).gaps == (Gap(before.since, None),)
