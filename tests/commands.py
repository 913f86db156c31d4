"""Commands run in this process."""

from typing import Any

from typer.testing import CliRunner, Result

from dashboard.cli import cli
from dashboard.demo import DemoServer, targets

BLOCK_SIZE_FAILS = "exit 1: 1 critical finding (RT-01 in chat-70b); --fail-on critical."


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run one command."""
    return CliRunner().invoke(cli, arguments, input=stdin)


def last_line(done: Result) -> str:
    """Return the last line on standard error."""
    return done.stderr.rstrip("\n").splitlines()[-1]


def assert_wrong_usage(done: Result, why: str) -> None:
    """Expect exit code 2, no result, and a last line with the reason."""
    assert (done.exit_code, done.stdout) == (2, "")
    assert last_line(done).startswith("exit 2: wrong ")
    assert why in last_line(done)
    assert ".." not in last_line(done).replace("../", "")


def demo_targets(demo: DemoServer) -> list[dict[str, Any]]:
    """Return the replicas of a simulated fleet as `targets` of the options."""
    return [{"url": each["targets"][0], "labels": each["labels"]} for each in targets(demo.fleet, demo.port)]
