"""Changed files of options are loaded again; wrong, missing and half-written ones keep the last good options."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.config import load_options, policy_of
from dashboard.config.load import OptionsFiles, ReloadStatus

pytestmark = pytest.mark.usefixtures("working_folder")

AT = datetime(2026, 11, 23, 14, 2, tzinfo=UTC)
ENTRY = "suppress:\n- {rule: RT-01, owner: ann, reason: canary, until: 2026-12-31}\n"


def files_of(text: str = "name: a\ntargets: [gpu-1]\n") -> OptionsFiles:
    """The options of a fleet.yaml in the working folder."""
    write(text)
    return OptionsFiles(load_options(), lambda: AT)


def write(text: str, name: str = "fleet.yaml") -> None:
    """Write a file; its time of change is a second later than before."""
    file = Path(name)
    later = file.stat().st_mtime_ns + 10**9 if file.exists() else None
    file.write_text(text)
    if later:
        os.utime(file, ns=(later, later))


def test_a_changed_file_is_loaded_once_it_stays_alike() -> None:
    files = files_of()

    assert not files.check()
    write("name: b\ntargets: [gpu-1]\n")
    assert [files.check() for _ in range(3)] == [False, True, False]
    assert (files.options.name, files.status.mistakes) == ("b", ())


def test_a_file_that_is_still_written_is_left_alone() -> None:
    files = files_of()

    for text in ("targets:\n", "targets:\n- gpu-1\n", "targets:\n- gpu-1\n- gpu-2\n"):
        write(text)
        assert not files.check()
    assert len(files.options.targets) == 1
    assert files.check()
    assert len(files.options.targets) == 2


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("name: a\ntargets: [gpu-1]\nnmae: b\n", "fleet.yaml:3: nmae: unknown key; did you mean name?"),
        ("name: [", "fleet.yaml:1: not YAML: did not find expected node content"),
        ("", "fleet.yaml:1: empty; write the options again"),
        (None, "fleet.yaml: No such file or directory; name an options file that can be read"),
    ],
)
def test_a_wrong_file_keeps_the_last_good_options_and_their_time(text: str | None, mistake: str) -> None:
    files = files_of()
    before = files.options

    Path("fleet.yaml").unlink() if text is None else write(text)
    assert not files.reload()
    assert files.options is before
    assert files.status == ReloadStatus(AT, (mistake,))

    write("name: good\n")
    assert files.reload()
    assert files.status == ReloadStatus(AT)


def test_the_log_says_when_a_wrong_file_is_right_again(caplog: pytest.LogCaptureFixture) -> None:
    files = files_of()
    for text in ("name: [", "name: good\n", "name: better\n"):
        write(text)
        files.reload()

    levels = [(record.levelname, record.getMessage().partition(",")[0]) for record in caplog.records]
    assert levels == [("WARNING", "reload failed"), ("WARNING", "options reloaded")]  # the third one is no news


def test_mistakes_name_the_file_without_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("name: a\n")
    files = OptionsFiles(load_options(file), lambda: AT)
    file.write_text("nmae: a\n")
    files.reload()

    assert files.status.mistakes == ("fleet.yaml:1: nmae: unknown key; did you mean name?",)


def test_options_that_the_server_read_at_its_start_stay_and_need_a_restart() -> None:
    files = files_of()
    write("name: b\nallowed_hosts: [fleet.example.com]\nread_only: true\n")

    assert files.reload()
    assert files.status.restart_required == ("read_only", "allowed_hosts")
    assert (files.options.name, files.options.allowed_hosts, files.options.read_only) == ("b", (), False)

    write("name: b\n")
    files.reload()
    assert not files.status.restart_required


def test_a_changed_baseline_or_suppressions_file_is_loaded_too() -> None:
    baseline = "version: 1\npool: chat\nexpected: {cache_config.block_size: 16}\n"
    write(baseline, "chat.yaml")
    files = files_of("baselines: ['*chat.yaml']\nsuppressions_file: accepted.yaml\n")
    assert policy_of(files.options).suppressions == ()

    write(ENTRY, "accepted.yaml")
    assert [files.check(), files.check()] == [False, True]
    (entry,) = policy_of(files.options).suppressions
    assert (entry.owner, entry.file, entry.number) == ("ann", "accepted.yaml", 1)

    write(baseline.replace("16", "32"), "chat.yaml")
    assert [files.check(), files.check()] == [False, True]
    assert files.options.agreed[0].expected == {"cache_config.block_size": "32"}

    write("suppress: 3\n", "accepted.yaml")
    assert not files.reload()
    assert files.status.mistakes == ("accepted.yaml:1: suppress: not a list; begin each entry with `- `",)


def test_tokens_of_a_file_are_loaded_again_and_stay_while_it_is_wrong() -> None:
    digests = "a" * 64, "b" * 64
    tokens = "tokens: [{{name: ci, role: viewer, sha256: {}}}]\n"
    write(tokens.format(digests[0]), "tokens.yaml")
    files = files_of("access: {tokens_file: tokens.yaml}\n")
    assert [each.sha256 for each in files.options.access.tokens] == [digests[0]]

    write(tokens.format(digests[1]), "tokens.yaml")
    assert [files.check(), files.check()] == [False, True]
    assert [each.sha256 for each in files.options.access.tokens] == [digests[1]]

    write("tokens: [{name: ci}]\n", "tokens.yaml")
    assert not files.reload()
    missing = (f"tokens.yaml:1: tokens[0].{name}: missing" for name in ("role", "sha256"))
    assert files.status.mistakes == tuple(missing)
    assert [each.sha256 for each in files.options.access.tokens] == [digests[1]]


def test_a_file_that_appears_is_loaded_and_no_file_is_no_mistake() -> None:
    files = OptionsFiles(load_options(), lambda: AT)
    assert not files.reload()
    assert files.status.mistakes == ()

    write("name: first\n")
    assert [files.check(), files.check()] == [False, True]
    assert files.options.name == "first"
