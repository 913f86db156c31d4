"""Traffic as cells and tables: what cohorts, replicas or engines did in one window, and why a rate is missing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import dominant_of, effect_of, spread_of
from dashboard.fleet.formatting import NOT_KNOWN, duration, missing_rate, missing_word, not_counted, share, short
from dashboard.fleet.pieces import Link
from dashboard.fleet.traffic import Traffic
from dashboard.views.blocks import Cell, Table
from dashboard.views.help import HIT_RATE as HIT_RATE_TERM
from dashboard.views.table import Field, to_table

CACHING_OFF = "caching off"
DIGITS = 4  # after the point, for programs


class TrafficRow(NamedTuple):
    """What a row of traffic is of. `share` is its part of the prompt tokens of its pool.

    `spread` is the lowest and the highest hit rate of its replicas, `dominant` the one that decides the rate of all,
    with its share of the queried tokens. `is_off`: prefix caching is off by setting.
    """

    name: str
    traffic: Traffic
    link: Link | None = None
    letter: str = ""
    share: float | None = None
    spread: tuple[float, float] | None = None
    dominant: tuple[str, float] | None = None
    is_off: bool = False


def rate_text(traffic: Traffic, *, is_off: bool = False) -> str:
    """Return the prefix hit rate, else in few words why there is none: `62%`, `0%, caching off`."""
    rate = traffic.hit_rate
    if rate is None:
        return CACHING_OFF if is_off else missing_word(traffic)
    return f"{share(rate)}, {CACHING_OFF}" if is_off else share(rate)


def rate_hint(traffic: Traffic) -> str:
    """Return what the rate is of, or why there is none."""
    if traffic.hit_rate is None:
        return missing_rate(traffic)
    counted = f"{short(traffic.hits)} of {short(traffic.queries)} prompt tokens in {duration(traffic.seconds)}"
    return f"{counted}. {refused}" if (refused := not_counted(traffic)) else counted


def _rate_cell(row: Any) -> Cell:
    spread = getattr(row, "spread", None)
    notes = [f"{share(spread[0])} to {share(spread[1])}"] if spread and spread[0] != spread[1] else []
    if dominant := getattr(row, "dominant", None):
        notes.append(f"{dominant[0]} has {share(dominant[1])} of the tokens")
    return Cell(rate_text(row.traffic, is_off=row.is_off), note=", ".join(notes), hint=rate_hint(row.traffic))


def seconds_text(seconds: float) -> str:
    """Write a short time: `420 ms`, `1.3 s`."""
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _requests_text(number: float) -> str:
    return f"{number:,.1f}" if 0 < number < 10 else f"{number:,.0f}"  # noqa: PLR2004  a digit more of few


def _missing(traffic: Traffic) -> str:
    return "unsupported" if traffic.seconds and not traffic.refused else NOT_KNOWN


def _no_first_token(traffic: Traffic) -> str:
    return "no requests" if traffic.first_tokens == 0 else _missing(traffic)


def _no_external(traffic: Traffic) -> str:
    if traffic.external_queries is None:
        return _missing(traffic)
    return "not enough traffic" if traffic.external_queries else "not used"


def _measured(
    key: str,
    title: str,
    measure: Callable[[Traffic], float | None],
    text: Callable[[float], str] = "{:,.0f}".format,
    missing: Callable[[Traffic], str] = _missing,
) -> Field:
    """Return the column of a number, of any rows with `traffic`."""

    def write(row: Any) -> str:
        number = measure(row.traffic)
        return missing(row.traffic) if number is None else text(number)

    def value(row: Any) -> float | None:
        number = measure(row.traffic)
        return None if number is None else round(number, DIGITS)

    return Field("", title, write, value, key=key, is_number=True)


_RATE = _measured("prefix_hit_rate", "Prefix hit rate", attrgetter("hit_rate"))
HIT_RATE = replace(_RATE, text=_rate_cell, term=HIT_RATE_TERM)
PROMPT_SHARE = Field("share", "Share of prompts", lambda row: share(row.share), missing=NOT_KNOWN, is_number=True)
REQUESTS = _measured("requests_per_minute", "Requests/min", lambda own: own.per_minute(own.requests), _requests_text)
PROMPT_TOKENS = _measured(
    "prompt_tokens_per_minute", "Prompt tokens/min", lambda own: own.per_minute(own.prompt_tokens), short
)
FIRST_TOKEN = _measured(
    "time_to_first_token_seconds", "Time to first token", attrgetter("first_token"), seconds_text, _no_first_token
)
PREEMPTIONS = _measured("preemptions", "Preemptions", attrgetter("preemptions"))
WAITING = _measured("waiting", "Waiting", attrgetter("waiting"))
KV_USAGE = _measured("kv_usage", "KV in use", attrgetter("kv_usage"), share)
EXTERNAL = _measured("external_hit_rate", "External hit rate", attrgetter("external_hit_rate"), share, _no_external)
WHY_NO_RATE = Field("", key="prefix_hit_rate_missing", value=lambda row: missing_rate(row.traffic))


def traffic_of(fleet: Fleet, name: str, pool: str, replicas: Sequence[str], **more: Any) -> TrafficRow:
    """Return the row of some replicas of a pool; `more` are its link and its letter."""
    effect = effect_of(fleet, pool, replicas)
    is_off = bool(replicas) and fleet.without_cache.issuperset(replicas)
    spread = spread_of(fleet, replicas) if len(replicas) > 1 else None
    most = dominant_of(fleet, replicas)
    return TrafficRow(
        name,
        effect.affected,
        share=effect.prompt_share,
        spread=spread,
        dominant=(fleet.names[most[0]], most[1]) if most else None,
        is_off=is_off,
        **more,
    )


def traffic_table(rows: Iterable[TrafficRow], head: str, name: str, caption: str) -> Table:
    """Return a row for each traffic, under the `head` of what they are of, in one window."""
    known = list(rows)
    fields = [
        Field("name", head, lambda row: Cell(row.name, letter=row.letter), link=lambda row: row.link),
        HIT_RATE,
        *([PROMPT_SHARE] if any(row.share is not None for row in known) else []),
        *(PROMPT_TOKENS, REQUESTS, FIRST_TOKEN, PREEMPTIONS, WAITING, KV_USAGE),
        *([EXTERNAL] if any(row.traffic.external_queries for row in known) else []),
        WHY_NO_RATE,
    ]
    return to_table(known, fields, name, caption, window_note(row.traffic for row in known))


def window_note(parts: Iterable[Traffic]) -> str:
    """Return which time the numbers are of; empty without any."""
    seconds = max((each.seconds for each in parts), default=0.0)
    return f"Traffic of the last {duration(seconds)}. Waiting, KV in use: highest value read." if seconds else ""
