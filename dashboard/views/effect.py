"""What a difference costs: the traffic of affected replicas beside the rest of their pools, and the estimate of it."""

from collections.abc import Collection, Iterable, Sequence

from dashboard.analysis import effect
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause
from dashboard.analysis.plan import is_explained
from dashboard.fleet.formatting import count, duration, missing_rate, share, short, uncapitalized
from dashboard.fleet.pieces import plain
from dashboard.rules.findings import Finding
from dashboard.rules.sentences import capital
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, quiet_paragraph
from dashboard.views.finding_text import pools_of
from dashboard.views.names import brief
from dashboard.views.traffic import (
    ASSUMPTION,
    ESTIMATE,
    FIRST_TOKEN,
    HIT_RATE,
    PREEMPTIONS,
    PROMPT_SHARE,
    PROMPT_TOKENS,
    REQUESTS,
    WITHOUT_DECODE,
    TrafficRow,
    external_of,
    per_minute,
    rate_in_sentence,
    seconds_text,
    traffic_of,
    why_no_traffic,
)

SIDES = ("Affected", "Unaffected")
SLOW = "EF-03"  # an engine preempts or queues


def cause_text(fleet: Fleet, cause: Cause, pool: str = "", *, is_whole: bool = False) -> str:
    """Return what was measured where a cause of prefixes or of a slow engine is, in all pools or in one.

    `Prefix hit rate 4%; unaffected replicas 62%. Recomputed, avoidable (estimate): 120 k tokens/min.` `is_whole`: the
    estimate with its inputs and its assumption.
    """
    if why_no_traffic(fleet):
        return ""
    effects = effect.effects_of_cause(fleet, cause, pool)
    if not effect.is_of_prefixes(cause.findings):
        return _latency_text(effects) if _is_slow(fleet, cause.findings) else ""
    if not effects:
        return f"Prefix hit rate: {_why_missing(fleet, cause.replicas)}"
    return _measured_text(effects, is_whole=is_whole)


def finding_line(fleet: Fleet, finding: Finding) -> str:
    """Return what was measured where a finding on prefixes is; empty for others, and without traffic."""
    measured = findings_effect(fleet, [finding])
    return f"Effect, measured: {measured}" if measured else ""


def findings_effect(fleet: Fleet, findings: Sequence[Finding]) -> str:
    """Return the same of findings together, without a label; also empty where whole pools have them: none compares."""
    replicas = {replica for each in findings for replica in each.replicas}
    effects = effect.effects_on(fleet, replicas, pools_of(findings))
    if all(each.is_whole for each in effects):
        return ""
    if effect.is_of_prefixes(findings):
        return _measured_text(effects)
    return _latency_text(effects) if _is_slow(fleet, findings) else ""


def _is_slow(fleet: Fleet, findings: Sequence[Finding]) -> bool:
    """Return whether engines preempt or queue by findings, or by what they explain."""
    slow = [each for each in fleet.inspection.findings if each.rule == SLOW]
    return any(each in findings or is_explained(each, findings) for each in slow)


def _latency_text(effects: Sequence[effect.Effect]) -> str:
    """Return the time to first token of the affected replicas and of the others; empty where it is unknown."""
    both = effect.together(effects)
    own, other = both.affected.first_token, both.rest.first_token
    if own is None:
        return ""
    rest = "" if other is None else f"; unaffected replicas {seconds_text(other)}"
    return f"Time to first token {seconds_text(own)}{rest}."


def _measured_text(effects: Sequence[effect.Effect], *, is_whole: bool = False) -> str:
    shown = effect.in_one_rate(effects)
    both, pools = effect.together(shown), "the pool" if len(shown) == 1 else "their pools"
    rest = (
        f"unaffected replicas {rate_in_sentence(both.rest)}" if both.has_rest else f"no unaffected replica in {pools}"
    )
    measured = f"Prefix hit rate {rate_in_sentence(both.affected)}; {rest}."
    if both.affected.external_queries:
        own, other = (rate_in_sentence(each, is_external=True) for each in (both.affected, both.rest))
        others = f"; unaffected replicas {other}" if both.rest.external_queries else ""
        measured = f"{measured} External hit rate {own}{others}."
    if len(shown) < len(effects):
        where = brief(shown[0].pool) if len(shown) == 1 else f"{capital(WITHOUT_DECODE)}"
        measured = f"{where}: {uncapitalized(measured)}"
    if is_whole and both.has_rest:
        return f"{measured} {_estimate_text(shown)}"
    tokens = effect.avoidable_tokens(shown)
    return f"{measured} {ESTIMATE}: {per_minute(tokens)}." if tokens else measured


