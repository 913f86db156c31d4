"""Instant queries to a Prometheus server, and their answers: the series of all replicas, or of some.

An answer that is too large is asked for in parts. https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic_core import from_json

from dashboard.config import MAX_LABEL_CHARACTERS, PrometheusOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import FailureKind
from dashboard.fleet.formatting import visible
from dashboard.garbage import uncollected
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, authorized
from dashboard.sources.http.failures import endpoint_of
from dashboard.sources.source import Deadline
from dashboard.vllm.metrics import DIGESTS
from dashboard.vllm.reading import node_count, parse_json
from dashboard.vllm.versions import label_type
from vllm_fleet_provider.shared.redaction import redact_prose
from vllm_fleet_provider.shared.types import MAX_SECONDS

NO_KEY = ApiKey(missing="none is given; set authorization of this prometheus entry in fleet.yaml")
QUERY = "/api/v1/query"
BIG = 2**20  # bytes of an answer that is read in a thread: 20 ms, in which no replica could be polled
MOST_ADDRESSES = 1_000  # of one query for some replicas: 25 KB of text
MAX_NODES = 5_000_000  # of JSON, as of a saved fleet; a series of vLLM has about 70 in 1.2 KB
MAX_SENTENCE = 200  # characters of a sentence of Prometheus that are shown
MOST_WARNINGS = 2  # that are shown
SHORT = 200  # characters of a label that is kept as it is written
# As Prometheus writes an answer: without spaces. None of these is within a string, where quotes are escaped.
_HEAD = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":'
_BETWEEN = b']},{"metric":'
_VALUE = b',"value":['
_NUMBER = b"0123456789."

CACHE_CONFIG, CONFIG_INFO = "vllm:cache_config_info", "vllm_fleet_config_info"
DOWN_SINCE = "1h"  # a replica that Prometheus did not reach for longer is no target
_SPECIAL = re.compile(r"[^A-Za-z0-9_:/-]")

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


def replicas_query(selector: str, label: str = "", addresses: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """Return the query for the series of all replicas, or of those with one of some addresses in a label.

    The value is the time of the scrape: an instant query alone gives its own time. It is 0 for a replica that
    Prometheus cannot reach: vLLM's series end with the first failed scrape, `up` stays. With `by`, series have these
    labels only: a fifth of the bytes.
    """
    chosen = _narrowed(selector, label, addresses) if addresses else selector
    series = [f"timestamp({name}{chosen})" for name in (CACHE_CONFIG, CONFIG_INFO)]
    known = f"present_over_time({CACHE_CONFIG}{chosen}[{DOWN_SINCE}])"
    series.append(f"(up{chosen} == 0 and on (job, instance) {known})")
    return " or ".join(f"max by ({', '.join(by)}) ({each})" if by else each for each in series)


def _narrowed(selector: str, label: str, addresses: Sequence[str]) -> str:
    """Return the selector for these values of a label only."""
    inner = selector.removeprefix("{").removesuffix("}")
    pattern = "|".join(map(_escaped, addresses))
    return f'{{{inner}{inner and ","}{label}=~"{pattern}"}}'


def _escaped(text: str) -> str:
    """Return a regular expression of this text, within a string of PromQL: a backslash is two there."""
    return _SPECIAL.sub(lambda match: f"\\\\x{{{ord(match[0]):x}}}", text)


class PrometheusServer:
    """Asks by `client`, a new one at each poll. `by` are the labels of the series that are asked for at each poll."""

    def __init__(self, options: PrometheusOptions, by: Sequence[str]) -> None:
        self._options = options
        self._by = by
        self._is_split = False
        # By their JSON: mostly those of the last poll are those of this one.
        self._labels: dict[bytes, SeriesLabels] = {}
        self._endpoint = endpoint_of(options.url, QUERY)

    async def ask_for_all(self, client: Client, deadline: Deadline) -> QueryResult:
        """Return the series of all replicas, with the labels `by`. Raise UnreadableError."""
        options, before = self._options, len(self._labels)
        answers: list[QueryResult] = []
        if not self._is_split:
            whole = await self._ask(client, replicas_query(options.selector, by=self._by), deadline)
            self._is_split = whole is None
            answers += [whole] if whole else []
        if self._is_split:
            addresses = await self._ask_for_addresses(client, deadline)
            answers.append(addresses._replace(samples=()))
            names = sorted({each.labels.get(options.address_label, "") for each in addresses.samples} - {""})
            answers += [each async for each in self.ask_for(client, names, deadline, self._by)]
            self._is_split = len(answers) > 2  # noqa: PLR2004  the addresses, and one part that is the whole
        samples = tuple(sample for each in answers for sample in each.samples)
        if before and len(self._labels) > 2 * len(samples):
            self._labels.clear()
        return QueryResult(samples, next((each.warning for each in answers if each.warning), ""))

    async def ask_for(
        self, client: Client, addresses: Sequence[str], deadline: Deadline, by: Sequence[str] = ()
    ) -> AsyncIterator[QueryResult]:
        """Yield the series of some replicas, some at a time; without `by` with all labels. Raise UnreadableError."""
        waiting = [addresses[start : start + MOST_ADDRESSES] for start in range(0, len(addresses), MOST_ADDRESSES)]
        while waiting:
            part = waiting.pop(0)
            query = replicas_query(self._options.selector, self._options.address_label, part, by)
            answer = await self._ask(client, query, deadline)
            if answer is not None:
                yield answer
                continue
            middle = len(part) // 2
            if not middle:
                raise self._too_large()
            waiting[:0] = part[:middle], part[middle:]

    async def _ask_for_addresses(self, client: Client, deadline: Deadline) -> QueryResult:
        query = f"group by ({self._options.address_label}) ({replicas_query(self._options.selector)})"
        answer = await self._ask(client, query, deadline)
        if answer is None:
            raise self._too_large()
        return answer

    async def _ask(self, client: Client, query: str, deadline: Deadline) -> QueryResult | None:
        """Return the answer; None where it is larger than max_answer_bytes. Raise UnreadableError."""
        options = self._options
        own = options.authorization
        answer = await client.fetch(
            self._endpoint,
            deadline.left(),
            limit=options.max_answer_bytes,
            key=authorized(own, NO_KEY),
            ca_file=own.ca_file if own else None,
            headers=[(b"X-Scope-OrgID", options.tenant.encode())] if options.tenant else [],
            form=urlencode({"query": query}).encode(),
        )
        if answer.failure is None:
            known = self._labels if query.startswith("max by") else None
            if len(answer.body) < BIG:
                return _read(answer.body, known)
            return await asyncio.to_thread(_read, answer.body, known)
        if answer.failure.kind is FailureKind.TOO_LARGE and answer.status == 200:  # noqa: PLR2004
            return None
        said = said_error(answer.body)
        raise UnreadableError(answer.failure.kind, f"{answer.failure.detail.removesuffix('.')}{said and f': {said}'}")

    def _too_large(self) -> UnreadableError:
        most = f"{self._options.max_answer_bytes:,}"
        return UnreadableError("too_large", f"the smallest answer has more than {most} bytes; raise max_answer_bytes")


def _read(body: bytes, known: dict[bytes, SeriesLabels] | None) -> QueryResult:
    with uncollected():
        return read_answer(body, known)


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
    if body.lstrip()[:1] == b"<":
        raise UnreadableError("decode", "answers with HTML or XML; check the URL and what is in front of Prometheus")
    answer = parse_json(body, MAX_NODES)
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or answer.get("status") != "success":
        raise UnreadableError("schema", said_error(body) or "answers with JSON that is not of Prometheus' API")
    found = data.get("result")
    if data.get("resultType") != "vector" or not isinstance(found, list):
        raise UnreadableError("schema", "answers with another type of result than a vector")
    return QueryResult(tuple(map(_sample, found)), _warning(answer.get("warnings")))


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


def _checked(labels: Any) -> SeriesLabels:
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise ValueError("no labels")
    return labels


def kept_labels(labels: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return these labels of a series, cut to what a label of a target may have."""
    found = ((name, labels.get(name)) for name in names)
    return {name: text[:MAX_LABEL_CHARACTERS].encode(errors="replace").decode() for name, text in found if text}


