"""KV cache capacity of a fleet as rows and as text: each DP rank, the sums of each pool, and what is unknown."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.capacity.engines import RequestsAtLength, requests_at
from dashboard.capacity.formula import KEEPS_ALL
from dashboard.capacity.outliers import TOLERANCE, medians, outliers, tied
from dashboard.capacity.sums import GIB, PoolCapacity, Sum
from dashboard.fleet import Basis, Engine, Replica, formatting, pieces
from dashboard.fleet.formatting import count
from dashboard.fleet.frames import rows_of
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Piece, Text
from dashboard.fleet.traffic import Traffic
from dashboard.views.names import brief
from dashboard.views.summary import scoped_title

NO_BYTES = "KV cache bytes not reported. The provider reports them; stock vLLM does not."
NO_NUMBER_OF_GPUS = "Number of GPUs not reported; only the bytes on each GPU are known."
NO_REQUESTS = "KV cache groups not reported and the model is not uniform: known at its own length only."
NOT_SERVED_AT_LENGTH = "Not served: the length is above max_model_len."
NO_TRAFFIC = Traffic()
NOT_REPORTED = "Not reported."
EXACT_BELOW = 100  # requests from here on are whole numbers
NEAR = 0.005  # share by which two token counts may differ and still be called equal
HALF_DIGIT = 0.0005  # of three: 999.6 k is 1.00 M
MOST_POOLS = 3  # pools named in one sentence
MOST_NAMED = 4  # ranks named in one line, and reasons of upper bounds
MUCH = 1.95  # the factor from which "2.0 x too much" is clearer than a percentage
NOT_SERVED = "not served"
_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


class Measure(StrEnum):
    """The unit of a rank's capacity."""

    TOKENS = "tokens"
    GIB = "GiB"
    REQUESTS = "requests"


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


def short_value(number: float, measure: Measure) -> str:
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
    """Return a difference from the median: `−18%`, `+12%`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.0f}%"


def in_percent(share: float | None) -> float | None:
    """Return a share in percent to two places, for programs: -17.95."""
    return None if share is None else round(share * 100, 2)


def rank_name(rank: Any) -> str:
    """Return the name of a rank: its replica's, with its number where the replica has several."""
    return brief(rank.name) if rank.is_alone else f"{brief(rank.name)}, rank {rank.dp_rank}"


def title(ranks: Sequence[Any]) -> str:
    """Return the capacity of a fleet in one sentence: `Two ranks have less KV cache than their peers`."""
    known = [rank for rank in ranks if rank.counts and rank.value is not None]
    if not known:
        return "KV cache capacity: not reported" if ranks else "No engine data"
    off = [rank.off for rank in ranks if rank.off is not None]
    short = {rank.pool for rank in ranks if is_short(rank)}
    if len(short) > 1:
        return f"{len(short):,} pools have a short rank"
    if off:
        less = sum(share < 0 for share in off)
        number, word = (less, "less") if less else (len(off), "more")
        noun, have, their = ("rank", "has", "its peers") if number == 1 else ("ranks", "have", "their peers")
        ranks_word = formatting.in_words(number)
        return f"{ranks_word[:1].upper()}{ranks_word[1:]} {noun} {have} {word} KV cache than {their}"
    if tied([(rank.pool, rank.peers) for rank in known], [rank.value for rank in known]):
        return "Ranks of one pool differ, without a majority"
    return "All ranks are close to the median of their peers"


def pool_title(pool: str, ranks: Sequence[Any]) -> str:
    """Return the capacity of one pool: `chat: two ranks have less KV cache than their peers`."""
    return scoped_title(title(ranks).replace(" of one pool", ""), pool)


