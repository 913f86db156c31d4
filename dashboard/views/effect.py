"""What a difference costs in words: on Overview, in the fix plan and for a finding."""

from collections.abc import Collection, Iterable, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause
from dashboard.analysis.effect import (
    Effect,
    avoidable_tokens,
    dominant_of,
    effects_of_cause,
    effects_of_prefixes,
    effects_on,
    is_estimated,
    is_of_prefixes,
    together,
)
from dashboard.fleet.formatting import count, duration, missing_rate, missing_word, share, short
from dashboard.fleet.pieces import Link, plain
from dashboard.rules.findings import Finding
from dashboard.rules.sentences import capital
from dashboard.views.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, quiet_paragraph
from dashboard.views.finding_text import pools_of
from dashboard.views.names import brief
from dashboard.views.traffic import (
    FIRST_TOKEN,
    HIT_RATE,
    PREEMPTIONS,
    PROMPT_SHARE,
    PROMPT_TOKENS,
    REQUESTS,
    TrafficRow,
    rate_text,
    seconds_text,
    traffic_of,
)

ESTIMATE = "Recomputed, avoidable (estimate)"
ASSUMPTION = "assumes equal prompts"
SIDES = (("These replicas", True), ("Rest of the pool", False))  # of one pool: its name, whether it is affected


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
    return "not read twice yet" if fleet.traffic_window else "traffic is off (option traffic)"


def why_no_rates(fleet: Fleet) -> str:
    """Return in a sentence why no single replica of a fleet has traffic; empty where some has, or will have."""
    if fleet.recorded_traffic is not None:
        return "The history has no traffic of single replicas, but of pools and cohorts."
    return "" if fleet.traffic or fleet.traffic_window else f"Prefix hit rates: {why_no_traffic(fleet)}."


def traffic_figures(fleet: Fleet, rates_link: Link | None = None) -> tuple[Figure, Figure]:
    """Return the prefix hit rate of a fleet, and the estimate of what its findings on prefix sharing cost."""
    if why := why_no_traffic(fleet):
        return (Figure("Prefix hit rate", "unknown", why), Figure(ESTIMATE, "unknown", why))
    replicas = [each.id for each in fleet.replicas]
    every = fleet.traffic_of(replicas)
    rate = every.hit_rate
    if rate is None:
        hits = Figure("Prefix hit rate", "unknown", missing_word(every))
    else:
        note = f"{short(every.queries)} prompt tokens in {duration(every.seconds)}"
        if most := dominant_of(fleet, replicas):
            note = f"{note} · {brief(fleet.names[most[0]])} has {share(most[1])} of them"
        hits = Figure("Prefix hit rate", share(rate), note, link=rates_link)
    return hits, _recomputed(fleet)


def _recomputed(fleet: Fleet) -> Figure:
    effects = effects_of_prefixes(fleet)
    tokens = avoidable_tokens(effects)
    if tokens is None:
        if not is_of_prefixes(fleet.inspection.findings):
            return Figure(ESTIMATE, "none", "no findings on prefix sharing")
        return Figure(ESTIMATE, "unknown", "no rates to compare")
    unknown = sum(each.avoidable_tokens is None for each in effects)
    note = f"{ASSUMPTION} · {count(unknown, 'pool')} unknown" if unknown else ASSUMPTION
    return Figure(ESTIMATE, per_minute(tokens), note)


def per_minute(tokens: float) -> str:
    return f"{short(tokens)} tokens/min"


def cause_text(fleet: Fleet, cause: Cause, pool: str = "", *, is_whole: bool = False) -> str:
    """Return what was measured where a cause of prefixes is, in all pools or in one; empty for others.

    `Prefix hit rate 4%; rest of the pool 62%. 120 k tokens/min recomputed (estimate).` `is_whole`: the estimate with
    its inputs and its assumption.
    """
    if why_no_traffic(fleet) or not is_of_prefixes(cause.findings):
        return ""
    effects = effects_of_cause(fleet, cause, pool)
    if not effects:
        return f"Prefix hit rate: {_missing(fleet, cause.replicas)}"
    return _measured_text(effects, is_whole=is_whole)


def finding_line(fleet: Fleet, finding: Finding) -> str:
    """Return what was measured where a finding on prefixes is; empty for others, and without traffic."""
    measured = findings_effect(fleet, [finding])
    return f"Effect, measured: {measured}" if measured else ""


