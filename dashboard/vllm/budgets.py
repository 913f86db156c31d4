"""What a foreign document may cost: bytes and nodes, counted before objects are built from it."""

import re
from typing import NamedTuple

MIB = 2**20
_STRUCTURE = (b",", b":", b"{", b"[")
_STRING = re.compile(rb'"[^"]*"')


class Budget(NamedTuple):
    """The most bytes of a document, and the most nodes: values and names of fields."""

    max_bytes: int
    max_nodes: int


# The largest recorded answer has 34 KB and 2,400 nodes; /v1/models has 45 nodes for each LoRA adapter, and the
# provider sends 20,000 settings at most.
ANSWER = Budget(MIB, 50_000)
# Text, read line by line; a page of 64 engines has 4.5 MB, and poll.max_answer_bytes is less.
METRICS = Budget(256 * MIB, 0)

# 5,000 replicas have 4.5 million nodes.
SAVED_FLEET = Budget(256 * MIB, 5_000_000)


def budget_of(path: str) -> Budget:
    """Return what the answer to a path may cost."""
    return METRICS if path == "/metrics" else ANSWER


def node_count(content: bytes, most: int) -> int:
    """Return a number over `most` where JSON has more nodes than that, else one that is no lower than theirs.

    Builds no objects: a few passes over the bytes, whatever they are.
    """
    bound = sum(map(content.count, _STRUCTURE)) + 1  # also those within strings
    if bound <= most:
        return bound
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in content else content
    strings = bare.count(b'"') // 2  # each is a name or a value
    if strings > most:
        return strings
    bare = _STRING.sub(b"", bare)
    return sum(map(bare.count, _STRUCTURE)) + 1
