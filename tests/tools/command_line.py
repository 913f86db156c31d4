"""docs/command-line.md: the help of every command, as it is printed."""

from pathlib import Path

from typer.testing import CliRunner

from dashboard.cli import cli
from dashboard.cli.terminal import PROGRAM

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
COMMANDS = (
    "demo",
    "serve",
    "poll",
    "check",
    "plan",
    "report",
    "diff",
    "baseline",
    "settings",
    "validate",
    "rules",
    "history stats",
    "history prune",
    "history export",
    "screenshot",
    "mcp",
    "token new",
    "alert-test",
    "completion",
)
WIDTH = 78  # of a terminal of 80 columns, as typer leaves two
NOTE = "<!-- Written by `make docs` from what the commands print. -->"
_INTRODUCTION = """\
# Command line

Results go to standard output, all else to standard error. `FILE_OR_ID` is what `poll --format json --full` wrote,
a snapshot that was exported from the browser, or the id of a frozen snapshot of the dashboard with these
options; `-` reads standard input.
"""


def page_text() -> str:
    """Return the page as it is committed."""
    blocks = [f"## {name}\n\n```\n$ python -m dashboard {name} --help\n{_help(name)}```\n" for name in COMMANDS]
    return "\n".join([NOTE, "", _INTRODUCTION, *blocks])


def _help(name: str) -> str:
    return CliRunner().invoke(cli, [*name.split(), "--help"], prog_name=PROGRAM, terminal_width=WIDTH).stdout
