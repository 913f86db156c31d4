"""Answers of vLLM's gRPC service Control as JSON: the fields of control.proto, by their names there."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from dashboard.errors import UnreadableError

if TYPE_CHECKING:
    from google.protobuf.message import Message

PREFIX = "/vllm.Control/"
SERVER_INFO, MODEL_INFO = f"{PREFIX}GetServerInfo", f"{PREFIX}GetModelInfo"
LORAS, KV_EVENT_SOURCES = f"{PREFIX}ListLoras", f"{PREFIX}GetKvEventSources"
PATHS = (SERVER_INFO, MODEL_INFO, LORAS, KV_EVENT_SOURCES)
MAX_REPEATED = 10_000  # as models in /v1/models
_METHOD = re.compile(r"rpc (\w+) \(Request\) returns \((\w+)\)")
_MESSAGE = re.compile(r"message (\w+) \{([^}]*)\}")
_FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")


def as_json(path: str, answer: bytes) -> bytes:
    """Return a message as JSON; a field with the default value of its type (0, "") is left out, as on the wire.

    An answer that is JSON already was saved, by us or by grpcurl. Raise UnreadableError with a predicate.
    """
    from google.protobuf import json_format, message  # noqa: PLC0415  20 ms, for few

    parsed = _classes()[path]()
    try:
        if answer.lstrip()[:1] == b"{":
            json_format.Parse(answer, parsed, ignore_unknown_fields=True)
        else:
            parsed.ParseFromString(answer)
    except (message.DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError):
        raise UnreadableError("decode", f"{path} answers with something that is not its message") from None
    return to_json(_fields(path, parsed))


def _fields(path: str, message: "Message") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if not field.is_repeated:
            found[field.name] = _fields(path, value) if field.message_type else value
        elif len(value) > MAX_REPEATED:
            raise UnreadableError("too_large", f"{path} answers with more than {MAX_REPEATED:,} {field.name}")
        else:
            found[field.name] = [_fields(path, each) if field.message_type else each for each in value]
    return found


@cache
def _classes() -> Mapping[str, "type[Message]"]:
    """Return the class of the message that answers each method, made from control.proto."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415  as above

    text = (files("dashboard.vllm") / "control.proto").read_text()
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="control.proto", package="vllm", syntax="proto3")
    for name, body in _MESSAGE.findall(text):
        message = file.message_type.add(name=name)
        for repeated, kind, field, number in _FIELD.findall(body):
            one = message.field.add(name=field, number=int(number))
            one.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            one.type = getattr(kinds, f"TYPE_{kind.upper()}", kinds.TYPE_MESSAGE)
            if one.type == kinds.TYPE_MESSAGE:
                one.type_name = f".vllm.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        f"{PREFIX}{method}": message_factory.GetMessageClass(pool.FindMessageTypeByName(f"vllm.{answer}"))
        for method, answer in _METHOD.findall(text)
    }
