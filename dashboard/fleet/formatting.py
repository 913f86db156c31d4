"""Formats numbers, times, settings and foreign text for people."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from dashboard.fleet import Basis, FailureKind, Source, State
from dashboard.fleet.traffic import LEAST_REQUESTS, LEAST_TOKENS, Traffic

MAX_NAMES = 20_000  # of replicas whose sorting keys are kept
# Azure Pipelines, TeamCity and the older form of GitHub find these anywhere in a line of a log.
COMMAND_MARK = r"#(?=#(?i:\[|vso\[|teamcity\[))"
# Controls except tab and line feed, directions, joiners, fillers, invisible characters, those invalid in UTF-8 or XML.
HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
# The same in UTF-8 without characters that JSON always escapes, and `#` that begins a command.
_UNSAFE_IN_JSON = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8f]"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xe3\x85\xa4|\xef\xbb\xbf|\xef\xbe\xa0|\xef\xbf[\xb0-\xbb\xbe\xbf]"
    rb"|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0[\x80-\xbf][\x80-\xbf]|" + COMMAND_MARK.encode()
)
# GitHub looks for `::` after white space where a line begins (actions/runner, ActionCommand.cs).
_COMMAND = re.compile(rf"^[^\S\n]*:(?=:)|{COMMAND_MARK}", re.MULTILINE)


def visible(text: str) -> str:
    """Return text with its line breaks and tabs; characters that hide or move text are replaced by a visible one."""
    if text.isascii() and text.isprintable():  # most texts: nothing to search for
        return text
    return HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def without_commands(text: str) -> str:
    """Return text without lines that a CI system runs as commands: `: :error::`, `# #[error]`."""
    return _COMMAND.sub(r"\g<0> ", text)


def safe_json(raw: bytes) -> bytes:
    """Return equal JSON in UTF-8; characters that hide or move text, or begin a command in a log, are escaped."""
    return _UNSAFE_IN_JSON.sub(_escaped, raw)


def _escaped(found: re.Match[bytes]) -> bytes:
    units = found.group().decode().encode("utf-16-be")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))


NOT_KNOWN = "unknown"
STATE_WORDS = {
    State.ABSENT: "not reported",
    State.UNSUPPORTED: "unsupported",
    State.REDACTED: "redacted",
    State.UNKNOWN: NOT_KNOWN,
}
FAILURE_WORDS = {
    FailureKind.DNS: "name not found",
    FailureKind.REFUSED: "connection refused",
    FailureKind.TIMEOUT: "timeout",
    FailureKind.TLS: "no trusted TLS",
    FailureKind.PROTOCOL: "connection broken off",
    FailureKind.UNAUTHORIZED: "no valid API key",
    FailureKind.STATUS: "unexpected status",
    FailureKind.TOO_LARGE: "answer too large",
    FailureKind.DECODE: "unreadable answer",
    FailureKind.SCHEMA: "answer of unknown shape",
    FailureKind.TARGET: "no usable address",
    FailureKind.FRONTEND: "Rust frontend",
    FailureKind.NOT_VLLM: "not vLLM",
}
SOURCE_WORDS = {
    Source.PROVIDER: "the provider",
    Source.SERVER_INFO: "/server_info",
    Source.GRPC: "gRPC",
    Source.CONFIG_API: "config API",
    Source.PLUGIN: "plugin API",
    Source.METRICS: "/metrics",
    Source.MODELS: "/v1/models",
    Source.VERSION: "/version",
    Source.KV_EVENT_SOURCES: "/kv_event_sources",
}
STALE_TARGET = "Its source of targets cannot be read, so it may be gone."
SHORT_ID = 10  # digits of a snapshot's id that are shown: unique, and short enough to type from a slide
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
LIST_HEAD = 3  # entries of a long list that are shown before it is cut
LONG_LIST = 6  # lists up to this length are shown whole
FEW, SOME, MANY, MOST = 3, 4, 8, 12  # names that a shortlist has before it counts the rest
LONG_TEXT = 44  # characters of a value that a cell shows
# A spreadsheet runs cells that begin so, also in full width. Where `;` separates cells, it splits quoted cells too.
FORMULA_STARTS = tuple("=+-@＝＋－＠﹢﹣﹦﹫")
FORMULA = re.compile(rf"(?:^|(?<=;))(?=\s*[{re.escape(''.join(FORMULA_STARTS))}])")
_NUMBER = re.compile(r"-[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def short_id(snapshot: str) -> str:
    return snapshot[:SHORT_ID]


def plain_value(value: str) -> str:
    """Return canonical JSON text for a cell: a string without its quotes, unless it reads as JSON itself."""
    loaded = json.loads(value)
    return loaded if isinstance(loaded, str) and not _reads_as_json(loaded) else value


def setting_text(value: str, state: State) -> str:
    """Write one setting on one line; a state without a value in words. `value` is canonical JSON text.

    A string that reads as a number, a boolean or null keeps its quotes: "16" is not 16.
    """
    if state in STATE_WORDS:
        return STATE_WORDS[state]
    loaded = json.loads(value)
    if isinstance(loaded, str):
        return value if _reads_as_json(loaded) else middle_cut(one_line(loaded), LONG_TEXT)
    if isinstance(loaded, list) and len(loaded) > LONG_LIST:
        head = ", ".join(one_line(json.dumps(item, ensure_ascii=False)) for item in loaded[:LIST_HEAD])
        return f"[{middle_cut(head, LONG_TEXT)}, … {len(loaded)} values]"
    return middle_cut(one_line(value), LONG_TEXT)


def whole_text(value: str, state: State) -> str:
    """Write one setting uncut: objects and lists of them as indented JSON, strings without quotes."""
    if state in STATE_WORDS:
        return STATE_WORDS[state]
    loaded = json.loads(value)
    if isinstance(loaded, str):
        return value if _reads_as_json(loaded) else visible(loaded)
    return visible(json.dumps(loaded, indent=2 if _is_nested(loaded) else None, ensure_ascii=False))


def one_line(text: str) -> str:
    """Return foreign text on one line: white space becomes spaces, characters that hide or move text are replaced."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " if each.isspace() else "\ufffd" for each in text)
    return visible(text)


