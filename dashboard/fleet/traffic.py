"""What engines did: vLLM's counters at one time, and how much they rose in a window.

Sums come before ratios: those of a pool are ratios of its sums, never averages of its replicas' ratios.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

# Below these a hit rate says little: it moves by whole requests, of twenty by 5 points each, and by whole blocks, of
# which 10,000 tokens are 625 of 16.
LEAST_REQUESTS = 20
LEAST_TOKENS = 10_000
# Counters of which a ratio is made: both are known, or none.
RATIOS = (
    ("hits", "queries"),
    ("external_hits", "external_queries"),
    ("first_token_seconds", "first_tokens"),
    ("prefill_seconds", "computed_tokens"),
)
SHARES = RATIOS[:2]  # of which the first is a part of the second
MOST_REFUSED = 32  # sentences of a sum; an engine has at most one for each counter and gauge
MINUTE = 60.0  # seconds
BOTH = 2  # reads: an increase needs them
MOST_READS = 15  # of a window, about: with the default options one a minute
OLD_WINDOWS = 2  # after so many without a read a window begins anew: what was counted is of another time
SAME_START = 0.5  # seconds by which two spellings of one start may differ
SAME_SUM = 1e-9  # share of a sum that depends on the order of its parts: several API servers add their own


class EngineCounts(NamedTuple):
    """What one engine counted since `counted_from` (seconds since 1970), and its gauges. None: not reported.

    `queries` and `hits` are tokens of prompts that were looked up in the prefix cache, and found there; the external
    ones those of a connector. `first_tokens` are requests, with the seconds that they waited together.
    `kv_usage` is a share from 0 to 1. `refused` says which metrics have values that no counter can have.
    """

    queries: float | None = None
    hits: float | None = None
    external_queries: float | None = None
    external_hits: float | None = None
    prompt_tokens: float | None = None
    requests: float | None = None
    preemptions: float | None = None
    first_token_seconds: float | None = None
    first_tokens: float | None = None
    prefill_seconds: float | None = None
    computed_tokens: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    counted_from: float | None = None
    refused: tuple[str, ...] = ()


COUNTERS = EngineCounts._fields[: EngineCounts._fields.index("waiting")]
_counters = attrgetter(*COUNTERS)
GAUGES = ("waiting", "kv_usage")  # of which a window keeps the most


class Traffic(NamedTuple):
    """What engines counted in a window of `seconds`: as EngineCounts, `waiting` and `kv_usage` the most of its reads.

    `refused` says what was not counted, and why.
    """

    seconds: float = 0.0
    queries: float | None = None
    hits: float | None = None
    external_queries: float | None = None
    external_hits: float | None = None
    prompt_tokens: float | None = None
    requests: float | None = None
    preemptions: float | None = None
    first_token_seconds: float | None = None
    first_tokens: float | None = None
    prefill_seconds: float | None = None
    computed_tokens: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    refused: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Return whether there were enough requests and tokens for a hit rate that says something."""
        return (self.requests or 0) >= LEAST_REQUESTS and (self.queries or 0) >= LEAST_TOKENS

    @property
    def hit_rate(self) -> float | None:
        """Return the share of the queried tokens that the prefix cache had, 0 to 1; None without enough traffic."""
        return ratio(self.hits, self.queries) if self.is_enough else None

    @property
    def external_hit_rate(self) -> float | None:
        """Return the share of the tokens asked of a connector that it had; None without enough of them."""
        return (
            ratio(self.external_hits, self.external_queries) if (self.external_queries or 0) >= LEAST_TOKENS else None
        )

    @property
    def found_rate(self) -> float | None:
        """Return the share of the queried tokens that this cache or a connector had: none of them is computed."""
        rate = self.hit_rate
        external = ratio(self.external_hits, self.queries) or 0.0
        return None if rate is None else min(rate + external, 1.0)

    @property
    def first_token(self) -> float | None:
        """Return the mean time to the first token, in seconds."""
        return ratio(self.first_token_seconds, self.first_tokens)

    def per_minute(self, number: float | None) -> float | None:
        """Return one of these numbers per minute of the window."""
        return ratio(number, self.seconds / MINUTE)

    def averaged(self, seconds: float) -> "Traffic":
        """Return what was counted in `seconds` of a longer window on average: what is enough is decided alike."""
        if not 0 < seconds < self.seconds:
            return self
        counted = {name: own * seconds / self.seconds for name in COUNTERS if (own := getattr(self, name)) is not None}
        return self._replace(seconds=seconds, **counted)

    @property
    def without_cache(self) -> "Traffic":
        """Return the same where prefix caching is off: vLLM counts no queries then, and finds no prompt token."""
        return self._replace(queries=self.prompt_tokens, hits=0.0)


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def summed(parts: Iterable[Traffic]) -> Traffic:
    """Return the sums of engines; of one that does not report a counter the others count alone."""
    every = list(parts)
    if not every:
        return Traffic()
    if len(every) == 1:  # most replicas have one engine
        return every[0]
    seconds, *numbers, refused = zip(*every, strict=True)
    known = [[each for each in column if each is not None] for column in numbers]
    sums = [sum(column) if column else None for column in known[: len(COUNTERS)]]
    most = [max(column, default=None) for column in known[len(COUNTERS) :]]
    sentences = tuple(islice(dict.fromkeys(chain.from_iterable(refused)), MOST_REFUSED))
    return Traffic._make((max(seconds), *sums, *most, sentences))


def prompts_per_minute(engines: Iterable[Traffic]) -> float | None:
    """Return the prompt tokens a minute of engines together, each by its own window: one that restarted has less."""
    rates = [rate for each in engines if (rate := each.per_minute(each.prompt_tokens)) is not None]
    return sum(rates) if rates else None


