"""Fleets of many pools that all differ in the same way."""

from dashboard.fleet import Document, Replica
from tests.builders import alike, document, engine

MANY = 200


def large(pools: int = MANY) -> tuple[list[Replica], list[Document]]:
    """Pools of five replicas that all differ in the same way: one has a different block size, and less KV cache."""
    usual, other = document(), document({"cache_config.block_size": 32})
    members: list[Replica] = []
    for name in [f"pool-{place:03}" for place in range(pools)]:
        members += alike(name, 4, usual)
        members += alike(name, 1, other, first=5, engines=(engine(400_000),))
    return members, [usual, other]
