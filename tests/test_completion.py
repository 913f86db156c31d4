"""The scripts that complete vllm-fleet, in bash and fish. That for zsh is bash's."""

import subprocess
from pathlib import Path

import pytest

from dashboard.cli import COMMANDS
from tests.commands import run

# Typed words, of which the last is completed, and some of the answers.
TYPED = [
    (["ch"], {"check"}),
    ([""], set(COMMANDS)),
    (["check", "--fo"], {"--format"}),
    (["check", "--format", ""], {"table", "json", "markdown", "junit", "sarif", "github"}),
    (["check", "--config", "history", "--fail-on", "w"], {"warning"}),
    (["history", "ex"], {"export"}),
    (["history", "export", "--out"], {"--output"}),
    (["serve", "--log-format", ""], {"text", "json"}),
]
BASH = """
source "$1"; shift
COMP_WORDS=(vllm-fleet "$@"); COMP_CWORD=$#
_vllm_fleet
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, folder: Path) -> Path:
    file = folder / f"completion.{shell}"
    file.write_text(run("completion", shell).stdout)
    return file


def answers(command: list[str]) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize(("words", "expected"), TYPED)
def test_bash_completes_commands_options_and_values(words: list[str], expected: set[str], tmp_path: Path) -> None:
    found = answers(["bash", "--norc", "-c", BASH, "bash", str(script("bash", tmp_path)), *words])

    assert expected <= found
    assert not words[-1] or all(each.startswith(words[-1]) for each in found)


@pytest.mark.parametrize(("words", "expected"), TYPED)
def test_fish_completes_commands_options_and_values(words: list[str], expected: set[str], tmp_path: Path) -> None:
    typed = " ".join(["vllm-fleet", *words])
    found = answers(["fish", "--no-config", "-c", f"source {script('fish', tmp_path)}; complete -C '{typed}'"])

    assert expected <= found


def test_the_script_for_zsh_is_that_of_bash() -> None:
    assert run("completion", "zsh").stdout.endswith(run("completion", "bash").stdout)


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert run("completion", "tcsh").exit_code == 2
