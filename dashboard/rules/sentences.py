"""Parts of the sentences of findings: settings, values and names as pieces of text."""

import json
from collections.abc import Iterable

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import middle_cut, one_line, setting_text
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, join_texts, shortlist_texts, value
from dashboard.rules.connector_options import EXTRA

MAX_VALUES = 4  # values that a sentence names before it counts the rest
ADAPTERS = "adapters"
NAME_LENGTH = 60  # characters of a foreign name
MAIN_SECTIONS = ("cache_config.", "model_config.", "scheduler_config.", "parallel_config.", f"{EXTRA}.", "env.")
UNITS = {
    "cache_config.kv_offloading_size": " GiB",
    "cache_config.cpu_offload_gb": " GiB",
    "offload_config.uva.cpu_offload_gb": " GiB",
}


def write(*parts: str | Piece | Text) -> Text:
    """Return parts as one text: strings are plain."""
    pieces: list[Piece] = []
    for part in parts:
        if isinstance(part, str):
            pieces += [Piece(part)] if part else []
        else:
            pieces += [part] if isinstance(part, Piece) else part
    return tuple(pieces)


def setting_name(path: str) -> str:
    """Return a setting's path, without its section where that is one of vLLM's main ones."""
    if path == "version":
        return "vLLM version"
    return next((path.removeprefix(each) for each in MAIN_SECTIONS if path.startswith(each)), path)


def setting_piece(path: str) -> Piece:
    style = Style.PLAIN if path == "version" else Style.CODE
    return Piece(setting_name(path), style, Link(Kind.SETTING, path))


def setting_label(path: str) -> Text:
    """Return a setting's name as text; `adapters.NAME` is the path of a LoRA adapter."""
    section, _, name = path.partition(".")
    return write("Path of LoRA adapter ", name_piece(name)) if section == ADAPTERS else write(setting_piece(path))


def to_text(setting: SettingValue, path: str = "") -> str:
    """Return a value as text, with the unit of its path; `unset` for null."""
    if setting.state is State.NULL:
        return "unset"
    return setting_text(setting.value, setting.state) + (UNITS.get(path, "") if setting.state is State.REPORTED else "")


def value_piece(setting: SettingValue, path: str = "") -> Piece:
    """Return a value as a piece; `unset` is plain."""
    return Piece(to_text(setting, path)) if setting.state is State.NULL else value(to_text(setting, path))


def values_text(values: Iterable[SettingValue], path: str = "", last: str = " or ") -> Text:
    """Return the first values of a setting as `16 or 32`."""
    return join_texts(((value_piece(each, path),) for each in list(values)[:MAX_VALUES]), last=last)


def name_piece(name: str, length: int = NAME_LENGTH) -> Piece:
    """Return a foreign name as a piece: on one line, cut in the middle."""
    return value(middle_cut(one_line(name), length))


def names_text(names: Iterable[str], most: int = MAX_VALUES) -> Text:
    """Return the first foreign names as `a, b and 3 more`."""
    return shortlist_texts([(name_piece(each),) for each in names], most)


def sides_text(sides: Iterable[tuple[Text, int]], noun: str = "value") -> Text:
    """Return values with their numbers of replicas: `16 on 2, 32 on 1 and 2 more values`."""
    return shortlist_texts([write(text, f" on {number:,}") for text, number in sides], MAX_VALUES, noun)


def names_of(setting: SettingValue) -> Text:
    return join_texts((name_piece(name),) for name in json.loads(setting.value))


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
