"""The command `completion`: commands, options and their values for the shell's Tab key."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer

from dashboard.cli.terminal import put

SCRIPT = "vllm-fleet"  # of the wheel
# After the command: its options, the values of an option, else files.
BASH = """\
_vllm_fleet() {
    local word command="" words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$command $word" in
            @COMMANDS@) command="${command:+$command }$word" ;;
        esac
    done
    case "$command ${COMP_WORDS[COMP_CWORD-1]}" in
@VALUES@
        *)
            case "$command" in
@WORDS@
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vllm_fleet vllm-fleet
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


class Completed(NamedTuple):
    """What can follow a command: its subcommands, and its options, each with its values."""

    commands: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes the command vllm-fleet of the wheel, not python -m dashboard, in a shell.

    For bash and zsh: source <(vllm-fleet completion bash); for fish: vllm-fleet completion fish | source. That for zsh
    is the script for bash, and was not tested in zsh.
    """
    from dashboard.cli import cli  # it imports this module

    found = dict(_walk(typer.main.get_command(cli), ""))
    put(_fish(found) if shell == "fish" else (ZSH if shell == "zsh" else "") + _bash(found))


def _walk(command: Any, path: str) -> Iterator[tuple[str, Completed]]:
    """Yield each command by its words, the program itself as an empty text."""
    context = typer.Context(command)
    names = tuple(command.list_commands(context)) if hasattr(command, "list_commands") else ()
    options: dict[str, tuple[str, ...]] = {}
    for each in command.get_params(context):
        if each.param_type_name == "option":
            kind = each.type_descriptor.annotation
            literals = [of for of in (kind, *get_args(kind)) if get_origin(of) is Literal]
            values = tuple(value for of in literals for value in get_args(of))
            options |= dict.fromkeys((*each.opts, *each.secondary_opts), values)
    yield path, Completed(names, options)
    for name in names:
        yield from _walk(command.get_command(context, name), f"{path} {name}".strip())


def _bash(found: Mapping[str, Completed]) -> str:
    values = [
        f"        {shlex.quote(f'{path} {option}')}) words={shlex.quote(' '.join(choices))} ;;"
        for path, each in found.items()
        for option, choices in each.options.items()
        if choices
    ]
    words = [
        f"                {shlex.quote(path)}) words={shlex.quote(' '.join((*each.commands, *each.options)))} ;;"
        for path, each in found.items()
    ]
    commands = "|".join(shlex.quote(f"{path} {name}") for path, each in found.items() for name in each.commands)
    written = BASH.replace("@COMMANDS@", commands).replace("@VALUES@", "\n".join(values))
    return written.replace("@WORDS@", "\n".join(words))


def _fish(found: Mapping[str, Completed]) -> str:
    lines = []
    for path, each in found.items():
        parts = path.split()
        seen = "; and ".join(f"__fish_seen_subcommand_from {part}" for part in parts) or "__fish_use_subcommand"
        if each.commands:
            below = f"; and not __fish_seen_subcommand_from {' '.join(each.commands)}" if parts else ""
            lines.append(f"complete -c {SCRIPT} -f -n '{seen}{below}' -a '{' '.join(each.commands)}'")
        for option, choices in each.options.items():
            name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = f" -xa {shlex.quote(' '.join(choices))}" if choices else ""
            lines.append(f"complete -c {SCRIPT} -n '{seen}' {name}{values}")
    return "".join(f"{line}\n" for line in lines)
