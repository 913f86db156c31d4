"""The command line. Results go to standard output, everything else to standard error.

A command is imported when it is run or asked for its help: the list of commands costs none of them.
"""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import dashboard
from dashboard.cli.terminal import APP, PROGRAM, say, usage_errors, wrong


class Command(NamedTuple):
    """Where a command is defined, and what it does in one line."""

    module: str
    summary: str


COMMANDS = {
    "serve": Command("serve", "Show the fleet of fleet.yaml in the browser."),
    "demo": Command("serve", "Show a simulated fleet; no vLLM and no GPU needed (Linux)."),
    "poll": Command("poll", "Poll every replica once and print the fleet."),
    "check": Command("check", "Poll every replica once and evaluate the rules, for CI."),
    "rules": Command("rules", "List the rules, or print the page of one."),
    "baseline": Command("baseline", "Write a pool's settings as a baseline to edit."),
    "diff": Command("diff", "Compare two fleets: findings, settings, replicas, capacity."),
    "report": Command("report", "Write the review of a fleet as a file."),
    "snapshots": Command("snapshots", "Work on the files of frozen snapshots."),
}


class Commands(TyperGroup):
    """The commands. Wrong usage of any of them ends with 2 and one sentence that says what is wrong."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import a command; None where there is no such one."""
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(f"dashboard.cli.{COMMANDS[cmd_name].module}"), cmd_name)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(**APP)
            found.command(cmd_name)(function)
        return typer.main.get_command(found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """List the commands with what each does."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Read what stands before the command."""
        with usage_errors():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read what stands after the command, and run it."""
        with usage_errors():
            return super().invoke(ctx)


cli = typer.Typer(**APP, cls=Commands)


def main() -> None:
    """Run the command line."""
    cli(prog_name=PROGRAM)


@cli.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Compare the configuration of many vLLM replicas."""
    if version:
        print(f"vllm-fleet-dashboard {dashboard.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())
        wrong("no command is named")