def lead(ranks: Sequence[Any], silent: int, elsewhere: int = 0) -> str:
    """Return the consequence, and how many ranks are known.

    `silent` counts replicas without engine data, `elsewhere` the short ranks of the pools that are not shown.
    """
    counted = [rank for rank in ranks if rank.counts]
    known = sum(rank.value is not None for rank in counted)
    if not known:
        return most_common_reason(counted)
    of = count(len(counted), "rank")
    of = f"{of} known" if known == len(counted) else f"{known:,} of {of} known"
    of += f"; {count(silent, 'replica')} without engine data" if silent else ""
    of += f". {count(elsewhere, 'short rank')} in other pools" if elsewhere else ""
    pools = Counter(rank.pool or "no pool" for rank in ranks if is_short(rank))
    if not pools:
        return f"No rank is more than {TOLERANCE * 100:.0f}% off the median of its pool and device. {of}."
    named = [brief(pool) for pool, _ in pools.most_common(MOST_POOLS)]
    rest = [f"{len(pools) - MOST_POOLS:,} more pools"] if len(pools) > MOST_POOLS else []
    first = "this rank fills" if pools.total() == 1 else "these ranks fill"
    return f"{formatting.joined(named + rest)}: under even load {first} first. {of}."


def is_short(rank: Any) -> bool:
    """Return whether a rank has much less than the median of its peers."""
    return rank.off is not None and rank.off < 0


def most_common_reason(ranks: Sequence[Any]) -> str:
    """Return why most ranks have no value; empty where there is no rank."""
    reasons = Counter(unknown_reason(rank) for rank in ranks if rank.value is None)
    return reasons.most_common(1)[0][0] if reasons else ""


def value_text(rank: Any) -> str:
    return bounded(rank.value or 0, rank.measure, rank.is_bound)


def requests_text(rank: Any) -> str:
    if rank.requests is None:
        return formatting.NOT_KNOWN if rank.is_served else NOT_SERVED
    return bounded(rank.requests, Measure.REQUESTS, rank.is_requests_bound)


def outlier_sentence(rank: Any) -> str:
    """Return an outlier's value with its median: `400,320 tokens, 18% less than the median (487,904)`."""
    return (
        f"{value_text(rank)} {rank.measure}, {abs(rank.off) * 100:.0f}% {'less' if rank.off < 0 else 'more'} than the "
        f"median ({amount(rank.usual, rank.measure)})"
    )


def sum_text(total: Sum, measure: Measure) -> str:
    """Return a sum, as an upper bound where one of its parts is."""
    return formatting.NOT_KNOWN if total.value is None else bounded(total.value, measure, total.at_most)


def ranks_text(pool: PoolCapacity) -> str:
    """Return the number of a pool's ranks, with the known ones where some are not: `8 of 10 known`."""
    return f"{pool.ranks:,}" if pool.tokens.known == pool.ranks else f"{pool.tokens.known:,} of {pool.ranks:,} known"


def window_texts(fleet: Fleet) -> dict[str | None, str]:
    """Return how many KV cache groups do not keep every token, by pool: those of its first rank that counts."""
    found: dict[str | None, str] = {}
    for replica in fleet.replicas:
        if replica.pool in found or not replica.is_counted:
            continue
        awake = {engine.dp_rank for engine in replica.engines if engine.sleep_level is None}
        groups = [group for group in replica.kv_cache_groups if group.dp_rank in awake]
        if own := [group for group in groups if group.dp_rank == groups[0].dp_rank]:
            less = sum(group.spec_type not in KEEPS_ALL for group in own)
            text = f": {less} of {len(own)} KV cache groups keep only a window or a state"
            found[replica.pool] = text if less else ""
    return {pool: text for pool, text in found.items() if text}


def naive_text(pool: PoolCapacity, why: str = "") -> tuple[bool, str]:
    """Return whether the naive estimate of a pool misleads, and by how much. `why` may be that of `window_texts`."""
    if pool.naive is None or not pool.naive_of:
        return False, pool.reasons[0] if pool.reasons else "Unknown: no rank reports both."
    ratio = pool.naive / pool.naive_of
    where = " (of ranks that report their tokens)" if pool.basis is Basis.ASSUMED else ""
    if abs(ratio - 1) <= NEAR:
        return False, f"equal{where}"
    if ratio < 1:
        return True, f"{pool.naive:,}: {(1 - ratio) * 100:.0f}% too little{where}"
    much = f"{ratio:.1f} × too much" if ratio >= MUCH else f"{(ratio - 1) * 100:.0f}% too much"
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


