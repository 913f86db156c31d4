"""Answers of a Prometheus server to instant queries.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from dashboard.errors import UnreadableError
from dashboard.fleet.formatting import visible
from dashboard.sources.source import read_yaml, texts
from dashboard.vllm.reading import node_count, parse_json
from vllm_fleet_provider.shared.redaction import redact_prose
from vllm_fleet_provider.shared.types import MAX_SECONDS

MAX_NODES = 5_000_000  # of JSON, as of a saved fleet; a series of vLLM has about 70 in 1.2 KB
MAX_SENTENCE = 200  # characters of a sentence of Prometheus that are shown
MOST_WARNINGS = 2  # that are shown

# As Prometheus writes an answer: without spaces. None of these is within a string, where quotes are escaped.
_HEAD = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":'
_BETWEEN = b']},{"metric":'
_VALUE = b',"value":['
_NAME = b'{"__name__":"'
_NUMBER = b"0123456789."

_GLOBAL = re.compile(r"^global:\n(?:[ ].{0,1000}\n){0,1000}", re.MULTILINE)

SeriesLabels = Mapping[str, str]


class VectorSample(NamedTuple):
    """One series with its value, and the time of the query in seconds since 1970."""

    labels: SeriesLabels
    value: float
    queried_at: float


class QueryResult(NamedTuple):
    """The samples, and a sentence where Prometheus says that they are not all; empty otherwise."""

    samples: tuple[VectorSample, ...]
    warning: str = ""


def read_answer(body: bytes, known: dict[bytes, SeriesLabels] | None = None) -> QueryResult:
    """Read the answer to an instant query. Raise UnreadableError with a bounded sentence for anything else.

    `known` has labels by their JSON, as earlier answers had them, and gets those of this one: equal labels are parsed
    once, and are one object.
    """
    if body.startswith(_HEAD):
        try:
            return _read_series(body, {} if known is None else known)
        except (ValueError, UnreadableError):
            pass  # another spelling of JSON, or none: for the reader of whole answers
    return _read_whole(body)


def _read_series(body: bytes, known: dict[bytes, SeriesLabels]) -> QueryResult:
    """Read an answer series by series. Raise ValueError where it is not as Prometheus writes it."""
    *pieces, last = body[len(_HEAD) :].split(_BETWEEN)
    rest = _read_whole(_HEAD + last)
    is_counted = False
    samples = []
    times: dict[bytes, tuple[float, float]] = {}  # the series of one replica have one time
    for piece in pieces:
        text, _, numbers = piece.rpartition(_VALUE)
        if (labels := known.get(text)) is None:
            if not is_counted and node_count(body, MAX_NODES) > MAX_NODES:
                raise ValueError("too many nodes")
            is_counted = True
            labels = known[text] = _checked(from_json(text))
        if (both := times.get(numbers)) is None:
            both = times[numbers] = _read_times(numbers)
        samples.append(VectorSample(labels, *both))
    return rest._replace(samples=(*samples, *rest.samples))


def _read_times(numbers: bytes) -> tuple[float, float]:
    """Return value and time of `1767225600.123,"1767225599.456"`. Raise ValueError."""
    at, _, value = numbers.partition(b',"')
    both = float(value[:-1]), float(at)
    if numbers.translate(None, _NUMBER) != b',""' or not max(both) < MAX_SECONDS:
        raise ValueError("no time")
    return both


def _read_whole(body: bytes) -> QueryResult:
    found, warning = _read_items(body)
    return QueryResult(tuple(map(_sample, found)), warning)


def _read_items(body: bytes) -> tuple[list[Any], str]:
    """Return the unchecked series of an answer, and the warning."""
    if body.lstrip()[:1] == b"<":
        raise UnreadableError("decode", "answers with HTML or XML; check the URL and what is in front of Prometheus")
    answer = parse_json(body, MAX_NODES)
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or answer.get("status") != "success":
        raise UnreadableError("schema", said_error(body) or "answers with JSON that is not of Prometheus' API")
    found = data.get("result")
    if data.get("resultType") != "vector" or not isinstance(found, list):
        raise UnreadableError("schema", "answers with another type of result than a vector")
    return found, _warning(answer.get("warnings"))


def read_external_labels(body: bytes) -> dict[str, str]:
    """Read the external labels in the answer with the server's configuration; none of anything else.

    Of the YAML only its first section is read, as Prometheus writes it: the whole can be megabytes.
    """
    try:
        answer = from_json(body)
        found = _GLOBAL.search(answer["data"]["yaml"])
        labels = read_yaml(found[0].encode())["global"]["external_labels"] if found else {}
    except (ValueError, KeyError, TypeError, UnreadableError):
        return {}
    return texts(labels) if isinstance(labels, dict) else {}


def said_error(body: bytes) -> str:
    """Return the sentence of an answer with `status: error`, bounded and without secrets; empty for another answer."""
    try:
        answer = from_json(body)
    except ValueError:
        return ""
    said = answer.get("error") if isinstance(answer, dict) and answer.get("status") == "error" else None
    return f"answers with an error: {_shown(said)}" if isinstance(said, str) else ""


def _sample(value: Any) -> VectorSample:
    try:
        labels, (at, text) = value["metric"], value["value"]
        sample = VectorSample(labels, float(text), float(at))
    except (TypeError, KeyError, ValueError):
        raise UnreadableError("schema", "answers with a series of another shape than Prometheus'") from None
    is_time = all(0 <= each < MAX_SECONDS for each in (sample.value, sample.queried_at))  # NaN is not
    if not (isinstance(labels, dict) and is_time):
        raise UnreadableError("schema", "answers with a series without a time")
    if not all(isinstance(each, str) for each in labels.values()):
        raise UnreadableError("schema", "answers with a label that is no text")
    return sample


class LabelledValues(NamedTuple):
    """The series of several metrics with equal other labels: the name of each, if it has one, and its value as written.

    In an answer of another spelling each series is alone, and its labels have the name, too.
    """

    labels: SeriesLabels
    values: list[tuple[bytes, bytes]]


def read_by_labels(body: bytes) -> list[LabelledValues]:
    """Read the answer to an instant query for many metrics. Raise UnreadableError, also where it is partial."""
    found, last = _read_groups(body) if body.startswith(_HEAD) else ([], body)
    rest, warning = _read_items(last)
    if warning:
        raise UnreadableError("schema", warning)
    return [*found, *map(_labelled_value, rest)]


def _read_groups(body: bytes) -> tuple[list[LabelledValues], bytes]:
    """Read an answer series by series; return those, and an answer with the rest: all of it in another spelling."""
    *pieces, last = body[len(_HEAD) :].split(_BETWEEN)
    if node_count(body, MAX_NODES) > MAX_NODES:
        return [], body
    groups: dict[bytes, LabelledValues] = {}
    for piece in pieces:
        labels, _, numbers = piece.rpartition(_VALUE)
        name, _, others = labels.removeprefix(_NAME).partition(b'",')
        if not labels.startswith(_NAME):
            name, others = b"", labels.removeprefix(b"{")
        value = numbers.partition(b',"')[2]
        if b"\\" in name or not value.endswith(b'"'):
            return [], body
        group = groups.get(others)
        if group is None:
            try:
                group = groups[others] = LabelledValues(_checked(from_json(b"{" + others)), [])
            except ValueError:
                return [], body
        group.values.append((name, value[:-1]))
    return [*groups.values()], _HEAD + last


def _labelled_value(item: Any) -> LabelledValues:
    try:
        (_, value), labels = item["value"], _checked(item["metric"])
    except (TypeError, KeyError, ValueError):
        raise UnreadableError("schema", "answers with a series of another shape than Prometheus'") from None
    texts = labels.get("__name__", ""), str(value)
    name, text = (each.encode(errors="replace") for each in texts)
    return LabelledValues(labels, [(name, text)])


def _checked(labels: Any) -> SeriesLabels:
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise ValueError("no labels")
    return labels


def _warning(warnings: Any) -> str:
    if not isinstance(warnings, list) or not warnings:
        return ""
    shown = "; ".join(_shown(each) for each in warnings[:MOST_WARNINGS] if isinstance(each, str))
    return f"answers with partial data: {shown or 'no reason given'}"


def _shown(text: str) -> str:
    cut = text[:MAX_SENTENCE] + ("…" if len(text) > MAX_SENTENCE else "")
    return visible(redact_prose(cut.encode(errors="replace").decode()))
