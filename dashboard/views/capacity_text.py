"""KV cache capacity of a fleet as rows and as text: each DP rank, the sums of each pool, and what is unknown."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.engines import RequestsAtLength, requests_at
from dashboard.capacity.outliers import TOLERANCE, medians, outliers, tied
from dashboard.capacity.sums import GIB, PoolCapacity, Sum, add_up, added
from dashboard.fleet import Basis, Engine, Replica, Setting, cohort_letters, formatting, pieces
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Piece, Text

NO_BYTES = "KV cache bytes not reported. The provider reports them; stock vLLM does not."
NO_NUMBER_OF_GPUS = "Number of GPUs not reported; only the bytes on each GPU are known."
NO_REQUESTS = "KV cache groups not reported and the model is not uniform: known at its own length only."
NOT_SERVED_AT_LENGTH = "Not served: the length is above max_model_len."
NOT_REPORTED = "Not reported."
MOST_DEVICES = 2  # kinds named for one pool
_BESIDE_THE_MODEL = re.compile(r"^(NVIDIA|AMD Instinct|AMD) |[- ](SXM|PCIe|HBM|NVL|\d+ ?GB).*$")


class Measure(StrEnum):
    """The unit of a rank's capacity."""

    TOKENS = "tokens"
    GIB = "GiB"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class Rank:
    """One DP rank, measured in one unit. `device` is the kind of its devices, empty where it is not reported.

    `counts` is False for stale replicas, engines that sleep and the second address of one process: no sum has them.
    `peers` are its pool and kind of device, `median` is theirs, and `off` the share above it if it is an outlier.
    """

    replica: Replica
    letter: str
    engine: Engine
    device: str
    at: RequestsAtLength
    counts: bool
    measure: Measure
    peers: tuple[str | None, str] = (None, "")
    median: float | None = None
    off: float | None = None

    @property
    def gib(self) -> float | None:
        """The KV cache in GiB."""
        return None if self.engine.kv_cache_bytes is None else self.engine.kv_cache_bytes / GIB

    @property
    def value(self) -> float | None:
        """The tokens, GiB or requests; None where unknown."""
        if self.measure is Measure.GIB:
            return self.gib
        return self.engine.kv_cache_size_tokens if self.measure is Measure.TOKENS else self.at.requests

    @property
    def is_at_most(self) -> bool:
        """Whether the value is an upper bound. Bytes never are: the provider reports them."""
        if self.measure is Measure.GIB:
            return False
        return self.engine.basis is Basis.ASSUMED if self.measure is Measure.TOKENS else self.at.at_most

    @property
    def reason(self) -> str:
        """Why the value is unknown, as a sentence."""
        if self.measure is Measure.GIB:
            return NO_BYTES if self.engine.kv_cache_bytes_per_device is None else NO_NUMBER_OF_GPUS
        if self.measure is Measure.REQUESTS and not self.at.served:
            return NOT_SERVED_AT_LENGTH
        if self.engine.reason and self.engine.kv_cache_size_tokens is None:
            return self.engine.reason
        return NO_REQUESTS if self.measure is Measure.REQUESTS else NOT_REPORTED


LONGEST_NAME = 40  # characters of a foreign name in a chart or sentence
EXACT_BELOW = 100  # requests from here on are whole numbers
NEAR = 0.005  # share by which two token counts may differ and still be called equal
HALF_DIGIT = 0.0005  # of three: 999.6 k is 1.00 M
MOST_POOLS = 3  # pools named in one sentence
MOST_NAMED = 4  # ranks named in one line, and reasons of upper bounds
MUCH = 1.95  # the factor from which "2.0 x too much" is clearer than a percentage
NOT_SERVED = "not served"
_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def amount(number: float, measure: Measure) -> str:
    """Return one value whole: `1,340,000`, `46.4`, `162`; requests are rounded down."""
    if measure is Measure.TOKENS:
        return f"{number:,.0f}"
    if measure is Measure.GIB:
        return f"{number:,.1f}"
    places = 0 if number >= EXACT_BELOW else 1 if number >= 1 else 2
    return f"{math.floor(number * 10**places) / 10**places:,.{places}f}"


def bounded(number: float, measure: Measure, is_at_most: bool) -> str:  # noqa: FBT001
    """Return one value whole, as an upper bound if it is one: `≤ 1,340,000`."""
    return formatting.at_most(amount(number, measure), Basis.ASSUMED if is_at_most else Basis.REPORTED)


def brief(number: float, measure: Measure) -> str:
    """Return one value short, for a label: `1.64 M`, `46.4 GiB`, `162`."""
    if measure is Measure.GIB:
        return f"{number:,.1f} GiB"
    if measure is Measure.REQUESTS:
        return amount(number, measure)
    for unit, name in _SCALES:
        if (scaled := number / unit) >= 1 - HALF_DIGIT:
            places = max(0, 2 - math.floor(math.log10(scaled * (1 + HALF_DIGIT))))
            return f"{scaled:,.{places}f} {name}"
    return f"{number:,.0f}"


