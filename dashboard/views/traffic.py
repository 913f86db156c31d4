"""Traffic: what cohorts, replicas or engines did in one window, and why a rate is missing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import (
    avoidable_tokens,
    dominant_of,
    effects_of_prefixes,
    is_of_prefixes,
    prompt_share,
    without_fed,
)
from dashboard.fleet.formatting import (
    NOT_KNOWN,
    count,
    duration,
    missing_rate,
    missing_word,
    not_counted,
    share,
    short,
)
from dashboard.fleet.pieces import Link
from dashboard.fleet.traffic import Traffic
from dashboard.rules.sentences import capital
from dashboard.views.blocks import Cell, Figure, Table
from dashboard.views.names import brief
from dashboard.views.table import Field, to_table

CACHING_OFF = "caching off"
UNREACHABLE = "unreachable"
TRAFFIC_OFF = "traffic is off (option traffic)"
NOT_BY_REPLICA = "not recorded by replica"
DIGITS = 4  # after the point, for programs
ESTIMATE = "Recomputed, avoidable (estimate)"
ASSUMPTION = "assumes equal prompts"
WITHOUT_DECODE = "without decode pools"


class TrafficRow(NamedTuple):
    """What a row of traffic is of. `share` is its part of the prompt tokens of its pool.

    `parts` are the traffic of each of its replicas, `dominant` the one that decides the rate of all, with its share of
    the queried tokens. `is_off`: prefix caching is off by setting. `is_down`: a replica does not answer.
    """

    name: str
    traffic: Traffic
    link: Link | None = None
    letter: str = ""
    share: float | None = None
    parts: Sequence[Traffic] = ()
    dominant: tuple[str, float] | None = None
    is_off: bool = False
    is_down: bool = False


def rate_text(traffic: Traffic, *, is_off: bool = False, is_down: bool = False) -> str:
    """Return the prefix hit rate, else in few words why there is none: `62%`, `0%, caching off`."""
    rate = traffic.hit_rate
    if rate is not None:
        return f"{share(rate)}, {CACHING_OFF}" if is_off else share(rate)
    if is_down and not traffic.seconds:
        return UNREACHABLE
    return CACHING_OFF if is_off else missing_word(traffic)


def rate_in_sentence(traffic: Traffic, *, is_external: bool = False) -> str:
    """Return a hit rate for a sentence: `62%`, `unknown (no requests)`."""
    rate, text = traffic.hit_rate, rate_text(traffic)
    if is_external:
        rate, text = traffic.external_hit_rate, external_text(traffic)
    return text if rate is not None else f"unknown ({text})"


def rate_hint(traffic: Traffic, *, is_down: bool = False) -> str:
    """Return what the rate is of, or why there is none."""
    if traffic.hit_rate is None:
        return f"{capital(UNREACHABLE)}." if is_down and not traffic.seconds else missing_rate(traffic)
    counted = f"{short(traffic.hits)} of {short(traffic.queries)} prompt tokens in {duration(traffic.seconds)}"
    return f"{counted}. {refused}" if (refused := not_counted(traffic)) else counted


def _rate_cell(row: Any) -> Cell:
    notes = _range(row, attrgetter("hit_rate"), share)
    if dominant := getattr(row, "dominant", None):
        notes.append(f"{dominant[0]} has {share(dominant[1])} of the tokens")
    text = rate_text(row.traffic, is_off=row.is_off, is_down=row.is_down)
    return Cell(text, note=", ".join(notes), hint=rate_hint(row.traffic, is_down=row.is_down))


def _range(row: Any, measure: Callable[[Traffic], float | None], text: Callable[[float], str]) -> list[str]:
    """Return the lowest and the highest number of the replicas of a row, where they differ: `10% to 60%`."""
    known = [number for each in getattr(row, "parts", ()) if (number := measure(each)) is not None]
    ends = dict.fromkeys(map(text, (min(known), max(known)))) if known else ()
    return [" to ".join(ends)] if len(ends) > 1 else []


def seconds_text(seconds: float) -> str:
    """Write a short time: `420 ms`, `1.3 s`."""
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _requests_text(number: float) -> str:
    return f"{number:,.1f}" if 0 < number < 10 else f"{number:,.0f}"  # noqa: PLR2004  a digit more of few


def _missing(traffic: Traffic) -> str:
    return "unsupported" if traffic.seconds and not traffic.refused else NOT_KNOWN


def _no_first_token(traffic: Traffic) -> str:
    return "no requests" if traffic.first_tokens == 0 else _missing(traffic)


def external_text(traffic: Traffic) -> str:
    """Return the external hit rate, else in few words why there is none."""
    rate = traffic.external_hit_rate
    return _no_external(traffic) if rate is None else share(rate)


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
    *,
    is_mean: bool = False,
) -> Field:
    """Return the column of a number, of any rows with `traffic`; that of a mean has the range of their replicas."""

    def write(row: Any) -> Cell:
        number = measure(row.traffic)
        notes = _range(row, measure, text) if is_mean else []
        return Cell(missing(row.traffic) if number is None else text(number), note=", ".join(notes))

    def value(row: Any) -> float | None:
        number = measure(row.traffic)
        return None if number is None else round(number, DIGITS)

    return Field("", title, write, value, key=key, is_number=True)


_RATE = _measured("prefix_hit_rate", "Prefix hit rate", attrgetter("hit_rate"))
HIT_RATE = replace(_RATE, text=_rate_cell, term="prefix hit rate")
PROMPT_SHARE = Field("share", "Share of prompts", lambda row: share(row.share), missing=NOT_KNOWN, is_number=True)
REQUESTS = _measured("requests_per_minute", "Requests/min", lambda own: own.per_minute(own.requests), _requests_text)
PROMPT_TOKENS = _measured(
    "prompt_tokens_per_minute", "Prompt tokens/min", lambda own: own.per_minute(own.prompt_tokens), short
)
FIRST_TOKEN = _measured(
    "time_to_first_token_seconds",
    "Time to first token",
    attrgetter("first_token"),
    seconds_text,
    _no_first_token,
    is_mean=True,
)
PREEMPTIONS = _measured("preemptions", "Preemptions", attrgetter("preemptions"))
WAITING = _measured("waiting", "Waiting", attrgetter("waiting"))
KV_USAGE = _measured("kv_usage", "KV in use", attrgetter("kv_usage"), share)
EXTERNAL = _measured(
    "external_hit_rate", "External hit rate", attrgetter("external_hit_rate"), share, _no_external, is_mean=True
)


WHY_NO_RATE = Field(
    "",
    key="prefix_hit_rate_missing",
    value=lambda row: "" if row.traffic.hit_rate is not None else rate_hint(row.traffic, is_down=row.is_down),
)


def traffic_of(fleet: Fleet, name: str, pool: str, replicas: Sequence[str], **more: Any) -> TrafficRow:
    """Return the row of some replicas of a pool; `more` are its link and its letter."""
    is_off = bool(replicas) and fleet.without_cache.issuperset(replicas)
    most = dominant_of(fleet, replicas)
    return TrafficRow(
        name,
        fleet.traffic_of(replicas),
        share=prompt_share(fleet, replicas, [pool]),
        parts=[fleet.traffic_of([each]) for each in replicas] if len(replicas) > 1 else (),
        dominant=(fleet.names[most[0]], most[1]) if most else None,
        is_off=is_off,
        **more,
    )


def traffic_table(rows: Iterable[TrafficRow], head: str, name: str, caption: str, *, is_past: bool = False) -> Table:
    """Return a row for each traffic, under the `head` of what they are of, in one window.

    `is_past`: the window is around a past time.
    """
    known = list(rows)
    fields = [
        Field("name", head, lambda row: Cell(row.name, letter=row.letter), link=lambda row: row.link),
        HIT_RATE,
        *([PROMPT_SHARE] if any(row.share is not None for row in known) else []),
        *(PROMPT_TOKENS, REQUESTS, FIRST_TOKEN, PREEMPTIONS, WAITING, KV_USAGE),
        *external_of(known),
        WHY_NO_RATE,
    ]
    return to_table(known, fields, name, caption, window_note((row.traffic for row in known), is_past=is_past))


def window_note(parts: Iterable[Traffic], *, is_past: bool = False) -> str:
    """Return which time the numbers are of; empty without any."""
    seconds = max((each.seconds for each in parts), default=0.0)
    window = f"{duration(seconds)} around this time" if is_past else f"the last {duration(seconds)}"
    return f"Traffic of {window}. Waiting, KV in use: highest value read." if seconds else ""


def why_no_traffic(fleet: Fleet) -> str:
    """Return why no replica of a fleet has a hit rate, in few words; empty where some replica was counted."""
    if fleet.traffic or fleet.recorded_traffic:
        return ""
    if fleet.past is not None:
        return "not recorded at this time"
    if fleet.snapshot is not None:
        return "not in this snapshot"
    if fleet.is_saved_answers:
        return "saved answers have no rates"
    return "not read twice yet" if fleet.traffic_window else TRAFFIC_OFF


def no_traffic_text(fleet: Fleet) -> str:
    """Return the same where hit rates are not named: `traffic is off (option traffic)`."""
    why = why_no_traffic(fleet)
    return why if why in {"", TRAFFIC_OFF} else f"prefix hit rates: {why}"


def why_no_rates(fleet: Fleet) -> str:
    """Return in a sentence why no single replica of a fleet has traffic; empty where some has, or will have."""
    if fleet.recorded_traffic is not None:
        return "The history has no traffic of single replicas, but of pools and cohorts."
    return "" if fleet.traffic or fleet.traffic_window else f"{capital(no_traffic_text(fleet))}."


def traffic_figures(fleet: Fleet, rates_link: Link | None = None) -> tuple[Figure, Figure]:
    """Return the prefix hit rate of a fleet, and the estimate of what its findings on prefix sharing cost."""
    if why := why_no_traffic(fleet):
        return (Figure("Prefix hit rate", "unknown", why), Figure(ESTIMATE, "unknown", why))
    replicas = without_fed(fleet, [each.id for each in fleet.replicas])
    every = fleet.traffic_of(replicas)
    rate = every.hit_rate
    if rate is None:
        hits = Figure("Prefix hit rate", "unknown", missing_word(every))
    else:
        note = f"{short(every.queries)} prompt tokens in {duration(every.seconds)}"
        if most := dominant_of(fleet, replicas):
            note = f"{note} · {brief(fleet.names[most[0]])} has {share(most[1])} of them"
        if len(replicas) < len(fleet.replicas):
            note = f"{note} · {WITHOUT_DECODE}"
        hits = Figure("Prefix hit rate", share(rate), note, link=rates_link)
    return hits, _recomputed(fleet)


def _recomputed(fleet: Fleet) -> Figure:
    effects = effects_of_prefixes(fleet)
    tokens = avoidable_tokens(effects)
    if tokens is None:
        if not is_of_prefixes(fleet.inspection.findings):
            return Figure(ESTIMATE, "none", "no findings on prefixes")
        return Figure(ESTIMATE, "unknown", "no rates to compare")
    known = {each.pool for each in effects if each.avoidable_tokens is not None}
    asked = dict.fromkeys(each.pool for each in effects if not each.is_decode)
    unknown = [brief(each) for each in asked if each not in known]
    where = unknown[0] if len(unknown) == 1 else count(len(unknown), "pool")
    note = f"{ASSUMPTION} · unknown in {where}" if unknown else ASSUMPTION
    return Figure(ESTIMATE, per_minute(tokens), note)


def per_minute(tokens: float) -> str:
    return f"{short(tokens)} tokens/min"


def external_of(rows: Iterable[TrafficRow]) -> list[Field]:
    """Return the column of external hit rates, where a connector was asked."""
    return [EXTERNAL] if any(row.traffic.external_queries for row in rows) else []