def as_line(labels: Mapping[str, str]) -> bytes:
    """Return a series as the replica's /metrics has it, with the labels that are read: others may be Prometheus' own.

    The query leaves out the names: only the digests have a label `scheme`, only vLLM's series a size of blocks. Empty
    for `up`.
    """
    is_digests = "scheme" in labels
    if not is_digests and "block_size" not in labels:
        return b""
    name, is_own = (CONFIG_INFO, DIGESTS.__contains__) if is_digests else (CACHE_CONFIG, _is_setting)
    own = (each for each in sorted(labels) if each == "engine" or is_own(each))
    written = ",".join(
        [(_known_label if len(labels[each]) <= SHORT else _write_label)(each, labels[each]) for each in own]
    )
    return f"{name}{{{written}}} 1".encode(errors="replace")


@lru_cache(maxsize=1024)
def _is_setting(label: str) -> bool:
    return label_type(label) is not None


def _write_label(label: str, text: str) -> str:
    quoted = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{label}="{quoted}"'


_known_label = lru_cache(maxsize=1024)(_write_label)  # most labels have one value in a whole fleet


def _warning(warnings: Any) -> str:
    if not isinstance(warnings, list) or not warnings:
        return ""
    shown = "; ".join(_shown(each) for each in warnings[:MOST_WARNINGS] if isinstance(each, str))
    return f"answers with partial data: {shown or 'no reason given'}"


def _shown(text: str) -> str:
    cut = text[:MAX_SENTENCE] + ("…" if len(text) > MAX_SENTENCE else "")
    return visible(redact_prose(cut.encode(errors="replace").decode()))
