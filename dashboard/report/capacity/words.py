"""What the Capacity page says in words: numbers with unit and bound, sentences on outliers and on what is unknown."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from dashboard.capacity.outliers import TOLERANCE, Outlier, tied
from dashboard.fleet import Basis, formatting
from dashboard.report.capacity.pools import PoolCapacity, Sum
from dashboard.report.capacity.ranks import Measure, Rank, is_at_most, peers, value, why_unknown

LONGEST_NAME = 40  # characters of a foreign name in a chart or sentence
EXACT_BELOW = 100  # requests from here on are whole numbers
NEAR = 0.005  # share by which two token counts may part and still be called the same
HALF_DIGIT = 0.0005  # of three: 999.6 k is 1.00 M
MOST_POOLS = 3  # pools named in one sentence

_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def amount(number: float, measure: Measure) -> str:
    """Write one value whole: `1,340,000`, `46.4`, `162`; requests are rounded down, for half a request does not fit."""
    if measure is Measure.TOKENS:
        return f"{number:,.0f}"
    if measure is Measure.GIB:
        return f"{number:,.1f}"
    places = 0 if number >= EXACT_BELOW else 1 if number >= 1 else 2
    return f"{math.floor(number * 10**places) / 10**places:,.{places}f}"


def brief(number: float, measure: Measure) -> str:
    """Write one value short, for a label: `1.64 M`, `46.4 GiB`, `162`."""
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
    """Write the marks of an axis in one scale: `0`, `0.5 M`, `1.0 M`."""
    highest = max(marks, default=0.0)
    scales = _SCALES if measure is Measure.TOKENS else ()
    unit, name = next(((unit, f" {name}") for unit, name in scales if highest >= unit), (1, ""))
    places = 0 if all(float(mark / unit).is_integer() for mark in marks) else 2 if highest / unit < 1 else 1
    after = " GiB" if measure is Measure.GIB else name
    return [f"{mark / unit:,.{places}f}{after}" if mark else "0" for mark in marks]


def percent(share: float) -> str:
    """Write how far a value is from its median: `−18 %`, `+12 %`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.0f} %"


def in_percent(share: float) -> float:
    """Return a share in percent to two places, for programs: -17.95."""
    return round(share * 100, 2)


def name_of(text: str) -> str:
    """Cut a foreign name to one short line."""
    return formatting.middle_cut(formatting.one_line(text), LONGEST_NAME)


def rank_name(rank: Rank) -> str:
    """Name a rank: by its replica, and by its number where the replica has several."""
    name = name_of(rank.replica.name)
    return f"{name}, rank {rank.engine.dp_rank}" if len(rank.replica.engines) > 1 else name


def title(ranks: Sequence[Rank], found: Mapping[int, Outlier], measure: Measure) -> str:
    """Say in one sentence how the capacity is: `Two ranks hold less than their peers`."""
    known = [rank for rank in ranks if rank.counts and value(rank, measure) is not None]
    if not known:
        return "No replica tells its KV cache capacity" if ranks else "No replica tells its engines"
    less = sum(outlier.share < 0 for outlier in found.values())
    more = len(found) - less
    if less:
        return f"{_ranks(less)} {'holds' if less == 1 else 'hold'} less than {'its' if less == 1 else 'their'} peers"
    if more:
        return f"{_ranks(more)} {'holds' if more == 1 else 'hold'} more than {'its' if more == 1 else 'their'} peers"
    if tied(peers(known), [value(rank, measure) for rank in known]):
        return "Ranks of one pool differ, and no value has a majority"
    return "Every rank holds about as much as its peers"


def lead(ranks: Sequence[Rank], found: Mapping[int, Outlier], measure: Measure, silent: int) -> str:
    """Say what follows from it, and how many ranks the sentence is about.

    `silent` counts the replicas of which no rank is known now: nobody knows how many ranks they have.
    """
    counted = [rank for rank in ranks if rank.counts]
    known = sum(value(rank, measure) is not None for rank in counted)
    if not known:
        return most_common_reason(counted, measure)
    of = _known(known, len(counted), silent)
    less = [place for place, outlier in found.items() if outlier.share < 0]
    if less:
        pools = Counter(ranks[place].replica.pool or "no pool" for place in less)
        named = [name_of(pool) for pool, _ in pools.most_common(MOST_POOLS)]
        rest = [f"{len(pools) - MOST_POOLS:,} more pools"] if len(pools) > MOST_POOLS else []
        where = formatting.joined(named + rest)
        return f"In {where}: a router that spreads requests evenly fills the short ones first. {of}."
    return f"More than {TOLERANCE * 100:.0f} % away from the median of its pool and device would be named here. {of}."


