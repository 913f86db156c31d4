"""What the answers of all kinds of routers have in common: facts, processes, samples of /metrics."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.vllm.metrics import parse_labels

FactValues = Mapping[FactName, Any]  # native JSON
MAX_SAMPLES = 10_000  # of the series that are read; a router has one for each endpoint
LONGEST_LINE = 4_096  # characters of a sample
MOST_DIGITS = 16  # of a number that JSON keeps exactly
NOT_METRICS = "answers /metrics with a page that is not of Prometheus' text format"


class Process(NamedTuple):
    """How a router was started: the arguments and the environment of its container."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def option(self, name: str) -> str | None:
        """Return the value of `--name value` or `--name=value`; the last one counts, a flag without value is empty."""
        found = None
        for place, argument in enumerate(self.arguments):
            own, sign, value = argument.partition("=")
            if own == f"--{name}":
                following = self.arguments[place + 1 : place + 2]
                found = value if sign else next((each for each in following if not each.startswith("--")), "")
        return found


class RouterApi(NamedTuple):
    """What a kind of router answers: the readers of its paths at a port, and of its process.

    A reader raises UnreadableError with a predicate for an answer of another shape. Of the paths in `one_of` a router
    has some only: it fails where it has none.
    """

    port: int
    probes: Mapping[str, Callable[[bytes], FactValues]]
    of_process: Callable[[Process], FactValues] = lambda _: {}
    one_of: frozenset[str] = frozenset()


def read_samples(body: bytes, names: Collection[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield name, labels and value of each sample of these series.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    if b"# TYPE " not in body:
        raise UnreadableError("schema", NOT_METRICS)
    number = 0
    for line in body.decode(errors="replace").splitlines():
        name, brace, rest = line.partition("{")
        if not brace:
            name, _, rest = line.partition(" ")
        if name not in names or len(line) > LONGEST_LINE:
            continue
        labels, _, value = rest.rpartition("} ") if brace else ("", "", rest)
        try:
            yield name, parse_labels(labels), float(value.split()[0])
        except (ValueError, IndexError):
            raise UnreadableError("schema", NOT_METRICS) from None
        if (number := number + 1) >= MAX_SAMPLES:
            return


def is_count(value: Any) -> bool:
    """Return whether a foreign value is a positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


def to_count(text: Any) -> int | None:
    """Return a positive whole number that is written as text; None for anything else."""
    is_short = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return number if is_short and is_count(number := int(text)) else None
