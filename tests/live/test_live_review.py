"""An ops review on live servers: agreed, frozen, one replica restarted otherwise, found, discussed, and put right."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page

from dashboard.fleet.formatting import short_id
from tests.browser import chromium, tab
from tests.live.review_story import (
    AGREED,
    MEETING,
    NAMES,
    ODD,
    OWNER,
    SERVER_INFO,
    Desk,
    Ran,
    await_poll,
    differing,
    drop_answers,
    freeze,
    key_of,
    read_plan,
    shown,
    take_note,
)
from tests.live.servers import Server, running
from tests.serving import dashboard_on, free_port

pytestmark = pytest.mark.vllm
FIRST, SECOND = NAMES
BLOCK_SIZE, ALGORITHM = "cache_config.block_size", "cache_config.prefix_caching_hash_algo"
DEFAULT_BLOCK_SIZE = "128"  # tokens, of vLLM 0.32 on a CPU


class Calm(NamedTuple):
    """While both servers are alike: what was agreed, what was frozen, and what its link opens."""

    made: Ran
    checked: Ran
    key: str
    seen: str
    reports: dict[str, bytes]


class Split(NamedTuple):
    """After the second was started otherwise: what commands and pages say, and what is to be pasted."""

    checked: Ran
    compared: Ran
    seen: str
    html: bytes
    noted: tuple[str, str]
    review: str
    plan: str
    flags: tuple[str, ...]
    live: dict[str, set[str]]
    dropped: dict[str, set[str]]


class Mended(NamedTuple):
    """After the second was started with what was to be pasted."""

    checked: Ran
    compared: Ran
    seen: str
    review: str


class Story(NamedTuple):
    """The review from its begin to its end."""

    calm: Calm
    split: Split
    mended: Mended


@pytest.fixture(scope="module")
def story(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Go through the whole review once."""
    folder = tmp_path_factory.mktemp("review")
    desk = Desk(folder, (free_port(), free_port()))
    with running([desk.kind(FIRST)], venv, folder) as (first,), ExitStack() as second, chromium() as browser:
        first.json(SERVER_INFO)  # the first answer takes longer than a poll waits
        _start(second, desk, venv)
        with dashboard_on(desk.config) as url, tab(browser) as page:
            calm = _calm(desk, page, url)
            odd = _start(second, desk, venv, *ODD)
            split = _split(desk, page, url, calm.key, [first, odd])
            _start(second, desk, venv, *ODD, *split.flags)
            return Story(calm, split, _mended(desk, page, url, calm.key))


def _start(second: ExitStack, desk: Desk, venv: Path, *more: str) -> Server:
    """End the second server if it runs, and start it."""
    second.close()
    (server,) = second.enter_context(running([desk.kind(SECOND, *more)], venv, desk.folder))
    server.json(SERVER_INFO)
    return server


def _calm(desk: Desk, page: Page, url: str) -> Calm:
    await_poll(page, url, cohorts=1)
    baseline = desk.folder / "chat.yaml"
    made = desk.run("baseline", "chat", "-o", str(baseline))
    link = freeze(page, url)
    key = key_of(link)
    reports = {output: desk.reported(key, output) for output in ("html", "pdf", "markdown")}
    return Calm(made, _checked(desk), key, shown(page, link), reports)


def _split(desk: Desk, page: Page, url: str, key: str, servers: list[Server]) -> Split:
    await_poll(page, url, cohorts=2)
    html = desk.reported(key, "html")
    plan, flags = read_plan(page, url, SECOND)
    return Split(
        checked=_checked(desk),
        compared=desk.run("diff", key, "live"),
        seen=_link(page, url, key),
        html=html,
        noted=take_note(page, f"{url}/review?snapshot={key}"),
        review=shown(page, f"{url}/review"),
        plan=plan,
        flags=flags,
        live=differing(page, f"{url}/compare?pool=chat"),
        dropped=differing(page, f"{url}/compare?snapshot={drop_answers(page, url, servers)}"),
    )


def _mended(desk: Desk, page: Page, url: str, key: str) -> Mended:
    await_poll(page, url, cohorts=1)
    seen, review = _link(page, url, key), shown(page, f"{url}/review?from={key}")
    return Mended(_checked(desk), desk.run("diff", key, "live"), seen, review)


