"""The list of what happened in between: when, what, where, and which values, in words."""

from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.changes.events import Event, EventKind, gap_event
from dashboard.fleet import Gap
from dashboard.fleet.pieces import to_plain
from dashboard.views.blocks import Table, Tone
from dashboard.views.changes_text import what_happened, when_text
from tests.builders import HOSTILE, NOW

BEFORE = NOW - timedelta(minutes=5)


def event(kind: EventKind, **more: Any) -> Event:
    return Event(kind, **{"at": NOW, "after": BEFORE, "pools": ("chat",), **more})


def row_of(one: Event) -> tuple[list[str], Tone]:
    """The texts of its row, and the tone of the change."""
    section = what_happened([one], BEFORE, NOW).section
    assert section is not None
    table = section.blocks[-1]
    assert isinstance(table, Table)
    (row,) = table.rows
    return [to_plain(cell.pieces) or cell.text for cell in row], row[1].tone


@pytest.mark.parametrize(
    ("one", "texts", "tone"),
    [
        (
            event(EventKind.FINDING_BEGAN, rule="RT-01", sentence="It is 32.", now="critical", is_suppressed=True),
            ["Finding began", "chat", "RT-01 block-size-differs: It is 32.", "critical, suppressed"],
            Tone.PLAIN,
        ),
        (
            event(EventKind.FINDING_ENDED, rule="XX-99", sentence="Gone.", now="warning"),
            ["Finding ended", "chat", "XX-99: Gone.", "warning"],
            Tone.GOOD,
        ),
        (
            event(EventKind.SEVERITY, rule="RT-01", sentence="It is 32.", before="critical", now="warning"),
            ["Severity changed", "chat", "RT-01 block-size-differs: It is 32.", "critical -> warning"],
            Tone.WARNING,
        ),
        (
            event(
                EventKind.SEVERITY,
                rule="XX-99",
                sentence="It is 32.",
                before="critical",
                now="critical, suppressed",
                is_suppressed=True,
            ),
            ["Finding suppressed", "chat", "XX-99: It is 32.", "critical"],
            Tone.PLAIN,
        ),
        (
            event(
                EventKind.SEVERITY, rule="XX-99", sentence="It is 32.", before="critical, suppressed", now="critical"
            ),
            ["Suppression ended", "chat", "XX-99: It is 32.", "critical"],
            Tone.PLAIN,  # somebody undid it, or its date came: the finding is no news
        ),
        (
            event(
                EventKind.SEVERITY,
                rule="XX-99",
                sentence="It is 32.",
                before="warning",
                now="critical, suppressed",
                is_suppressed=True,
            ),
            ["Severity changed", "chat", "XX-99: It is 32.", "warning -> critical, suppressed"],
            Tone.PLAIN,
        ),
        (
            event(EventKind.SPREAD, rule="XX-99", sentence="It is 32.", now="critical", spread=(1, 1_200)),
            ["Finding spread", "chat", "XX-99: It is 32.", "critical, 1 -> 1,200 replicas"],
            Tone.CRITICAL,
        ),
        (gap_event(Gap(BEFORE, None), NOW), ["No poll was recorded", "", "", ""], Tone.UNKNOWN),
    ],
    ids=["suppressed", "ended", "severity", "suppressed since", "expired", "both", "spread", "gap"],
)
def test_each_kind_is_a_row(one: Event, texts: list[str], tone: Tone) -> None:
    assert row_of(one) == (["2026-03-02 between 11:37 and 11:42", *texts], tone)


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (BEFORE, "2026-03-02 between 11:37 and 11:42"),
        (NOW - timedelta(seconds=15), "2026-03-02 between 11:41:58 and 11:42:13"),
        (NOW - timedelta(days=1), "2026-03-01 between 11:42 and 2026-03-02 11:42"),
        (None, "2026-03-02 11:42"),
    ],
)
def test_the_time_of_a_change_is_that_of_the_polls_around_it(after: Any, text: str) -> None:
    assert when_text(event(EventKind.ADDED, after=after)) == text


def test_the_head_counts_changes_and_gaps_apart() -> None:
    found = what_happened([event(EventKind.ADDED), gap_event(Gap(BEFORE, NOW), NOW)], BEFORE, NOW)

    assert found.words == "1 change and 1 gap in between"
    assert found.section is not None
    assert found.section.title == "Events (2)"


def test_foreign_names_stay_one_line() -> None:
    texts, _ = row_of(event(EventKind.ADDED, pools=(HOSTILE,), replicas=(("x", HOSTILE),)))

    assert not any("\n" in text for text in texts)
