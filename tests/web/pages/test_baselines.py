"""The check against a baseline in the browser says what the command says."""

from pathlib import Path

import pytest

from dashboard import service
from dashboard.config.baselines import read_baseline
from dashboard.errors import OptionsError
from dashboard.fleet.pieces import to_plain
from dashboard.views.blocks import Entries, Paragraph, Tone
from dashboard.web.pages.baselines import check_blocks
from tests.builders import NOW, story
from tests.commands import last_line, run
from tests.saved_fleets import saved
from tests.web.pages.test_compare import BLOCK_SIZE, with_baseline

pytestmark = pytest.mark.usefixtures("service_folder", "working_folder")


@pytest.mark.parametrize(
    ("pool", "size", "said", "tone"),
    [
        ("chat-70b", 16, "1 deviation from agreed.yaml on 1 replica", Tone.CRITICAL),
        ("chat-70b", 64, "2 deviations from agreed.yaml on 17 replicas", Tone.CRITICAL),
        ("embed-8b", 16, "No deviation from agreed.yaml", Tone.GOOD),
        ("embed-8b", 64, "1 deviation from agreed.yaml on 10 replicas", Tone.CRITICAL),
        ("no-such-pool", 16, "No replica was compared with agreed.yaml (it matches no pool)", Tone.UNKNOWN),
    ],
)
def test_the_answer_is_about_the_pool_and_the_last_line_is_that_of_the_command(
    pool: str, size: int, said: str, tone: Tone
) -> None:
    service.put(story(), NOW)
    raw = f"version: 1\npool: {pool}\nexpected: {{{BLOCK_SIZE}: {size}}}\n".encode()
    Path("agreed.yaml").write_bytes(raw)
    Path("fleet.json").write_bytes(saved(story()))
    done = run("check", "--snapshot", "fleet.json", "--baseline", "agreed.yaml")
    baseline, mistakes = read_baseline(raw, "agreed.yaml")
    assert (mistakes, baseline is None) == ((), False)
    assert baseline is not None

    answer, *deviations, verdict = check_blocks(story(), baseline)

    assert isinstance(verdict, Paragraph)
    assert isinstance(answer, Paragraph)
    assert to_plain(answer.line).startswith(said)
    assert answer.tone is tone
    assert to_plain(verdict.line) == f"In CI, for the whole fleet: check --baseline agreed.yaml {last_line(done)}"
    assert bool(deviations) is ("BL-01" in last_line(done))
    assert all(isinstance(each, Entries) for each in deviations)


def test_a_second_baseline_of_one_pool_is_refused_as_by_the_command() -> None:
    service.put(story(), NOW)
    other, _ = read_baseline(f"version: 1\npool: chat-*\nexpected: {{{BLOCK_SIZE}: 16}}\n".encode(), "other.yaml")
    assert other is not None

    with pytest.raises(OptionsError, match=r"other.yaml: pool: chat-\* already has a baseline in agreed.yaml"):
        check_blocks(with_baseline(story()), other)