def tick_texts(marks: Sequence[float], measure: Measure) -> list[str]:
    """Return the marks of an axis in one scale: `0`, `0.5 M`, `1.0 M`."""
    highest = max(marks, default=0.0)
    scales = _SCALES if measure is Measure.TOKENS else ()
    unit, name = next(((unit, f" {name}") for unit, name in scales if highest >= unit), (1, ""))
    places = 0 if all(float(mark / unit).is_integer() for mark in marks) else 2 if highest / unit < 1 else 1
    after = " GiB" if measure is Measure.GIB else name
    return [f"{mark / unit:,.{places}f}{after}" if mark else "0" for mark in marks]


def percent(share: float) -> str:
    """Return a difference from the median: `−18 %`, `+12 %`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.0f} %"


def in_percent(share: float) -> float:
    """Return a share in percent to two places, for programs: -17.95."""
    return round(share * 100, 2)


def name_of(text: str) -> str:
    """Return a foreign name on one short line."""
    return formatting.middle_cut(formatting.one_line(text), LONGEST_NAME)


def rank_name(rank: Rank) -> str:
    """Return the name of a rank: its replica's, with its number where the replica has several."""
    name = name_of(rank.replica.name)
    return f"{name}, rank {rank.engine.dp_rank}" if len(rank.replica.engines) > 1 else name


def title(ranks: Sequence[Rank]) -> str:
    """Return the capacity of a fleet in one sentence: `Two ranks have less KV cache than their peers`."""
    known = [rank for rank in ranks if rank.counts and rank.value is not None]
    if not known:
        return "KV cache capacity: not reported" if ranks else "No engine data"
    off = [rank.off for rank in ranks if rank.off is not None]
    if off:
        less = sum(share < 0 for share in off)
        number, word = (less, "less") if less else (len(off), "more")
        noun, have, their = ("rank", "has", "its peers") if number == 1 else ("ranks", "have", "their peers")
        ranks_word = formatting.in_words(number)
        return f"{ranks_word[:1].upper()}{ranks_word[1:]} {noun} {have} {word} KV cache than {their}"
    if tied([rank.peers for rank in known], [rank.value for rank in known]):
        return "Ranks of one pool differ, without a majority"
    return "All ranks are close to the median of their peers"


def pool_title(pool: str, ranks: Sequence[Rank]) -> str:
    """Return the capacity of one pool: `chat: two ranks have less KV cache than their peers`."""
    text = title([rank for rank in ranks if rank.replica.pool == pool]).replace(" of one pool", "")
    return f"{name_of(pool)}: {text if text.startswith('KV') else formatting.uncapitalized(text)}"


def lead(ranks: Sequence[Rank], silent: int) -> str:
    """Return the consequence, and how many ranks are known. `silent` counts replicas without engine data."""
    counted = [rank for rank in ranks if rank.counts]
    known = sum(rank.value is not None for rank in counted)
    if not known:
        return most_common_reason(counted)
    of = _known_ranks(known, len(counted), silent)
    pools = Counter(rank.replica.pool or "no pool" for rank in ranks if (rank.off or 0) < 0)
    if not pools:
        return f"No rank is more than {TOLERANCE * 100:.0f} % off the median of its pool and device. {of}."
    named = [name_of(pool) for pool, _ in pools.most_common(MOST_POOLS)]
    rest = [f"{len(pools) - MOST_POOLS:,} more pools"] if len(pools) > MOST_POOLS else []
    first = "this rank fills" if pools.total() == 1 else "these ranks fill"
    return f"{formatting.joined(named + rest)}: under even load {first} first. {of}."


def _known_ranks(known: int, ranks: int, silent: int) -> str:
    """Return `41 ranks known` or `40 of 41 ranks known`, with the replicas without engine data."""
    text = f"{count(ranks, 'rank')} known"
    text = text if known == ranks else f"{known:,} of {text}"
    return f"{text}; {count(silent, 'replica')} without engine data" if silent else text


def most_common_reason(ranks: Sequence[Rank]) -> str:
    """Return why most ranks have no value; empty where there is no rank."""
    reasons = Counter(rank.reason for rank in ranks if rank.value is None)
    return reasons.most_common(1)[0][0] if reasons else ""


def value_text(rank: Rank) -> str:
    """Return the value of a rank, as an upper bound where it is one."""
    return bounded(rank.value or 0, rank.measure, rank.is_at_most)


