"""GET /metrics: the few lines of the Prometheus text format with configuration, as `Reply`.

The page has some 590 lines; only these are parsed, so that 1,000 replicas cost 0.2 s and not 6. Labels are text: they
get the types of their settings.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, Setting, Source
from dashboard.vllm.canonical import RecentResults, setting, shared
from dashboard.vllm.replies import refuse_metrics
from dashboard.vllm.versions import label_type
from vllm_fleet_provider.shared.digests import SERIES, EngineDigests, kept_digests
from vllm_fleet_provider.shared.identity import is_identity_path
from vllm_fleet_provider.shared.redaction import in_force, redact
from vllm_fleet_provider.shared.types import MAX_INTEGER, MAX_SECONDS

MAX_LINE = 32_768  # characters of one line that is used; the longest in the captures has 1,400
LONG = 4096  # characters of a series that is parsed every time instead
MAX_ENGINES = 1024  # series of one API server; the largest wide-EP deployments have a few hundred ranks

CACHE_CONFIG = b"vllm:cache_config_info{"
CONFIG_INFO = f"{SERIES}{{".encode()
START_TIME = b"process_start_time_seconds "
PYTHON = b"python_info{"  # of the Prometheus client; a page of several API processes lacks it, and the start time
PYTHON_VERSION = "python_version"
# Registered only with `--enable-lora` (vllm/v1/metrics/loggers.py); without it the engine refuses adapters.
LORA = b"# HELP vllm:lora_requests_info "
MODEL_NAME = re.compile(rb'^vllm:[^\n{]*\{[^\n]*?model_name="((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
# One series per engine and state: awake, weights_offloaded (level 1), discard_all (level 2); since 0.12 or earlier
# (vllm/v1/metrics/loggers.py, record_sleep_state).
SLEEP = b"vllm:engine_sleep_state{"
SLEEP_STATES = {"awake": 0, "weights_offloaded": 1, "discard_all": 2}
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
COUNTER = re.compile(rb"^vllm:[a-z_]+_total(?:\{[^\n]*\})? ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)$", re.MULTILINE)
DIGESTS = EngineDigests._fields[1:]  # labels
# Of this or a later scheme; this scheme's have 16 hex digits.
DIGEST = re.compile(r"[\w.:+-]{1,128}", re.ASCII)
PYTHON_RELEASE = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}[\w+.-]{0,20}", re.ASCII)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
ESCAPE = re.compile(r"\\[\\\"n]")
MAX_NAME = 100  # characters of an unknown name that are shown
RAY_LINES = (b"\n", b"\n# HELP ", b"\n# TYPE ")  # beginnings of lines before the name of a metric
RAY_NAMES = (b"ray_vllm_", b"ray_vllm:")
RAY_REPLICA = "ReplicaId"  # Ray's own labels begin with a capital letter, vLLM's do not
RAY_SEVERAL = "/metrics of Ray has {number:,} replicas of vLLM, where one target is one replica: run one on each node"
SMALLEST = {"block_size": 1, "num_gpu_blocks": 0, "kv_cache_size_tokens": 0, "kv_cache_max_concurrency": 0}
SELECTED = (CACHE_CONFIG, CONFIG_INFO, LORA, PYTHON)
_Labels: TypeAlias = tuple[Mapping[str, Setting], Mapping[str, Setting], tuple[str, ...]]


class MetricsReply(NamedTuple):
    """`cache_config`: one mapping of label to text per engine series, `engine` among them.

    `digests`: one per engine, in the order of the page; none without our provider.
    `counters` is the sum of vLLM's `_total` samples, read only where there is no start time (several API processes).
    `python` is the version that the API server runs. `lines` are the parsed lines, unchanged.
    """

    cache_config: tuple[Mapping[str, str], ...]
    digests: tuple[EngineDigests, ...]
    started_at_seconds: float | None
    model_name: str | None
    counters: float | None
    python: str | None
    lines: tuple[str, ...]
    sleep_levels: Mapping[int, int]  # by DP rank, of engines that sleep


def parse_metrics(body: bytes) -> MetricsReply:
    """Parse one page. Raises UnreadableError when it is not a page of a vLLM server."""
    is_ray, body = without_ray(body)
    if b"vllm:" not in body:
        refuse_metrics(body)
        raise UnreadableError("schema", "/metrics answers with a page that has no vllm: metric. Is this a vLLM server?")
    page = b"\n" + body
    info, own, lora, python = (_lines(page, mark, MAX_ENGINES) for mark in SELECTED)
    starts, asleep = _lines(page, START_TIME, 1), _sleep_lines(page)
    if is_ray:  # of the agent, not of vLLM
        starts, python = [], []
    name = MODEL_NAME.search(body)
    counters = None if starts else sum(float(value) for value in COUNTER.findall(body))
    series = tuple(_parse_series(line, CACHE_CONFIG) for line in info)
    if is_ray and len(found := {each.get(RAY_REPLICA) for each in series}) > 1:
        raise UnreadableError("schema", RAY_SEVERAL.format(number=len(found)))
    return MetricsReply(
        cache_config=series,
        digests=_digests([read_digests(_parse_series(line, CONFIG_INFO)) for line in own]),
        started_at_seconds=_start_time(starts[0].rpartition(" ")[2]) if starts else None,
        model_name=_unescape(_text(name[1])) if name else None,
        counters=counters,
        python=_python_version(python),
        lines=tuple(info + own + lora + python + starts + asleep),
        sleep_levels=_sleep_levels(asleep),
    )


def without_ray(body: bytes) -> tuple[bool, bytes]:
    """Return whether a page is of Ray's agent, and the page with vLLM's names.

    Ray prepends `ray_`, and replaces the colon (vllm/v1/metrics/ray_wrappers.py; older ones do not). The start time
    there is not the one of vLLM.
    """
    is_ray = b"\nvllm:" not in body and b"ray_vllm" in body  # the first is soon found on a page of vLLM
    if not is_ray:
        return False, body
    page = b"\n" + body
    for line, name in product(RAY_LINES, RAY_NAMES):  # a regular expression takes seconds for megabytes
        page = page.replace(line + name, line + b"vllm:")
    return True, page[1:]


def select_lines(body: bytes) -> bytes | None:
    """Return a short page with the same reply and the same lines: it changes only with a restart or with sleep.

    None for a page without start time, whose counters are read, and for what does not begin as vLLM's pages do.
    Raises UnreadableError only where `parse_metrics` does.
    """
    page = b"\n" + body
    starts, first = _lines(page, START_TIME, 1), page.find(b"\nvllm:")
    if not starts or first < 0 or not body.startswith(b"#"):
        return None
    lines = [line.encode() for mark in SELECTED for line in _lines(page, mark, MAX_ENGINES)]
    lines += [line.encode() for line in _sleep_lines(page)]
    name = MODEL_NAME.search(page, first)
    model = b'vllm:{model_name="%b"' % name[1] if name else b"vllm:"
    return b"\n".join([model, *lines, starts[0].encode()])


def can_load_adapters(lines: bytes) -> bool:
    """Return whether LoRA adapters may change without a restart, from the parsed lines of a page.

    Of several API processes (no start time) a page lists only series with samples, so LoRA may be enabled there.
    """
    return LORA in lines or START_TIME not in lines


def read_digests(labels: Mapping[str, str]) -> EngineDigests:
    """Return the digests of one series of `vllm_fleet_config_info`; None for a label that is missing or no digest.

    Other labels are ignored. Raises UnreadableError for an engine that is no DP rank.
    """
    texts = {name: labels[name] for name in DIGESTS if DIGEST.fullmatch(labels.get(name, ""))}
    return EngineDigests(_rank(labels.get("engine", "")), **{"scheme": "", **texts})


def _digests(found: Sequence[EngineDigests]) -> tuple[EngineDigests, ...]:
    if len({each.engine for each in found}) != len(found):
        raise UnreadableError("schema", f"/metrics has two series of {SERIES} for one engine")
    return tuple(found)


def parse_labels(text: str) -> dict[str, str]:
    """Read `a="1",b="2"`, with the escapes of the text format."""
    labels: dict[str, str] = {}
    end = 0
    while match := LABEL.match(text, end):  # not finditer: searching is quadratic in a long word
        labels[match[1]] = _unescape(match[2])
        end = match.end()
    if end != len(text):
        raise UnreadableError("decode", f"/metrics has a label that cannot be read, after {end} characters")
    return labels


_series: RecentResults[Mapping[str, str]] = RecentResults()
# By what is redacted, too: a reload may add to it.
_settings: RecentResults[_Labels] = RecentResults()
_labels: RecentResults[tuple[str, bool, Setting] | None] = RecentResults()  # replicas differ in few of them


def _parse_series(line: str, prefix: bytes) -> Mapping[str, str]:
    """Parse the labels of a series once: they change only when its server restarts."""
    text = line[len(prefix) :].rpartition("}")[0]
    if len(text) > LONG:
        return parse_labels(text)
    return _series.get(text, lambda: MappingProxyType(parse_labels(text)))


def _lines(page: bytes, prefix: bytes, most: int) -> list[str]:
    """Return the first lines with this prefix, one after the other; `page` begins with a newline.

    All lines of a metric are one group (https://prometheus.io/docs/instrumenting/exposition_formats/).
    """
    mark = b"\n" + prefix
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
        start = end if page.startswith(mark, end) else -1
    return lines


def _sleep_lines(page: bytes) -> list[str]:
    """Return the lines that show an engine asleep: of one that is awake there are none."""
    return [
        line
        for line in _lines(page, SLEEP, len(SLEEP_STATES) * MAX_ENGINES)
        if line.endswith(("} 0", "} 0.0")) is ('sleep_state="awake"' in line)
    ]


def _sleep_levels(lines: Sequence[str]) -> Mapping[int, int]:
    """Return the level of each engine that sleeps; 0 where it only takes no requests."""
    found: dict[int, int] = {}
    for line in lines:
        labels = _parse_series(line, SLEEP)
        rank = _rank(labels.get("engine", "0"))
        found[rank] = max(found.get(rank, 0), SLEEP_STATES.get(labels.get("sleep_state", ""), 0))
    return found


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableError("decode", "/metrics is not UTF-8") from None


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: ESCAPES[match[0]], text) if "\\" in text else text


def _python_version(lines: Sequence[str]) -> str | None:
    version = _parse_series(lines[0], PYTHON).get("version", "") if lines else ""
    return version if PYTHON_RELEASE.fullmatch(version) else None


def _start_time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MAX_SECONDS:
        raise UnreadableError("schema", f"/metrics says that the process started at {text[:40]!r}, which is no time")
    return seconds


def read_metrics(body: bytes) -> tuple[Reply, tuple[str, ...]]:
    """Return the reply to GET /metrics, and the parsed lines of the page."""
    page = parse_metrics(body)
    items = tuple(page.cache_config[0].items()) if page.cache_config else ()
    settings, identity, not_understood = _settings.get((items, in_force()), lambda: _read_labels(items))
    if page.python:
        identity = shared({**identity, PYTHON_VERSION: setting(PYTHON_VERSION, page.python, Source.METRICS)})
    reply = Reply(
        Source.METRICS,
        settings,
        identity,
        started_at=datetime.fromtimestamp(page.started_at_seconds, UTC) if page.started_at_seconds else None,
        counters=page.counters,
        served_model_names=(page.model_name,) if page.model_name else (),
        engines=tuple(
            each._replace(sleep_level=page.sleep_levels.get(each.dp_rank)) for each in _engines(page.cache_config)
        ),
        not_understood=not_understood,
        digests=kept_digests(page.digests),
    )
    return reply, page.lines


def _engines(series: Sequence[Mapping[str, str]]) -> tuple[EngineReport, ...]:
    """Return one report per `engine` series.

    `num_gpu_blocks` is the sum over the API server's engines, tokens and concurrency are the first engine's
    (vllm/v1/engine/core_client.py): capacity/engines.py divides the sum, and only the first engine gets the others.
    """
    ranks = sorted({_rank(labels.get("engine", "0")) for labels in series})
    if not ranks:
        return ()
    first = series[0]
    total = _value("num_gpu_blocks", first)
    tokens, concurrency = _value("kv_cache_size_tokens", first), _value("kv_cache_max_concurrency", first)
    if len(ranks) == 1:
        return (EngineReport(ranks[0], total, tokens, concurrency),)
    return (
        EngineReport(ranks[0], None, tokens, concurrency, blocks_of_all=total),
        *(EngineReport(rank, blocks_of_all=total) for rank in ranks[1:]),
    )


def _value(label: str, labels: Mapping[str, str]) -> Any:
    return _typed(label, labels[label]) if label in labels else None


def _read_labels(items: tuple[tuple[str, str], ...]) -> _Labels:
    settings: dict[str, Setting] = {}
    identity: dict[str, Setting] = {}
    not_understood: list[str] = []
    secrets = in_force()
    for item in items:
        if item[0] == "engine" or item[0][:1].isupper():
            continue
        if (found := _labels.get((item, secrets), partial(_read_label, *item))) is None:
            not_understood.append(f"label {item[0][:MAX_NAME]} of vllm:cache_config_info")
            continue
        path, is_identity, value = found
        (identity if is_identity else settings)[path] = value
    return shared(settings), shared(identity), tuple(not_understood)


def _read_label(label: str, text: str) -> tuple[str, bool, Setting] | None:
    """Return path and setting, and whether it is an identity setting; None for a label that is no setting."""
    if label_type(label) is None:
        return None
    path = f"cache_config.{label}"
    return path, is_identity_path(path), setting(path, redact(_typed(label, text), label), Source.METRICS)


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < len(str(MAX_INTEGER))):
        raise UnreadableError("schema", f"/metrics names an engine {text[:40]!r}, which is no DP rank")
    return int(text)


def _typed(label: str, text: str) -> Any:
    """Return `"None"`, `"True"`, `"0.92"`, `"[]"` as a JSON value of the label's type."""
    if text == "None":
        return None
    kind = label_type(label)
    try:
        value = text if kind == "str" else _PARSERS[kind or ""](text)
    except (ValueError, SyntaxError, KeyError, MemoryError, RecursionError, TypeError):
        raise UnreadableError("schema", f"/metrics says {label}={text[:40]!r}, which is no {kind}") from None
    if isinstance(value, int | float) and not SMALLEST.get(label, -MAX_INTEGER) <= value <= MAX_INTEGER:
        raise UnreadableError("schema", f"/metrics says {label}={text[:40]!r}, which no server can mean")
    return value


def _literal(text: str) -> Any:
    """Read a Python list or dict as JSON; the longest in the captures has 2 characters."""
    value = json.dumps(ast.literal_eval(text[:10_000]), ensure_ascii=False)
    return json.loads(value.encode())  # raises for a lone surrogate


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "bool": {"True": True, "False": False}.__getitem__,
    "int": int,
    "float": float,
    "list": _literal,
    "object": _literal,
}