def effect_section(fleet: Fleet, findings: Sequence[Finding]) -> Section:
    """Return the traffic of the replicas of findings beside the rest of their pools in one window, or why not.

    Where prefixes are not found, with the estimate of what the replicas recompute, or why there is none.
    """
    replicas = {replica for each in findings for replica in each.replicas}
    effects = effect.effects_on(fleet, replicas, pools_of(findings))
    if not effects:
        return Section("effect", "Effect, measured", (quiet_paragraph(_why_missing(fleet, replicas)),))
    blocks: list[Block] = [_table(fleet, effects, replicas)]
    if effect.is_of_prefixes(findings):
        blocks.append(Paragraph(plain(_estimate_text(effects))))
    return Section("effect", "Effect, measured", tuple(blocks))


def _why_missing(fleet: Fleet, replicas: Iterable[str]) -> str:
    """Return why there is no traffic of some replicas."""
    why = why_no_traffic(fleet)
    return (
        f"{capital(why)}." if why else missing_rate(fleet.traffic_of(each for each in replicas if each in fleet.by_id))
    )


def _table(fleet: Fleet, effects: Sequence[effect.Effect], replicas: Collection[str]) -> Table:
    """Return affected and unaffected replicas side by side, sums where these are of several pools."""
    shown = effect.in_one_rate(effects)
    both, pools = effect.together(shown), [each.pool for each in shown]
    parts = [effect.sides_of(fleet, pool, replicas) for pool in pools]
    sides = []
    for place, name in enumerate(SIDES):
        own = [each for part in parts for each in part[place]]
        head = f"{name}: {count(len(own), 'replica')}"
        if own and len(pools) > 1:
            used = both.rest if place else both.affected
            sides.append(TrafficRow(head, used, share=effect.prompt_share(fleet, own, pools)))
        elif own:
            sides.append(traffic_of(fleet, head, pools[0], own))
    columns = (Column("Traffic"), *(Column(each.name, is_number=True) for each in sides))
    fields = [HIT_RATE, *external_of(sides), PROMPT_SHARE, PROMPT_TOKENS, REQUESTS, FIRST_TOKEN, PREEMPTIONS]
    rows = tuple((Cell(field.title), *(field.cell(each) for each in sides)) for field in fields)
    notes = [f"In the last {duration(both.affected.seconds)}"]
    notes += [f"sums of {len(pools):,} pools" if len(pools) > 1 else "sums of the replicas"]
    notes += [WITHOUT_DECODE] if len(shown) < len(effects) else []
    return Table("effect", "Effect, measured", columns, rows, f"{', '.join(notes)}.")


def _estimate_text(effects: Sequence[effect.Effect]) -> str:
    """Return the estimate with its inputs and its assumption, or why there is none."""
    effects = effect.in_one_rate(effects)
    tokens, only = effect.avoidable_tokens(effects), effects[0]
    if tokens is None:
        several = "In no pool both these replicas and unaffected ones have a hit rate."
        missing = only.missing if len(effects) == 1 else several
        return f"{ESTIMATE}: unknown. {missing}"
    if not tokens:
        return f"{ESTIMATE}: none. Their hit rate is not below that of the unaffected replicas."
    if len(effects) > 1:
        return f"{ESTIMATE}: {per_minute(tokens)}, the sum of the pools. It {ASSUMPTION} within each pool."
    seconds = only.avoidable_seconds
    prefill = f", {seconds_text(seconds)} of prefill per request" if seconds is not None else ""
    queried = short(only.affected.per_minute(only.affected.queries))
    rates = [share(each.found_rate or 0.0) for each in (only.rest, only.affected)]
    external = ", with external hits" if only.rest.external_hits or only.affected.external_hits else ""
    inputs = f"{queried} prompt tokens/min × ({' − '.join(rates)}){external}"
    return f"{ESTIMATE}: {per_minute(tokens)}{prefill}. It {ASSUMPTION}: {inputs}."
