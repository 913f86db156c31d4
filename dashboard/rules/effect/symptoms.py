"""What the counters of a pool show in one window: replicas far from their peers.

A symptom begins where a whole window shows it. `analysis/symptoms.py` keeps it until a whole window does not.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from statistics import median

from dashboard.fleet import Replica
from dashboard.fleet.history import TrafficCoverage, UsualTraffic
from dashboard.fleet.traffic import LEAST_REQUESTS, Traffic, summed

OF_TRAFFIC = "traffic."  # beginning of the paths of evidence that vLLM counted
HIT_RATE = "traffic.prefix_hit_rate"
REQUESTS = "traffic.requests"
PREEMPTIONS, WAITING = "traffic.preemptions", "traffic.waiting"
EXTERNAL = "traffic.external_hit_rate"
POOL_HIT_RATE = "traffic.pool_prefix_hit_rate"
WHOLE = 0.95  # share of the window that counters have to cover: reads are some seconds early or late
COMPARED = 2  # replicas: one has no peers
FEWEST = 4  # replicas of which a median says what is usual; of fewer each is compared with the rest
FEW_FACTOR = 2  # how much further a replica has to be from a rest of one or two, which may be the odd one
LEAST_REST = 0.1  # of the tokens of a replica: what others find in fewer says little of it
SMALL = 0.1  # of what an engine counts: peers with less do not do so
LEAST_EXTERNAL = 0.05  # hit rate of the others from which a store is used
LEAST_USUAL = 0.1  # hit rate of the last day that can fall
LEAST_DAY = 6 * 3600  # seconds of the last day that have to be recorded: a shorter time may be one workload
# Of normally distributed rates 0.3% are further from the median: 3 standard deviations, of which MAD is 1 / 1.4826.
FAR = 3 * 1.4826
PERCENT = 100


class PoolTraffic:
    """The traffic of the fresh replicas of a pool that were counted for a whole window, in seconds.

    Each process counts once. `engines` is by replica and DP rank. `silent` are those that were not. `usual` is the hit
    rate of its last day.
    """

    def __init__(
        self,
        replicas: Iterable[Replica],
        traffic: Mapping[str, Mapping[int, Traffic]],
        window: float,
        usual: UsualTraffic | None = None,
    ) -> None:
        self.usual = usual.traffic.hit_rate if usual and usual.traffic.seconds >= LEAST_DAY else None
        least = window * WHOLE
        self.window, self.was_read = window, bool(traffic and window)
        self.engines: dict[str, Mapping[int, Traffic]] = {}
        counted = [each for each in replicas if each.is_counted]
        for replica in counted:
            own = traffic.get(replica.id)
            if own and self.was_read and all(engine.seconds >= least for engine in own.values()):
                self.engines[replica.id] = own
        self.silent = tuple(sorted(each.id for each in counted if each.id not in self.engines))
        self.asleep = {each.id for each in counted if any(own.sleep_level is not None for own in each.engines)}

    @cached_property
    def replicas(self) -> Mapping[str, Traffic]:
        return {key: summed(own.values()) for key, own in self.engines.items()}

    @property
    def coverage(self) -> TrafficCoverage:
        own = self.replicas.values()
        return TrafficCoverage(
            self.window,
            self.was_read,
            self.silent,
            counted=len(own),
            rated=sum(each.hit_rate is not None for each in own),
            busy=sum((each.requests or 0) >= LEAST_REQUESTS for each in own),
            external=sum(each.external_hit_rate is not None for each in own),
            has_usual=self.usual is not None,
        )

    def rest(self, replicas: Iterable[str]) -> Traffic:
        """Return the sums of the others."""
        return summed(own for key, own in self.replicas.items() if key not in replicas)


Numbers = tuple[float, float, int | None]  # of a replica, of the others, and its DP rank where it is of one engine


def low_hit_rates(pool: PoolTraffic, *, points: float) -> Mapping[str, Numbers]:
    """Return the replicas with a prefix hit rate far below the others, at least by so many percentage points.

    Of few replicas each is compared with the rest, which is large by its traffic, and has to be twice as far away.
    """
    rates = {key: rate for key, own in pool.replicas.items() if (rate := own.hit_rate) is not None}
    if len(rates) < COMPARED:
        return {}
    least = points / PERCENT
    if len(rates) >= FEWEST:
        middle = median(rates.values())
        spread = median(abs(rate - middle) for rate in rates.values())
        limit = middle - max(least, FAR * spread)
        found = {key for key, rate in rates.items() if rate <= limit}
    else:
        least *= FEW_FACTOR
        found = {key for key, rate in rates.items() if _rest_rate(pool, key) - rate >= least}
    others = pool.rest(found).hit_rate
    if others is None:
        return {}
    return {key: (rates[key], others, None) for key in found if others - rates[key] >= least}


def _rest_rate(pool: PoolTraffic, replica: str) -> float:
    """Return the hit rate of the others; 0 where they have few tokens beside the replica's."""
    rest, own = pool.rest({replica}), pool.replicas[replica]
    is_enough = (rest.queries or 0) >= LEAST_REST * (own.queries or 0)
    return (rest.hit_rate or 0.0) if is_enough else 0.0


def without_requests(pool: PoolTraffic, *, requests: int) -> Mapping[str, Numbers]:
    """Return the replicas without any request, where each of the others had at least so many on average."""
    awake = {key: own for key, own in pool.replicas.items() if own.requests is not None and key not in pool.asleep}
    # Also a request that did not end within the window raises one of these.
    raised = attrgetter("requests", "prompt_tokens", "queries", "waiting", "kv_usage")
    idle = {key for key, own in awake.items() if not any(raised(own))}
    if not idle or len(idle) == len(awake):
        return {}
    each = sum(own.requests or 0 for own in awake.values()) / (len(awake) - len(idle))
    return dict.fromkeys(idle, (0.0, each, None)) if each >= requests else {}


def busier(pool: PoolTraffic, name: str, *, least: int) -> Mapping[str, Numbers]:
    """Return the replicas with an engine that counted at least so many while the median of its peers is small."""
    counted = {
        (key, rank): number
        for key, own in pool.engines.items()
        for rank, engine in own.items()
        if (number := getattr(engine, name)) is not None
    }
    ordered = sorted(counted.values())
    found: dict[str, Numbers] = {}
    for (key, rank), number in counted.items():
        if number >= least and number > (found[key][0] if key in found else 0) and len(ordered) >= COMPARED:
            own = bisect_left(ordered, number)
            middle = (len(ordered) - 1) // 2  # of the others
            others = ordered[middle + (middle >= own)]
            if others <= SMALL * number:
                found[key] = (number, others, rank if len(pool.engines[key]) > 1 else None)
    return found


def without_external_hits(pool: PoolTraffic) -> Mapping[str, Numbers]:
    """Return the replicas that found nothing in a store in which the others find tokens."""
    empty = {key for key, own in pool.replicas.items() if own.external_hit_rate == 0}
    others = pool.rest(empty).external_hit_rate if empty else None
    return dict.fromkeys(empty, (0.0, others, None)) if others and others >= LEAST_EXTERNAL else {}


def fallen_hit_rate(pool: PoolTraffic, *, left: float) -> Mapping[str, Numbers]:
    """Return the hit rates of a whole pool and of its last day, under "", where at most so much of it is left."""
    usual = pool.usual
    if usual is None or usual < LEAST_USUAL:
        return {}
    own = pool.rest(()).hit_rate
    return {"": (own, usual, None)} if own is not None and own <= left * usual else {}