def outlier_sentence(rank: Rank) -> str:
    """Return an outlier's value with its median: `400,320 tokens, 18 % less than the median (487,904)`."""
    off = rank.off or 0
    return (
        f"{value_text(rank)} {rank.measure}, {abs(off) * 100:.0f} % {'less' if off < 0 else 'more'} than the median "
        f"({amount(rank.median or 0, rank.measure)})"
    )


def sum_text(total: Sum, measure: Measure) -> str:
    """Return a sum, as an upper bound where one of its parts is."""
    return formatting.NOT_KNOWN if total.value is None else bounded(total.value, measure, total.at_most)


def ranks_text(pool: PoolCapacity) -> str:
    """Return the number of a pool's ranks, with the known ones where some are not: `8 of 10 known`."""
    return f"{pool.ranks:,}" if pool.tokens.known == pool.ranks else f"{pool.tokens.known:,} of {pool.ranks:,} known"


def naive_text(pool: PoolCapacity) -> tuple[bool, str]:
    """Return whether the naive estimate of a pool misleads, and by how much."""
    if pool.naive is None or not pool.naive_of:
        return False, pool.reasons[0] if pool.reasons else "Unknown: no rank reports both."
    ratio = pool.naive / pool.naive_of
    where = " (of ranks that report their tokens)" if pool.basis is Basis.ASSUMED else ""
    if abs(ratio - 1) <= NEAR:
        return False, f"equal{where}"
    if ratio < 1:
        return True, f"{pool.naive:,}: {(1 - ratio) * 100:.0f} % too little{where}"
    less, groups = pool.window
    why = f": {less} of {groups} KV cache groups keep only a window or a state" if less else ""
    much = f"{ratio:.1f} × too much" if ratio >= MUCH else f"{(ratio - 1) * 100:.0f} % too much"
    return True, f"{pool.naive:,}: {much}{where}{why}"


def length_words(length: int | None) -> str:
    """Return a length as text: `32 k`, `100,000`; None is each replica's own."""
    if length is None:
        return "own length"
    return f"{length // 1024:,} k" if length % 1024 == 0 else f"{length:,}"


def parse_length(text: str) -> int | None:
    """Parse a length in tokens: `32768`, `32,768`, `32k` (k is 1024); None where it is none."""
    plain = text.strip().lower().replace(",", "").replace(" ", "").removesuffix("tokens")
    digits, factor = (plain[:-1], 1024) if plain.endswith("k") else (plain, 1)
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 12:  # noqa: PLR2004  # far above any model
        return None
    return int(digits) * factor or None


def not_drawn(ranks: Sequence[Rank], silent: Sequence[Replica]) -> Iterator[Text]:
    """Yield what bars of these ranks do not show. `silent` are replicas without engine data."""
    bounds = Counter(rank.engine.reason or "" for rank in ranks if rank.value is not None and rank.is_at_most)
    for reason, number in bounds.most_common(MOST_NAMED):
        yield pieces.plain(f"Hatched bars ({count(number, 'rank')}) are upper bounds. {reason}")
    missing: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if rank.value is None:
            missing[rank.reason].append(rank)
    for reason, members in sorted(missing.items(), key=lambda item: -len(item[1])):
        yield (Piece(f"{count(len(members), 'rank')} unknown ({reason.removesuffix('.')}): "), *_names(members))
    if silent:
        yield (Piece("No engine data: "), *_first([(each.name, each.id) for each in silent]))
    yield from not_counted(ranks)


def not_counted(ranks: Sequence[Rank]) -> Iterator[Text]:
    """Yield the ranks that are drawn pale, and why no sum and no median includes them."""
    stale = [rank for rank in ranks if not rank.counts and not rank.replica.fresh]
    second = [rank for rank in ranks if not rank.counts and rank.replica.fresh]
    for reason, pale in (("stale", stale), ("second address of one process", second)):
        if pale:
            yield (Piece(f"Pale bars are not counted ({reason}): "), *_names(pale))


def _names(ranks: Iterable[Rank]) -> Text:
    return _first([(rank_name(rank), rank.replica.id) for rank in ranks])


def _first(named: Sequence[tuple[str, str]]) -> Text:
    """Return the first names, each with its replica's id and once; the rest is counted."""
    names = list(dict.fromkeys((name_of(name), key) for name, key in named))
    rest = len(names) - MOST_NAMED + 1
    texts: list[Text] = [
        (pieces.replica(name, key),) for name, key in (names if rest <= 1 else names[: MOST_NAMED - 1])
    ]
    return pieces.join_texts([*texts, *([pieces.plain(f"{rest:,} more")] if rest > 1 else [])])