def _checked(desk: Desk) -> Ran:
    return desk.run("check", "--baseline", str(desk.folder / "chat.yaml"))


def _link(page: Page, url: str, key: str) -> str:
    return shown(page, f"{url}/compare?pool=chat&snapshot={key}")


def test_a_baseline_of_both_has_all_settings_that_development_mode_reports(story: Story) -> None:
    words = story.calm.made.last.split()

    assert story.calm.made.code == 0, story.calm.made.last
    assert story.calm.made.last.endswith("of cohort A, 2 replicas.")
    assert int(words[words.index("settings") - 1]) > 300


def test_the_pool_that_it_was_made_of_passes(story: Story) -> None:
    assert story.calm.checked.code == 0, story.calm.checked.last


def test_the_snapshot_is_reported_in_every_format(story: Story) -> None:
    reports = story.calm.reports

    assert reports["pdf"].startswith(b"%PDF-")
    assert reports["html"].startswith(b"<!DOCTYPE html>")
    assert f"snapshot {short_id(story.calm.key)} “{MEETING}”" in reports["markdown"].decode()
    assert f"snapshot {short_id(story.calm.key)} “{MEETING}”" in reports["html"].decode()


def test_the_check_fails_once_a_replica_deviates_and_its_last_line_has_the_reason(story: Story) -> None:
    assert story.split.checked.code == 1
    assert story.split.checked.last.startswith("exit 1: ")
    assert "BL-01 in chat" in story.split.checked.last
    assert f"block_size is 32, expected {DEFAULT_BLOCK_SIZE}" in " ".join(story.split.checked.out.split())


def test_what_changed_since_the_snapshot_names_the_replica_its_restart_and_the_settings(story: Story) -> None:
    compared = story.split.compared

    assert compared.code == 1
    assert f"1 of 2 replicas of chat: block_size {DEFAULT_BLOCK_SIZE} -> 32" in compared.out
    assert f"{ALGORITHM} sha256 -> sha256_cbor" in compared.out
    assert f"Restarted. {SECOND}" in compared.out
    assert "RT-01 block-size-differs" in compared.out
    assert compared.last.startswith("exit 1: 2 new findings; 1 replica changed")


def test_the_old_link_opens_what_was_seen_while_the_fleet_goes_on(story: Story) -> None:
    assert story.calm.key in story.calm.seen
    assert MEETING in story.calm.seen
    assert story.split.seen == story.calm.seen
    assert story.mended.seen == story.calm.seen


def test_the_report_of_the_snapshot_is_the_same_bytes_later(story: Story) -> None:
    assert story.split.html == story.calm.reports["html"]


def test_a_note_survives_and_the_next_review_shows_it(story: Story) -> None:
    assert story.split.noted == (OWNER, AGREED)
    assert f"At the last review, {OWNER}: {AGREED}" in story.split.review


def test_the_review_lists_what_is_new_since_the_last_one(story: Story) -> None:
    new = story.split.review.partition("New since the last review")[2]

    assert MEETING in new
    assert "2 new findings; 1 replica changed" in new, new
    assert "RT-05 hash-algorithm-differs" in new


def test_the_plan_restarts_one_of_two_and_says_what_to_paste(story: Story) -> None:
    wanted = {"--block-size", DEFAULT_BLOCK_SIZE, "--prefix-caching-hash-algo", "sha256"}

    assert story.split.plan.count("Restart 1 replica of chat") == 2
    assert set(story.split.flags) == wanted


def test_what_was_pasted_takes_the_difference_away(story: Story) -> None:
    compared = story.mended.compared

    assert "No settings changed on 2 replicas." in compared.out
    assert "New findings 0" in compared.out
    assert SECOND in compared.out.partition("1 replica restarted")[2]
    assert story.mended.checked.code == 0, story.mended.checked.last
    assert compared.last == "exit 1: 1 replica restarted."
    assert "1 replica restarted" in story.mended.review, story.mended.review
    assert "RT-01" not in story.mended.review


def test_answers_that_were_saved_with_curl_give_a_fleet_with_the_same_differences(story: Story) -> None:
    assert story.split.live[BLOCK_SIZE] == {DEFAULT_BLOCK_SIZE, "32"}
    assert story.split.live[ALGORITHM] == {"sha256", "sha256_cbor"}
    assert story.split.dropped == story.split.live