def in_sequence(parts: Iterable[Traffic]) -> Traffic:
    """Return the sums of what the same engines did in times that follow each other."""
    every = list(parts)
    return summed(every)._replace(seconds=sum(each.seconds for each in every))


class TrafficSum(NamedTuple):
    """What the replicas of a pool with one document counted together between two times, as the history has it.

    The document is empty where it was unknown. Seconds are those in which they were counted.
    """

    since: datetime
    until: datetime
    pool: str
    document: str
    traffic: Traffic


class _Read(NamedTuple):
    """Counts at a time. `fell` are counters that were higher before in the same process."""

    at: float
    counts: EngineCounts
    fell: tuple[str, ...] = ()


class TrafficWindow:
    """The counts of one engine in the last `seconds`. It begins anew where the engine did, and after a long gap.

    Of reads that follow each other sooner than a MOST_READS-th of `seconds` the last one is kept, with the most that
    the gauges had: the memory of a fleet does not depend on how often it is read.
    """

    __slots__ = ("_before", "_reads", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._reads: deque[_Read] = deque()
        self._before: _Read | None = None  # the last read but one

    def add(self, at: float, counts: EngineCounts) -> None:
        """Add counts that were read at a time, in seconds of a clock that does not jump; an earlier one is left out."""
        reads = self._reads
        last = reads[-1] if reads else None
        if last is not None and at <= last.at:
            return
        fell = _fell(last.counts, counts) if last is not None else ()
        is_old = last is not None and at - last.at > OLD_WINDOWS * self._seconds
        if last is not None and (is_old or _is_other_process(last.counts, counts, fell)):
            last, fell = None, ()
            reads.clear()
        self._before = last
        if last is not None and len(reads) >= BOTH and last.at - reads[-2].at < self._seconds / MOST_READS:
            reads.pop()
            waiting, kv_usage = _most([last.counts, counts])
            counts = counts._replace(waiting=waiting, kv_usage=kv_usage)
            fell += last.fell
        reads.append(_Read(at, counts, fell))
        while len(reads) > BOTH and reads[1].at <= at - self._seconds:
            reads.popleft()

    def traffic(self) -> Traffic | None:
        """Return how much the counters rose in the window; None before the second read."""
        return _between(self._reads) if len(self._reads) >= BOTH else None

    def counted(self) -> Traffic | None:
        """Return how much they rose between the last two reads; None before the second read."""
        return _between((self._before, self._reads[-1])) if self._before else None


def _between(reads: Sequence[_Read]) -> Traffic:
    first, last = reads[0], reads[-1]
    # Frontends list some counters only after the first request: one that is missing beside others is still 0.
    least = None if first.counts.refused or first.counts.queries is None else 0.0
    rose: dict[str, float | None] = {}
    for name, low, high in zip(COUNTERS, _counters(first.counts), _counters(last.counts), strict=True):
        start = least if low is None else low
        rose[name] = None if start is None or high is None else max(high - start, 0.0)
    refused = [*first.counts.refused, *last.counts.refused]
    for name in (name for each in list(reads)[1:] for name in each.fell):
        refused.append(f"{_words(name)} decreased without a restart")
        rose[name] = None
    for part, whole in SHARES:
        if (one := rose[part]) is not None and (other := rose[whole]) is not None and one > other:
            refused.append(f"{_words(part)} rose by more than {_words(whole)}")
            rose[part] = rose[whole] = None
    for part, whole in RATIOS:
        if rose[part] is None or rose[whole] is None:
            rose[part] = rose[whole] = None
    waiting, kv_usage = _most([each.counts for each in reads])
    return Traffic(
        last.at - first.at, **rose, waiting=waiting, kv_usage=kv_usage, refused=tuple(dict.fromkeys(refused))
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _most(counts: Sequence[EngineCounts]) -> tuple[float | None, float | None]:
    """Return the most that was waiting, and the most that was used of the KV cache."""
    waiting = [each.waiting for each in counts if each.waiting is not None]
    kv_usage = [each.kv_usage for each in counts if each.kv_usage is not None]
    return max(waiting, default=None), max(kv_usage, default=None)


def _fell(before: EngineCounts, after: EngineCounts) -> tuple[str, ...]:
    """Return the counters that are lower than before."""
    counters = zip(COUNTERS, _counters(before), _counters(after), strict=True)
    return tuple(
        name
        for name, low, high in counters
        if low is not None and high is not None and high < low and high < low * (1 - SAME_SUM)
    )


def _is_other_process(before: EngineCounts, after: EngineCounts, fell: Sequence[str]) -> bool:
    """Return whether an engine began to count anew: at another time or, where none is known, as a counter fell."""
    start, other = before.counted_from, after.counted_from
    return bool(fell) if start is None or other is None else abs(start - other) > SAME_START


class ReplicaTraffic:
    """The windows of a replica's engines, by DP rank. A process that began anew begins with new ones."""

    __slots__ = ("_windows", "counted", "is_new", "traffic")

    def __init__(self) -> None:
        self._windows: dict[int, TrafficWindow] = {}
        self.is_new = True
        self.traffic: Mapping[int, Traffic] = {}
        self.counted: Mapping[int, Traffic] = {}  # between the last two reads

    def add(self, at: float, counts: Mapping[int, EngineCounts], seconds: float) -> None:
        """Add what a page counted at a time. Engines that it no longer has are forgotten."""
        self.is_new = False
        self._windows = {rank: self._windows.get(rank, TrafficWindow(seconds)) for rank in counts}
        for rank, own in counts.items():
            self._windows[rank].add(at, own)
        self.traffic = {rank: rose for rank, each in self._windows.items() if (rose := each.traffic())}
        self.counted = {rank: rose for rank, each in self._windows.items() if (rose := each.counted())}
