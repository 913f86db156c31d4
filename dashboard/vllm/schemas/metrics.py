"""GET /metrics: the few lines of the Prometheus text format that tell configuration.

The page has some 590 lines; only these are looked at, so that 1,000 replicas cost 0.2 s and not 6.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from dashboard.errors import UnreadableError
from dashboard.vllm.schemas.base import MAX_SECONDS
from dashboard.vllm.schemas.recent import Recent

MAX_LINE = 32_768  # characters of one line that is used; the longest in the captures has 1,400
LONG = 4096  # characters of a series that is parsed every time instead
MAX_ENGINES = 1024  # series of one API server; the largest wide-EP deployments have a few hundred ranks

CACHE_CONFIG = b"vllm:cache_config_info{"
START_TIME = b"process_start_time_seconds "
MODEL_NAME = re.compile(rb'^vllm:[^\n{]*\{[^\n]*?model_name="((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
COUNTER = re.compile(rb"^vllm:[a-z_]+_total(?:\{[^\n]*\})? ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)$", re.MULTILINE)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
ESCAPE = re.compile(r"\\[\\\"n]")


class MetricsReply(NamedTuple):
    """`cache_config`: one mapping of label to text per engine series, `engine` among them.

    `counters` is the sum of vLLM's `_total` samples, read only where there is no start time (several API processes).
    `lines` are the lines used, as they came.
    """

    cache_config: tuple[Mapping[str, str], ...]
    started_at_seconds: float | None
    model_name: str | None
    counters: float | None
    lines: tuple[str, ...]


def parse_metrics(body: bytes) -> MetricsReply:
    """Read the lines used of one page. Raises UnreadableError when it is no page of a vLLM server."""
    if b"vllm:" not in body:
        raise UnreadableError("schema", "/metrics answers with a page that has no vllm: metric. Is this a vLLM server?")
    info = _lines(body, CACHE_CONFIG, MAX_ENGINES)
    starts = _lines(body, START_TIME, 1)
    name = MODEL_NAME.search(body)
    counters = None if starts else sum(float(value) for value in COUNTER.findall(body))
    return MetricsReply(
        cache_config=tuple(_labels_of(line[len(CACHE_CONFIG) :].rpartition("}")[0]) for line in info),
        started_at_seconds=_start_time(starts[0].rpartition(" ")[2]) if starts else None,
        model_name=_unescape(_text(name[1])) if name else None,
        counters=counters,
        lines=tuple(info + starts),
    )


def parse_labels(text: str) -> dict[str, str]:
    """Read `a="1",b="2"`, with the escapes of the text format."""
    labels: dict[str, str] = {}
    end = 0
    while match := LABEL.match(text, end):  # not finditer: it would search, and that is quadratic in a long word
        labels[match[1]] = _unescape(match[2])
        end = match.end()
    if end != len(text):
        raise UnreadableError("decode", f"/metrics has a label that cannot be read, after {end} characters")
    return labels


def _labels_of(text: str) -> Mapping[str, str]:
    """Parse a series once: it changes only when its server restarts."""
    if len(text) > LONG:
        return parse_labels(text)
    return _known_labels.get(text, lambda: MappingProxyType(parse_labels(text)))


_known_labels: Recent[Mapping[str, str]] = Recent()


def _lines(body: bytes, prefix: bytes, most: int) -> list[str]:
    page, mark = b"\n" + body, b"\n" + prefix
    lines: list[str] = []
    start = page.find(mark)
    while start >= 0:
        if len(lines) == most:
            raise UnreadableError("schema", f"/metrics has more than {most:,} series of {prefix.decode().strip(' {')}")
        end = page.find(b"\n", start + 1)
        line = page[start + 1 : end if end >= 0 else len(page)]
        if len(line) > MAX_LINE:
            raise UnreadableError("schema", f"/metrics has a line of {len(line):,} bytes, where {MAX_LINE:,} are read")
        lines.append(_text(line).rstrip("\r"))
        start = page.find(mark, start + 1)
    return lines


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableError("decode", "/metrics is not UTF-8") from None


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: ESCAPES[match[0]], text) if "\\" in text else text


def _start_time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MAX_SECONDS:
        raise UnreadableError("schema", f"/metrics says that the process started at {text[:40]!r}, which is no time")
    return seconds