def not_drawn(ranks: Sequence[Any], silent: Sequence[Replica]) -> Iterator[Text]:
    """Yield what bars of these ranks do not show. `silent` are replicas without engine data."""
    if used := used_text(ranks):
        yield pieces.plain(f"Inner bars: {used}")
    bounds = Counter(rank.reason or "" for rank in ranks if rank.value is not None and rank.is_bound)
    for reason, number in bounds.most_common(MOST_NAMED):
        yield pieces.plain(f"Hatched bars ({count(number, 'rank')}) are upper bounds. {reason}")
    unknown = grouped((unknown_reason(rank), rank) for rank in ranks if rank.value is None)
    for reason, own in sorted(unknown.items(), key=lambda item: -len(item[1])):
        yield (Piece(f"{count(len(own), 'rank')} unknown ({reason.removesuffix('.')}): "), *_names(own))
    if silent:
        yield (Piece("No engine data: "), *_first([(each.name, each.id) for each in silent]))
    yield from not_counted(ranks)


def used_text(ranks: Sequence[Any]) -> str:
    """Return what the shares in use are of, and where they are unknown; empty where none is known."""
    known = [rank.traffic.kv_usage is not None for rank in ranks]
    missing = f"; unknown on {count(known.count(False), 'rank')}" if not all(known) else ""
    window = formatting.duration(max((rank.traffic.seconds for rank in ranks), default=0.0))
    return f"KV cache in use, highest value in {window}{missing}." if any(known) else ""


def not_counted(ranks: Sequence[Any]) -> Iterator[Text]:
    """Yield the ranks that are drawn pale, and why no sum and no median includes them."""
    for reason, is_fresh in (("stale", False), ("second address of one process", True)):
        if pale := [rank for rank in ranks if not rank.counts and rank.is_fresh is is_fresh]:
            yield (Piece(f"Pale bars are not counted ({reason}): "), *_names(pale))


def _names(ranks: Iterable[Any]) -> Text:
    return _first([(rank_name(rank), rank.replica) for rank in ranks])


def _first(named: Sequence[tuple[str, str]]) -> Text:
    """Return the first names, each with its replica's id and once; the rest is counted."""
    names = list(dict.fromkeys((brief(name), key) for name, key in named))
    rest = len(names) - MOST_NAMED + 1
    texts: list[Text] = [
        (pieces.replica(name, key),) for name, key in (names if rest <= 1 else names[: MOST_NAMED - 1])
    ]
    return pieces.join_texts([*texts, *([pieces.plain(f"{rest:,} more")] if rest > 1 else [])])


def ranks_of(
    fleet: Fleet, length: int | None = None, measure: Measure = Measure.TOKENS, of: Sequence[Replica] | None = None
) -> list[Any]:
    """Return the rows of the frame `engines` with what is shown of each DP rank; those `of` some replicas lack peers.

    `value` is in the `measure`, an upper bound where it `is_bound`. Requests have `length` tokens, or each rank's own
    length (None). `counts`: no sum and no median has ranks of stale replicas, second addresses of a process, and ranks
    that sleep. `device` is the name of most of its devices. Its peers are of one pool and one kind of device
    (`peers`; if its own is not reported, the only one of its pool): `usual` is their median, `off` an outlier's share
    above it.
    """
    replicas = fleet.replicas if of is None else of
    every = [(replica, engine) for replica in replicas for engine in replica.engines]
    requests = [_requests(fleet, replica, engine, length) for replica, engine in every]
    gib = [None if engine.kv_cache_bytes is None else engine.kv_cache_bytes / GIB for _, engine in every]
    if measure is Measure.TOKENS:
        values: list[Any] = [engine.kv_cache_size_tokens for _, engine in every]
        bounds = [engine.basis is Basis.ASSUMED for _, engine in every]
    elif measure is Measure.GIB:  # the provider reports bytes, which are no bounds
        values, bounds = gib, [False] * len(every)
    else:
        values, bounds = [each.requests for each in requests], [each.at_most for each in requests]
    devices = _most_devices(replicas)
    columns: dict[str, list[Any]] = {
        "name": [replica.name for replica, _ in every],
        "is_alone": [len(replica.engines) == 1 for replica, _ in every],
        "is_fresh": [replica.fresh for replica, _ in every],
        "requests": [each.requests for each in requests],
        "is_served": [each.served for each in requests],
        "is_requests_bound": [each.at_most for each in requests],
        "measure": [measure] * len(every),
        "gib": gib,
        "value": values,
        "is_bound": bounds,
        "traffic": [fleet.traffic.get(replica.id, {}).get(engine.dp_rank, NO_TRAFFIC) for replica, engine in every],
        "device": [devices.get((replica.id, engine.dp_rank), "") for replica, engine in every],
    }
    frame = fleet.frames.engines
    if of is not None:
        frame = frame[frame["replica"].isin([replica.id for replica in of])]
    counted = [value if counts else None for value, counts in zip(values, frame["counts"], strict=True)]
    counted = counted if of is None else [None] * len(every)
    return list(rows_of(frame, columns | _peers([replica.pool for replica, _ in every], columns["device"], counted)))