def findings_effect(fleet: Fleet, findings: Sequence[Finding]) -> str:
    """Return the same of findings together, without a label."""
    replicas = {replica for each in findings for replica in each.replicas}
    effects = effects_on(fleet, replicas, pools_of(findings)) if is_of_prefixes(findings) else ()
    return _measured_text(effects) if effects else ""


def _measured_text(effects: Sequence[Effect], *, is_whole: bool = False) -> str:
    both, pools = together(effects), "the pool" if len(effects) == 1 else "their pools"
    rest = f"no other replica in {pools}" if both.is_whole else f"rest of {pools} {rate_text(both.rest)}"
    measured = f"Prefix hit rate {rate_text(both.affected)}; {rest}."
    if is_whole and not both.is_whole:
        return f"{measured} {_estimate_text(effects)}"
    tokens = avoidable_tokens(effects)
    return f"{measured} {per_minute(tokens)} recomputed (estimate)." if tokens else measured


def effect_section(fleet: Fleet, findings: Sequence[Finding]) -> Section:
    """Return the traffic of the replicas of findings beside the rest of their pools in one window, or why not.

    Where prefixes are not found, with the estimate of what the replicas recompute, or why there is none.
    """
    replicas = {replica for each in findings for replica in each.replicas}
    effects = effects_on(fleet, replicas, pools_of(findings))
    if not effects:
        return Section("effect", "Effect, measured", (quiet_paragraph(_missing(fleet, replicas)),))
    blocks: list[Block] = [_table(fleet, effects, replicas)]
    if is_estimated(findings):
        blocks.append(Paragraph(plain(_estimate_text(effects))))
    return Section("effect", "Effect, measured", tuple(blocks))


def _missing(fleet: Fleet, replicas: Iterable[str]) -> str:
    """Return why there is no traffic of some replicas."""
    why = why_no_traffic(fleet)
    return (
        f"{capital(why)}." if why else missing_rate(fleet.traffic_of(each for each in replicas if each in fleet.by_id))
    )


def _table(fleet: Fleet, effects: Sequence[Effect], replicas: Collection[str]) -> Table:
    """Return affected replicas and the rest of their pools side by side, sums where these are several."""
    both, several = together(effects), f", sums of {len(effects):,} pools" if len(effects) > 1 else ""
    if several:
        sides = [TrafficRow("These replicas", both.affected, share=both.prompt_share)]
        rest_share = None if both.prompt_share is None else 1 - both.prompt_share
        sides += [] if both.is_whole else [TrafficRow("Rest of their pools", both.rest, share=rest_share)]
    else:
        (pool,) = (each for each in fleet.pools if each.name == effects[0].pool)
        parts = {name: [each for each in pool.replicas if (each in replicas) is is_own] for name, is_own in SIDES}
        sides = [traffic_of(fleet, name, pool.name, own) for name, own in parts.items() if own]
    columns = (Column("Traffic"), *(Column(each.name, is_number=True) for each in sides))
    fields = (HIT_RATE, PROMPT_SHARE, PROMPT_TOKENS, REQUESTS, FIRST_TOKEN, PREEMPTIONS)
    rows = tuple((Cell(field.title), *(field.cell(each) for each in sides)) for field in fields)
    return Table(
        "effect", "Effect, measured", columns, rows, f"In the last {duration(both.affected.seconds)}{several}."
    )


def _estimate_text(effects: Sequence[Effect]) -> str:
    """Return the estimate with its inputs and its assumption, or why there is none."""
    tokens, only = avoidable_tokens(effects), effects[0]
    if tokens is None:
        several = "In no pool both these replicas and the rest have a hit rate."
        missing = only.missing if len(effects) == 1 else several
        return f"{ESTIMATE}: unknown. {missing}"
    if not tokens:
        return f"{ESTIMATE}: none. Their hit rate is not below that of the rest."
    if len(effects) > 1:
        return f"{ESTIMATE}: {per_minute(tokens)}, the sum of the pools. It {ASSUMPTION} within each pool."
    seconds = only.avoidable_seconds
    prefill = f", {seconds_text(seconds)} of prefill per request" if seconds is not None else ""
    queried = short(only.affected.per_minute(only.affected.queries))
    inputs = f"{queried} prompt tokens/min × ({rate_text(only.rest)} − {rate_text(only.affected)})"
    return f"{ESTIMATE}: {per_minute(tokens)}{prefill}. It {ASSUMPTION}: {inputs}."
