"""The index of a router: which replicas have the first blocks of a prompt, by the KV events that they publish.

It runs in vLLM's environment, which has ZMQ. For each prompt (a line of standard input, a list of tokens) it prints how
many of its first blocks each replica has, by the hashes that one algorithm gives them.

usage: python kv_index.py BLOCK_SIZE ENDPOINT...
"""

import hashlib
import json
import sys
from typing import Any

import cbor2
import msgspec
import zmq

FIRST_MS, NEXT_MS = 150, 5  # to wait for events of the last request: an engine publishes them after its step
SEED = "vllm-none-hash"  # vllm/v1/core/kv_cache_utils.py, DEFAULT_NONE_HASH_SEED
EVENT_BITS = 64  # of a hash in an event


def main(block_size: int, endpoints: list[str]) -> None:
    """Answer prompts until standard input ends."""
    context = zmq.Context()
    sockets = [context.socket(zmq.SUB) for _ in endpoints]
    for socket, endpoint in zip(sockets, endpoints, strict=True):
        socket.subscribe(b"")
        socket.connect(endpoint)
    held: list[set[int]] = [set() for _ in endpoints]
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    for line in sys.stdin:
        wait = FIRST_MS
        while ready := dict(poller.poll(wait)):
            for socket, own in zip(sockets, held, strict=True):
                if socket in ready:
                    take(own, socket.recv_multipart()[-1])
            wait = NEXT_MS
        hashes = hashes_of(json.loads(line), block_size)
        print(json.dumps([matched(hashes, own) for own in held]), flush=True)


def take(held: set[int], payload: bytes) -> None:
    """Take in a batch of events: a time, the events, a DP rank."""
    for event in msgspec.msgpack.decode(payload)[1]:
        if event["type"] == "BlockStored":
            held.update(event["block_hashes"])
        elif event["type"] == "BlockRemoved":
            held.difference_update(event["block_hashes"])
        else:
            held.clear()


def hashes_of(tokens: list[int], block_size: int) -> list[int]:
    """Return the hashes of the full blocks of a prompt with sha256_cbor, as events have them."""
    parent, hashes = hashed(SEED), []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hashed((parent, tuple(tokens[start : start + block_size]), None))
        hashes.append(int.from_bytes(parent) & ((1 << EVENT_BITS) - 1))
    return hashes


def hashed(value: Any) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def matched(hashes: list[int], held: set[int]) -> int:
    """Return how many blocks from the first one on are held."""
    return next((place for place, each in enumerate(hashes) if each not in held), len(hashes))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
