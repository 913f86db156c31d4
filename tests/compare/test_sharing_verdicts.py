"""The verdicts on prefix sharing, with their sentences: the demo, all captures, and pools drawn at random.

`python -m tests.compare.test_sharing_verdicts` rewrites the file. A changed line is a changed verdict.
"""

from collections.abc import Iterator
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from tests.compare.sharing_pools import drawn_pools, verdict_lines
from tests.frozen import frozen_fleet
from tests.saved_fleets import built_of_captures

FILE = Path(__file__).parent / "sharing_verdicts.txt"
DRAWN = 250


def lines() -> Iterator[str]:
    """Yield a line for each pool."""
    for name, fleet in (("demo", frozen_fleet()), ("captures", built_of_captures())):
        yield from _of_fleet(name, fleet)
    for number, (pool, documents, replicas) in enumerate(drawn_pools(DRAWN)):
        yield f"drawn {number}: {verdict_lines(pool, documents, replicas)}"


def _of_fleet(name: str, fleet: Fleet) -> Iterator[str]:
    replicas = {each.id: each for each in fleet.replicas}
    for pool in fleet.pools:
        yield f"{name} {pool.name}: {verdict_lines(pool, fleet.documents, replicas)}"


def test_every_verdict_on_prefix_sharing_equals_the_table() -> None:
    assert FILE.read_text() == "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()))
