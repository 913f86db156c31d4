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

TONES = {0: Tone.GOOD, 1: Tone.CRITICAL, 3: Tone.WARNING}


@pytest.mark.parametrize("pool", ["chat-70b", "embed-8b", "no-such-pool"])
@pytest.mark.parametrize("size", [16, 64])
def test_the_verdict_is_that_of_the_command(pool: str, size: int) -> None:
    service.put(story(), NOW)
    raw = f"version: 1\npool: {pool}\nexpected: {{{BLOCK_SIZE}: {size}}}\n".encode()
    Path("agreed.yaml").write_bytes(raw)
    Path("fleet.json").write_bytes(saved(story()))
    done = run("check", "--snapshot", "fleet.json", "--baseline", "agreed.yaml")
    baseline, mistakes = read_baseline(raw, "agreed.yaml")
    assert (mistakes, baseline is None) == ((), False)
    assert baseline is not None

    verdict, *deviations = check_blocks(story(), baseline)

    assert isinstance(verdict, Paragraph)
    assert to_plain(verdict.line) == f"check --baseline agreed.yaml {last_line(done)}"
    assert verdict.tone is TONES[done.exit_code]
    assert bool(deviations) is ("BL-01" in last_line(done))
    assert all(isinstance(each, Entries) for each in deviations)


def test_a_second_baseline_of_one_pool_is_refused_as_by_the_command() -> None:
    service.put(story(), NOW)
    other, _ = read_baseline(f"version: 1\npool: chat-*\nexpected: {{{BLOCK_SIZE}: 16}}\n".encode(), "other.yaml")
    assert other is not None

    with pytest.raises(OptionsError, match=r"other.yaml: pool: chat-\* already has a baseline in agreed.yaml"):
        check_blocks(with_baseline(story()), other)
