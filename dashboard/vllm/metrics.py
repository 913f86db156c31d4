"""What /metrics says, in our own words: labels, which are all text, get the types of their settings."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, Setting, Source
from dashboard.vllm.canonical import setting, shared
from dashboard.vllm.identity import is_identity_path
from dashboard.vllm.redaction import redact
from dashboard.vllm.schemas.base import MAX_INTEGER
from dashboard.vllm.schemas.metrics import parse_metrics
from dashboard.vllm.schemas.recent import Recent
from dashboard.vllm.versions import label_type

_Labels: TypeAlias = "tuple[Mapping[str, Setting], Mapping[str, Setting], tuple[str, ...]]"
MAX_NAME = 100  # characters shown of a name that this program does not know
SMALLEST = {"block_size": 1, "num_gpu_blocks": 0, "kv_cache_size_tokens": 0, "kv_cache_max_concurrency": 0}


def read_metrics(body: bytes) -> tuple[Reply, tuple[str, ...]]:
    """GET /metrics: the reply, and the lines used of the page."""
    page = parse_metrics(body)
    items = tuple(page.cache_config[0].items()) if page.cache_config else ()
    settings, identity, not_understood = _known.get(items, lambda: _labels(items))
    name = (page.model_name,) if page.model_name else ()
    reply = Reply(
        Source.METRICS,
        settings,
        identity,
        started_at=datetime.fromtimestamp(page.started_at_seconds, UTC) if page.started_at_seconds else None,
        counters=page.counters,
        served_model_names=name,
        engines=_engines(page.cache_config),
        not_understood=not_understood,
    )
    return reply, page.lines


def _engines(series: Sequence[Mapping[str, str]]) -> tuple[EngineReport, ...]:
    """One report per `engine` series.

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


def _labels(items: tuple[tuple[str, str], ...]) -> _Labels:
    settings: dict[str, Setting] = {}
    identity: dict[str, Setting] = {}
    not_understood: list[str] = []
    for label, text in items:
        if label == "engine":
            continue
        if label_type(label) is None:
            not_understood.append(f"label {label[:MAX_NAME]} of vllm:cache_config_info")
            continue
        path = f"cache_config.{label}"
        into = identity if is_identity_path(path) else settings
        into[path] = setting(path, redact(_typed(label, text), label), Source.METRICS)
    return shared(settings), shared(identity), tuple(not_understood)


_known: Recent[_Labels] = Recent()


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < len(str(MAX_INTEGER))):
        raise UnreadableError("schema", f"/metrics names an engine {text[:40]!r}, which is no DP rank")
    return int(text)


def _typed(label: str, text: str) -> Any:
    """Turn `"None"`, `"True"`, `"0.92"`, `"[]"` into a JSON value of the label's type."""
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
    told = json.dumps(ast.literal_eval(text[:10_000]), ensure_ascii=False)
    return json.loads(told.encode())  # a lone surrogate, which is no text, ends here


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "bool": {"True": True, "False": False}.__getitem__,
    "int": int,
    "float": float,
    "list": _literal,
    "object": _literal,
}
