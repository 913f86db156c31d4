"""The command line. Results go to standard output, everything else to standard error.

A command is imported when it runs or prints its help; the list of commands imports none.
"""

import ast
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dashboard
from dashboard.cli.terminal import APP, PROGRAM, say, usage_errors, wrong
from dashboard.logs import follow_environment

# Each command and its module.
COMMANDS = {
    "serve": "serve",
    "demo": "serve",
    "poll": "poll",
    "check": "check",
    "plan": "plan",
    "settings": "settings",
    "validate": "validate",
    "rules": "rules",
    "baseline": "baseline",
    "diff": "diff",
    "report": "report",
    "history": "history",
    "screenshot": "screenshot",
    "mcp": "mcp",
    "token": "token",
    "alert-test": "alert_test",
    "completion": "completion",
}


def _summary(name: str) -> str:
    """Return the first line of a command's docstring without importing its module."""
    tree = ast.parse(Path(__file__).with_name(f"{COMMANDS[name]}.py").read_text(encoding="utf-8"))
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    return (ast.get_docstring(functions.get(name.replace("-", "_")) or functions["about"]) or "").partition("\n")[0]


class Commands(TyperGroup):
    """The commands. Wrong usage of any of them exits with 2 and one sentence."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the arguments; a misspelled one gets a suggestion."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = get_close_matches(args[0].lower(), COMMANDS, 1)
            wrong(
                f"there is no command {args[0]!r}{f'; did you mean {near[0]}?' if near else ''} See `{PROGRAM} --help`"
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(f"dashboard.cli.{COMMANDS[cmd_name]}"), cmd_name.replace("-", "_"))
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(**APP)
            found.command(cmd_name)(function)
        return typer.main.get_command(found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in COMMANDS])

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Parse the arguments before the command."""
        with usage_errors():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments after the command, and run it."""
        with usage_errors():
            return super().invoke(ctx)


cli = typer.Typer(**APP, cls=Commands)


def main() -> None:
    follow_environment()
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
        wrong("no command given")