def _most_devices(replicas: Iterable[Replica]) -> dict[tuple[str, int], str]:
    """Return the name of most devices of each rank, by the id of its replica and its number."""
    kinds = Counter((replica.id, device.dp_rank, device.name) for replica in replicas for device in replica.devices)
    found: dict[tuple[str, int], str] = {}
    for (replica, rank, name), _ in sorted(kinds.items(), key=lambda item: (-item[1], item[0][2])):
        found.setdefault((replica, rank), name)
    return found


def _requests(fleet: Fleet, replica: Replica, engine: Engine, length: int | None) -> RequestsAtLength:
    if length is None:
        return RequestsAtLength(engine.max_concurrency, served=True, at_most=engine.basis is Basis.ASSUMED)
    document = fleet.documents.get(replica.document or "")
    return requests_at(engine, replica.kv_cache_groups, document.settings if document else {}, length)


def unknown_reason(rank: Any) -> str:
    if rank.measure is Measure.GIB:
        return NO_BYTES if rank.kv_cache_bytes_per_device is None else NO_NUMBER_OF_GPUS
    if rank.measure is Measure.REQUESTS and not rank.is_served:
        return NOT_SERVED_AT_LENGTH
    if rank.reason and rank.kv_cache_size_tokens is None:
        return str(rank.reason)
    return NO_REQUESTS if rank.measure is Measure.REQUESTS else NOT_REPORTED


def _peers(
    pools: Sequence[str | None], devices: Sequence[str], counted: Sequence[float | None]
) -> dict[str, list[Any]]:
    """Return the columns of ranks compared with their peers. `counted` are the values of those that count."""
    kinds: dict[str | None, set[str]] = defaultdict(set)
    for pool, device in zip(pools, devices, strict=True):
        kinds[pool].update([device] if device else [])
    only = {pool: min(found) if len(found) == 1 else "" for pool, found in kinds.items()}
    peers = [device or only[pool] for pool, device in zip(pools, devices, strict=True)]
    together = list(zip(pools, peers, strict=True))
    middle = medians(together, counted)
    off = outliers(together, counted)
    return {
        "peers": peers,
        "usual": [middle.get(each) for each in together],
        "off": [off.get(place) for place in range(len(peers))],
    }


def pools_of(fleet: Fleet, ranks: Iterable[Any], length: int | None) -> tuple[PoolCapacity, ...]:
    """Return the sums of the pools with ranks that count; requests of a common `length` are added up from `ranks`."""
    found = tuple(held for pool in fleet.pools if (held := fleet.capacity[pool.name]).ranks)
    if length is None:
        return found
    counted = grouped((rank.pool, rank) for rank in ranks if rank.counts)
    return tuple(_at_length(held, counted[held.name]) for held in found)


def _at_length(held: PoolCapacity, ranks: Sequence[Any]) -> PoolCapacity:
    known = [rank for rank in ranks if rank.requests is not None]
    requests = sum(rank.requests for rank in known if rank.adds) if known else None
    total = Sum(requests, len(known), at_most=any(rank.is_requests_bound for rank in known))
    return held._replace(requests=total, not_served=sum(not rank.is_served for rank in ranks))