def _known(known: int, ranks: int, silent: int) -> str:
    """Write `41 ranks known`, `40 of 41 ranks known`, and whose ranks nobody knows."""
    told = f"{formatting.count(ranks, 'rank')} known"
    told = told if known == ranks else f"{known:,} of {told}"
    return f"{told}; those of {formatting.count(silent, 'replica')} are not known" if silent else told


def most_common_reason(ranks: Sequence[Rank], measure: Measure) -> str:
    """Say why most ranks have no value; empty when there is no rank."""
    reasons = Counter(why_unknown(rank, measure) for rank in ranks if value(rank, measure) is None)
    return reasons.most_common(1)[0][0] if reasons else ""


def outlier_sentence(rank: Rank, outlier: Outlier, measure: Measure) -> str:
    """Say how much a rank holds beside its peers' median; plain text."""
    bound = "at most " if is_at_most(rank, measure) else ""
    kind = "less" if outlier.share < 0 else "more"
    return (
        f"holds {abs(outlier.share) * 100:.0f} % {kind} than the median: {bound}{amount(outlier.value, measure)} "
        f"{measure} beside {amount(outlier.median, measure)}"
    )


def sum_text(total: Sum, measure: Measure) -> str:
    """Write a sum, as an upper bound where one of its parts is."""
    if total.value is None:
        return formatting.NOT_KNOWN
    return formatting.at_most(amount(total.value, measure), Basis.ASSUMED if total.at_most else Basis.REPORTED)


def ranks_text(pool: PoolCapacity) -> str:
    """Write how many ranks a pool has, and how many of them are known if not all: `8 of 10 known`."""
    return f"{pool.ranks:,}" if pool.tokens.known == pool.ranks else f"{pool.tokens.known:,} of {pool.ranks:,} known"


def naive_sentence(pool: PoolCapacity) -> tuple[bool, str]:
    """Say what blocks x block size would give; True when it misleads."""
    if pool.naive is None or not pool.naive_of:
        return False, pool.reasons[0] if pool.reasons else "Not known: no rank tells both."
    ratio = pool.naive / pool.naive_of
    where = ", where vLLM tells its tokens" if pool.basis is Basis.ASSUMED else ""
    if abs(ratio - 1) <= NEAR:
        return False, f"the same{where}"
    if ratio < 1:
        return True, f"{pool.naive:,}: {(1 - ratio) * 100:.0f} % too little{where}"
    less, groups = pool.window
    why = f": {less} of {groups} KV cache groups keep a window or a state only" if less else ""
    much = f"{ratio:.1f} × too much" if ratio >= 1.95 else f"{(ratio - 1) * 100:.0f} % too much"  # noqa: PLR2004  # 2.0 ×
    return True, f"{pool.naive:,}: {much}{where}{why}"


def length_words(length: int | None) -> str:
    """Name a length: `32 k`, `100,000`; None is each replica's own."""
    if length is None:
        return "own length"
    return f"{length // 1024:,} k" if length % 1024 == 0 else f"{length:,}"


def parse_length(text: str) -> int | None:
    """Read a length in tokens: `32768`, `32,768`, `32k`; None when it is none. k is 1024, as context lengths go."""
    plain = text.strip().lower().replace(",", "").replace(" ", "").removesuffix("tokens")
    digits, factor = (plain[:-1], 1024) if plain.endswith("k") else (plain, 1)
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 12:  # noqa: PLR2004  # far above any model
        return None
    return int(digits) * factor or None


def _ranks(number: int) -> str:
    words = formatting.in_words(number)
    return f"{words[:1].upper()}{words[1:]} {'rank' if number == 1 else 'ranks'}"