def ranks_of(fleet: Fleet, length: int | None, measure: Measure = Measure.TOKENS) -> tuple[Rank, ...]:
    """Return all ranks in the order of the fleet, each compared with its peers.

    Requests have `length` tokens, or each rank's own length (None).
    """
    letters = cohort_letters(fleet.pools)
    ranks = [
        rank
        for replica in fleet.replicas
        for rank in replica_ranks(fleet, replica, letters.get(replica.id, ""), length, measure)
    ]
    peers = _peers(ranks)
    values = [rank.value if rank.counts else None for rank in ranks]
    middle = medians(peers, values)
    off = {outlier.place: outlier.share for outlier in outliers(peers, values)}
    return tuple(
        replace(rank, peers=own, median=middle.get(own), off=off.get(place))
        for place, (rank, own) in enumerate(zip(ranks, peers, strict=True))
    )


def replica_ranks(
    fleet: Fleet, replica: Replica, letter: str, length: int | None = None, measure: Measure = Measure.TOKENS
) -> list[Rank]:
    """Return the ranks of one replica, compared with no other."""
    document = fleet.documents.get(replica.document or "")
    settings = document.settings if document else {}
    devices = _devices(replica)
    is_first = replica.fresh and not replica.is_second_address
    return [
        Rank(replica, letter, each, devices.get(each.dp_rank, ""), at, is_first and each.sleep_level is None, measure)
        for each in replica.engines
        for at in [_at(replica, each, settings, length)]
    ]


def _peers(ranks: Sequence[Rank]) -> list[tuple[str | None, str]]:
    """Return the pool and the kind of devices of each rank: its pool's only kind where its own is not reported."""
    kinds: dict[str | None, set[str]] = defaultdict(set)
    for rank in ranks:
        kinds[rank.replica.pool].add(rank.device)
    only = {pool: min(found - {""}, default="") if len(found - {""}) == 1 else "" for pool, found in kinds.items()}
    return [(rank.replica.pool, rank.device or only[rank.replica.pool]) for rank in ranks]


def count_without_ranks(fleet: Fleet, pool: str | None = None) -> int:
    """Count the replicas of a pool, or of all (None), without a rank that counts: not fresh, or without engines."""
    first = [each for each in fleet.replicas if not each.is_second_address and pool in {None, each.pool}]
    return sum(not (replica.fresh and replica.engines) for replica in first)


def _at(replica: Replica, engine: Engine, settings: Mapping[str, Setting], length: int | None) -> RequestsAtLength:
    if length is None:
        return RequestsAtLength(engine.max_concurrency, served=True, at_most=engine.basis is Basis.ASSUMED)
    return requests_at(engine, replica.kv_cache_groups, settings, length)


def _devices(replica: Replica) -> Mapping[int, str]:
    """Return per DP rank the name that most of its devices have."""
    names: dict[int, Counter[str]] = {}
    for device in replica.devices:
        names.setdefault(device.dp_rank, Counter())[device.name] += 1
    return {rank: min(found, key=lambda name: (-found[name], name)) for rank, found in names.items()}


def pools_of(fleet: Fleet, ranks: Iterable[Rank], length: int | None) -> tuple[PoolCapacity, ...]:
    """Return the sums of the pools with ranks that count; requests of a common `length` are added up from `ranks`."""
    found = [held for pool in fleet.pools if (held := fleet.capacity[pool.name]).ranks]
    if length is None:
        return tuple(found)
    members: dict[str | None, list[Rank]] = defaultdict(list)
    for rank in ranks:
        if rank.counts:
            members[rank.replica.pool].append(rank)
    return tuple(_at_length(held, members[held.name]) for held in found)


def _at_length(held: PoolCapacity, ranks: Sequence[Rank]) -> PoolCapacity:
    requests = add_up((added(rank.replica, rank.engine, rank.at.requests), rank.at.at_most) for rank in ranks)
    return held._replace(requests=requests, not_served=sum(not rank.at.served for rank in ranks))


def sum_of(held: PoolCapacity, measure: Measure) -> Sum:
    """Return the sum of a pool in a unit."""
    return {Measure.TOKENS: held.tokens, Measure.GIB: held.gib, Measure.REQUESTS: held.requests}[measure]


def device_words(replicas: Iterable[Replica]) -> str:
    """Return the devices of replicas' engines, the most frequent first: `H100 ×4`; empty where none are reported."""
    kinds = Counter(kind for replica in replicas for kind in _engine_devices(replica))
    names = [f"{short_device(name)} ×{number}" for (name, number), _ in kinds.most_common(MOST_DEVICES)]
    return ", ".join(names) + (", …" if len(kinds) > MOST_DEVICES else "")


def short_device(name: str) -> str:
    """Return a device name without vendor, socket and memory: `H100` of `NVIDIA H100 80GB HBM3`."""
    return _BESIDE_THE_MODEL.sub("", name).strip() or name


def _engine_devices(replica: Replica) -> list[tuple[str, int]]:
    counts = Counter((device.dp_rank, device.name) for device in replica.devices)
    return [(name, number) for (_, name), number in counts.items()]
