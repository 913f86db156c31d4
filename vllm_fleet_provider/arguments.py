"""The arguments that a server was started with: their names and where they were given, never their values."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.gathering import clean, found
from vllm_fleet_provider.shared.inference_config import MAX_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vllm_fleet_provider.gathering import Gathering

COMMAND_LINE, CONFIG_FILE, ENVIRONMENT = "command_line", "config_file", "environment"
FIELD = "fleet.set_arguments"
OTHER_START = "the server was not started by vLLM's command line"
NO_FILE = "the file of --config could not be read"
MAX_FILE_BYTES = 1024 * 1024
MODEL = "--model"
OPTIMIZATION = "--optimization-level"
# `-1` and `-0.5` are values. Everything else that argparse takes for an option begins with a letter.
_OPTION = re.compile(r"--[a-zA-Z][\w-]*|-[a-zA-Z]+")
# `vllm serve`, and `python -m vllm.entrypoints.openai.api_server`.
_COMMANDS = ("vllm", "vllm.exe")
_MODULE = "vllm/entrypoints/"


def arguments_of(state: Any, gathering: Gathering) -> list[dict[str, str]] | None:
    """Return every argument once, with the place that vLLM prefers; None with a reason if they cannot be known.

    The command line is preferred to the file of --config, and both to the environment. A JSON object or a dotted option
    gives one argument per key: `--compilation-config.cudagraph_mode`.
    """
    if not _is_vllm(sys.argv):
        gathering.lack(FIELD, OTHER_START)
        return None
    parsed = getattr(found(state, "args"), "__dict__", {})
    known = frozenset(parsed)
    try:
        given = [
            *((name, COMMAND_LINE) for name in _named(sys.argv[1:], known)),
            *((name, CONFIG_FILE) for name in _named(_in_file(sys.argv, parsed), known)),
            *((name, ENVIRONMENT) for name in _variables()),
        ]
    except Exception as error:  # noqa: BLE001  the file of an operator, or a vLLM without these variables
        gathering.lack(FIELD, NO_FILE if "--config" in sys.argv else f"reading them raised {type(error).__name__}")
        return None
    first = {clean(name): source for name, source in reversed(given)}
    names = list(dict.fromkeys(clean(name) for name, _ in given))[:MAX_ARGUMENTS]
    return [{"argument": name, "source": first[name]} for name in names]


def _is_vllm(argv: Sequence[str]) -> bool:
    program = Path(argv[0]) if argv else Path()
    return program.name in _COMMANDS or _MODULE in program.as_posix()


def _named(argv: Sequence[str], known: frozenset[str]) -> Iterator[str]:
    """Yield the names in a command line as vLLM's parser reads it (vllm/utils/argparse_utils.py, parse_args)."""
    words = [*argv[1:], ""] if argv[:1] == ["serve"] else [*argv, ""]
    if argv[:1] == ["serve"] and words[0] and not words[0].startswith("-"):
        yield MODEL
    for word, following in pairwise(words):
        option, is_joined, value = word.partition("=")
        name, *keys = option.removesuffix("+").split(".")
        if word.startswith("-O") and not keys:  # -O3, -O=3, -O 3
            yield OPTIMIZATION
        elif _OPTION.fullmatch(name):
            yield from _leaves(".".join([_full(name, known), *keys]), value if is_joined else following)


def _full(name: str, known: frozenset[str]) -> str:
    """Return an option with dashes, and in full: argparse also takes the beginning of a name that no other has."""
    if not name.startswith("--"):
        return name
    dest = name.removeprefix("--").replace("-", "_")
    longer = {each for each in known if each.startswith(dest)}
    is_short = dest not in known and len(longer) == 1
    return f"--{(longer.pop() if is_short else dest).replace('_', '-')}"


def _leaves(name: str, value: Any) -> Iterator[str]:
    """Yield an option, or one name for each key of its JSON object."""
    try:
        content = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    except ValueError:
        content = None
    if isinstance(content, dict) and content:
        for key, below in content.items():
            yield from _leaves(f"{name}.{key}", below if isinstance(below, dict) else None)
    else:
        yield name


def _in_file(argv: Sequence[str], parsed: Mapping[str, object]) -> list[str]:
    """Return the file of --config as a command line (vllm/utils/argparse_utils.py, load_config_file).

    `vllm serve` ignores `false` for an option that is not false by default: such an entry is not an argument.
    """
    if "--config" not in argv[:-1]:
        return []
    load = import_module("yaml").safe_load
    path = Path(argv[argv.index("--config") + 1])
    with path.open(encoding="utf-8") as file:
        content = load(file.read(MAX_FILE_BYTES))
    words: list[str] = []
    for key, value in content.items() if isinstance(content, dict) else ():
        if value is False and parsed.get(str(key).replace("-", "_")) is not False:
            continue
        words.append(f"--no-{key}" if value is False else f"--{key}")
        words += [json.dumps(value, default=str)] if isinstance(value, dict) else []
    return words


def _variables() -> list[str]:
    """Return the variables of vLLM that were set when the server started; vLLM sets some itself later."""
    known = import_module("vllm.envs").environment_variables
    given = _environment()
    return sorted(name for name in known if name.startswith("VLLM_") and "KEY" not in name and name in given)


def _environment() -> Mapping[str, object]:
    """Return the environment of the process that was started: of several API servers the parent's (proc(5))."""
    parent = multiprocessing.parent_process()
    try:
        raw = Path(f"/proc/{parent.pid if parent else 'self'}/environ").read_bytes()
    except OSError:
        return os.environ
    return dict.fromkeys(each.partition(b"=")[0].decode(errors="replace") for each in raw.split(b"\0"))