def end_cut(text: str, length: int = 200) -> str:
    """Return foreign text on one line, cut at its end."""
    text = one_line(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def csv_cell(text: str) -> str:
    """Return foreign text for a CSV cell: formulas are quoted, negative numbers are not."""
    flat = one_line(text)
    return flat if _NUMBER.fullmatch(flat) else FORMULA.sub("'", flat)


def uncapitalized(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def middle_cut(text: str, length: int) -> str:
    """Cut a long text in the middle: hashes and paths differ at either end."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Write `1 replica`, `1,000 replicas`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def in_words(number: int) -> str:
    """Write a small number as a word, a larger one in digits."""
    return NUMBER_WORDS[number] if 0 <= number < len(NUMBER_WORDS) else f"{number:,}"


def joined(words: list[str]) -> str:
    """Write `A`, `A and B`, `A, B and C`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shortlist(words: Iterable[str], most: int = FEW) -> str:
    """Write `A, B and C`; of more than `most` words the first and a count: `A, B, C and 12 more`."""
    known = list(words)
    more = len(known) - most
    return joined([*known[:most], f"{more:,} more"] if more > 0 else known)


def short(number: float | None, basis: Basis = Basis.REPORTED) -> str:
    """Write a count in three digits with its scale: `18.4 M`; an upper bound as `≤ 18.4 M`."""
    if number is None or basis is Basis.UNKNOWN:
        return NOT_KNOWN
    return at_most(_scaled(number, _SCALES), basis)


def size(number: float | None, basis: Basis = Basis.REPORTED) -> str:
    """Write bytes in binary units: `3.4 TiB`."""
    if number is None or basis is Basis.UNKNOWN:
        return NOT_KNOWN
    return at_most(_scaled(number, _BYTES) if number >= _BYTES[-1][0] else f"{number:,.0f} B", basis)


def exact(number: int | None, basis: Basis = Basis.REPORTED) -> str:
    """Write a count with separators: `38,912,000`."""
    if number is None or basis is Basis.UNKNOWN:
        return NOT_KNOWN
    return at_most(f"{number:,}", basis)


def at_most(text: str, basis: Basis) -> str:
    """Mark an upper bound: a number whose basis is assumed."""
    return f"≤ {text}" if basis is Basis.ASSUMED else text


def share(part: float) -> str:
    """Return a share from 0 to 1 in percent: 62%. It is 100% only if that is all, 0% if it is nothing."""
    percent = f"{part:.0%}"
    if 0 < part < 1 and percent in {"0%", "100%"}:
        return "<1%" if percent == "0%" else ">99%"
    return percent


def hit_rate(traffic: Traffic) -> str:
    """Return the prefix hit rate of some traffic: 62%; without one that it is unknown: `missing_rate` says why."""
    rate = traffic.hit_rate
    return "unknown" if rate is None else share(rate)


def missing_word(traffic: Traffic) -> str:
    """Return why some traffic has no prefix hit rate in few words; empty where it has one."""
    if traffic.hit_rate is not None:
        return ""
    is_unknown = traffic.queries is None or traffic.requests is None
    if is_unknown and traffic.refused:
        return "not counted"
    if not traffic.seconds:
        return "not read twice yet"
    if is_unknown:
        return "unsupported"
    return "not enough traffic" if traffic.requests else "no requests"


def missing_rate(traffic: Traffic) -> str:
    """Return why some traffic has no prefix hit rate; empty where it has one."""
    word = missing_word(traffic)
    if word == "not counted":
        return not_counted(traffic)
    if word == "unsupported":
        return "/metrics has no counters of the prefix cache or of requests."
    if word == "no requests":
        return f"No requests in {duration(traffic.seconds)}."
    if word != "not enough traffic":
        return f"{word.capitalize()}." if word else ""
    requests, tokens = traffic.requests or 0, traffic.queries or 0
    few = [f"{requests:,.0f} requests (minimum {LEAST_REQUESTS})"] if requests < LEAST_REQUESTS else []
    few += [f"{tokens:,.0f} prompt tokens (minimum {LEAST_TOKENS:,})"] if tokens < LEAST_TOKENS else []
    return f"Not enough traffic: {joined(few)} in {duration(traffic.seconds)}."


def not_counted(traffic: Traffic) -> str:
    """Return which counters were refused, and why; empty without any."""
    shown, more = list(traffic.refused[:FEW]), len(traffic.refused) - FEW
    if more > 0:
        shown.append(f"{more:,} more")
    return f"Not counted: {'; '.join(shown)}." if shown else ""


def age(seconds: float) -> str:
    """Write an age: `8 s ago`, `14 min ago`; a time in the future is `0 s ago`: clocks of machines differ."""
    return f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Write a time that something takes in its largest whole unit: `15 min`."""
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def clock(time: datetime) -> str:
    """Write the time of day of a UTC time: `11:42:05 UTC`."""
    return f"{time:%H:%M:%S} UTC"


def iso(time: datetime) -> str:
    """Write a whole UTC time: `2026-03-02T11:42:05Z`."""
    return f"{time:%Y-%m-%dT%H:%M:%S}Z"


@lru_cache(maxsize=MAX_NAMES)
def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return the key of natural sorting: `chat-2` before `chat-10`."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part)


def _scaled(number: float, scales: tuple[tuple[int, str], ...]) -> str:
    for unit, name in scales:
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number:,.0f}"


def _is_nested(loaded: object) -> bool:
    return isinstance(loaded, dict) or (isinstance(loaded, list) and any(isinstance(x, list | dict) for x in loaded))


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return not text.strip()
    return True
