"""One body to one reply: budgets, JSON, redaction, and the reader of each path."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from dashboard.errors import UnreadableError
from dashboard.fleet import Reply
from dashboard.fleet.formatting import visible
from dashboard.vllm import control
from dashboard.vllm.metrics import read_metrics
from dashboard.vllm.replies import READERS
from vllm_fleet_provider.shared.digests import digests_of
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply
from vllm_fleet_provider.shared.redaction import holds_known, redact, redact_known, redact_prose

MIB = 2**20
PROVIDER_PATH = "/inference/v1/config"
_STRUCTURE = (b",", b":", b"{", b"[")
_STRING = re.compile(rb'"[^"]*"')


# Limits of documents in bytes and in nodes: values and field names. The largest recorded answer has 34 KB and 2,400
# nodes; /v1/models has 45 nodes for each LoRA adapter, and the provider sends 20,000 settings at most.
ANSWER_BYTES, ANSWER_NODES = MIB, 50_000
METRICS_BYTES = 256 * MIB  # text, read by line; a page of 64 engines has 4.5 MB, and poll.max_answer_bytes is less
SAVED_FLEET_BYTES, SAVED_FLEET_NODES = 256 * MIB, 5_000_000  # 5,000 replicas have 4.5 million nodes


def max_bytes(path: str) -> int:
    return METRICS_BYTES if path == "/metrics" else ANSWER_BYTES


def node_count(content: bytes, most: int) -> int:
    """Return an upper bound of the nodes in JSON; over `most` only where there are more than `most`.

    Builds no objects: a few passes over any bytes.
    """
    if len(content) < 2 * most:  # each node of JSON has two bytes: [], or 1 and a comma
        return len(content) // 2 + 1
    bound = sum(map(content.count, _STRUCTURE)) + 1  # also those within strings
    if bound <= most:
        return bound
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in content else content
    strings = bare.count(b'"') // 2  # each is a name or a value
    if strings > most:
        return strings
    bare = _STRING.sub(b"", bare)
    return sum(map(bare.count, _STRUCTURE)) + 1


_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_AT_ONCE = "expected value at line 1 column 1"


def json_fault(error: ValueError) -> str:
    """Return the error of pydantic_core.from_json as a predicate: `is cut off`, `is not JSON (line 3, column 5)`."""
    text = str(error)
    if text.startswith("EOF"):
        return "is cut off"
    if "recursion" in text:
        return "is JSON that is nested too deep"
    places = [f" (line {line}, column {column})" for line, column in _PLACE.findall(text) if text != _AT_ONCE]
    return f"is not JSON{''.join(places)}"


def parse_json(body: bytes, most: int) -> Any:
    """Parse a body of another server than vLLM, of at most that many nodes. Raise UnreadableError with a predicate."""
    if node_count(body, most) > most:
        raise UnreadableError("too_large", f"answers with more than {most:,} JSON nodes")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise UnreadableError("decode", f"answers with something that {json_fault(error)}") from None


RAW_LIMIT = 128 * 1024  # bytes of an answer that are kept; the largest capture except /metrics has 34 KB
EXCERPT_LIMIT = 2_000  # bytes of an unreadable answer that are kept
LOOKED_AT = 64 * 1024  # bytes of such an answer that are searched for secrets before it is cut
SENTENCE_LIMIT = 400  # characters of a sentence about an answer
ESCAPED = re.compile(r"\\u00([3-7][0-9a-fA-F])")  # letters and digits in JSON escapes, which can hide a name


class Reading(NamedTuple):
    """A reply, and the answer after redaction, cut to a limit."""

    reply: Reply
    raw: bytes


def read(path: str, body: bytes) -> Reading:
    """Read the answer to `path` (with its query, without the host). Raises UnreadableError.

    The error's sentence is bounded, without secrets and control characters, for any answer.
    """
    try:
        return _read(path, body)
    except UnreadableError as error:
        detail = visible(redact_prose(error.detail))[:SENTENCE_LIMIT]
        raise UnreadableError(error.kind, detail) from None


def _read(path: str, body: bytes) -> Reading:
    if path.startswith(control.PREFIX):
        body = control.as_json(path, body)
    if not body.strip():
        raise UnreadableError("decode", f"{path} answers with nothing")
    if body.lstrip()[:1] == b"<":
        raise UnreadableError("decode", f"{path} answers with HTML or XML. Is there a proxy in front of vLLM?")
    if path == "/metrics":
        reply, lines = read_metrics(body)
        used = "\n".join(lines)
        clean = redact_prose(used)
        if clean != used:  # names of labels and of the model, too
            reply, _ = read_metrics(clean.encode())
        return Reading(reply, clean.encode()[:RAW_LIMIT])
    if node_count(body, ANSWER_NODES) > ANSWER_NODES:
        limit = f"more than {ANSWER_NODES:,} JSON nodes"
        raise UnreadableError("too_large", f"{path} answers with {limit}; check that a vLLM server answers there")
    answer = _parse(path, body)
    payload = redact(answer)
    raw = to_json(payload)
    if holds_known(raw.decode()):
        payload = redact_known(payload)
        raw = to_json(payload)
    try:
        reply = READERS[path.partition("?")[0]](payload)
    except ValidationError as error:
        raise UnreadableError("schema", _sentence(path, error)) from None
    if reply.digests and payload != answer:  # the provider digested what it sent
        reply = replace(reply, digests=_digests(answer))
    return Reading(reply, raw[:RAW_LIMIT])


def _digests(answer: Any) -> dict[str, str]:
    try:
        return digests_of(InferenceConfigReply.model_validate(answer))
    except ValueError:
        return {}


def excerpt(body: bytes) -> bytes:
    """Return the beginning of an unreadable body, without secrets and control characters."""
    # Without NUL, ASCII in UTF-16 or UTF-32 reads as itself, and secrets in it are found.
    text = body[:LOOKED_AT].replace(b"\0", b"").decode(errors="replace")
    text = redact_prose(ESCAPED.sub(lambda match: chr(int(match[1], 16)), text))
    return visible(text).encode()[:EXCERPT_LIMIT]


def _parse(path: str, body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if "recursion" in str(error):
            raise UnreadableError("decode", f"{path} answers with JSON that is nested too deep") from None
    try:
        from_json(body, allow_inf_nan=True)
    except ValueError:
        raise UnreadableError("decode", f"{path} answers with something that is no complete UTF-8 JSON") from None
    raise UnreadableError("schema", f"{path} answers with NaN or Infinity, which are no JSON numbers")


def _sentence(path: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:40] for part in first["loc"])
    more = f" ({error.error_count()} mistakes in all)" if error.error_count() > 1 else ""
    where = f" at {where[:200]}" if where else ""
    return f"{path} answers with JSON of another shape{where}: {first['msg'][:200]}{more}"
