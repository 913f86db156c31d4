"""What the replicas of a pool share: its router, KV store and rollout with how they are known, and traits of some."""

import json
from collections.abc import Collection, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import lookup_value
from dashboard.compare.traits import Trait, shared_traits
from dashboard.fleet import Cohort, FactName, Pool, RouterConfig, RouterFact, facts_of_pool
from dashboard.fleet.formatting import SOME, count, iso, middle_cut, one_line, shortlist
from dashboard.fleet.pieces import Piece, Style, Text, join_texts
from dashboard.rules.domain import CERTAIN, Domain, ImpactContext, Origin, Store
from dashboard.rules.findings import Finding, Inspection, Rollout
from dashboard.rules.routing.blocks import BLOCK_SIZE, tokens_of_block
from dashboard.rules.sentences import capital
from dashboard.views.blocks import Cell, Paragraph, Section, Tone
from dashboard.views.names import brief
from dashboard.views.table import Field, to_table

NOTHING = "-"
MOST_TRAITS = 6
PAIR = 2  # replicas, which `both` names
LONGEST = 60  # characters of a foreign text
BASES = {Origin.READ: "read", Origin.DECLARED: "fleet.yaml", Origin.DETECTED: "detected", Origin.ASSUMED: "assumed"}


def context_text(finding: Finding, inspection: Inspection) -> str:
    """Return the impact context of a finding and how it is known; empty if the finding matters in any pool."""
    domains = [inspection.domains[pool] for pool in finding.pools if pool in inspection.domains]
    domain = next((each for each in domains if finding.context in each.contexts), None)
    return domain_text(domain, finding.context) if domain and finding.context else ""


def domain_text(domain: Domain, context: ImpactContext) -> str:
    """Return one impact context of a pool: `Router: prefix-hash (fleet.yaml).`; empty for that of any pool."""
    if context is ImpactContext.MODEL:
        return ""
    if context is ImpactContext.KV_STORE:
        text, basis = _store(domain), domain.kv_store_basis
    elif context is ImpactContext.DISAGGREGATED:
        text, basis = f"prefill and decode: separate ({BASES[domain.disaggregated_basis]})", Origin.DECLARED
    else:
        text, basis = _router(domain), domain.router_basis
    return f"{capital(text)}{'; if not, declare it under pools in fleet.yaml' if basis not in CERTAIN else ''}."


def shared_texts(domain: Domain) -> list[str]:
    """Return the router and the KV store of a pool: `router: prefix-hash (fleet.yaml)`."""
    return [_router(domain), *([_store(domain)] if domain.kv_store is not Store.NONE else [])]


def rollout_text(rollout: Rollout) -> str:
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"Rollout {rollout.old} → {rollout.new}: {moved} moved, the last one started {iso(rollout.last)}. "
        "Severity is one step lower during a rollout."
    )


def _router(domain: Domain) -> str:
    fact = domain.fact(FactName.ROUTING)
    source = f"read from {brief(fact.source)}" if fact else BASES[domain.router_basis]
    return f"router: {domain.router} ({source})"


def _store(domain: Domain) -> str:
    return f"KV store: {domain.kv_store} ({BASES[domain.kv_store_basis]})"


LABELS = {
    FactName.BLOCK_SIZE: "block_size (tokens)",
    FactName.LEAST_BLOCK_SIZE: "least block_size (tokens)",
    FactName.CHUNK_SIZE: "chunk_size (tokens)",
}


def router_section(fleet: Fleet, pool: Pool) -> tuple[Section, ...]:
    """Return what the routers of a pool report next to its cohorts; empty where none is read."""
    facts = tuple(facts_of_pool(fleet.routers, pool.name))
    if not facts:
        return ()
    fields = [
        Field("name", "Fact", lambda fact: LABELS.get(fact.name, str(fact.name)), is_code=True),
        Field("", "Router", _value_cell, is_code=True),
    ]
    for cohort in pool.cohorts:
        title = f"{cohort.letter} ×{len(cohort.replicas):,}"
        fields.append(Field("", title, partial(_cohort_cell, cohort=cohort), is_code=True))
    fields += [Field("source", "Source", lambda fact: fact.source), Field("observed_at", "Read")]
    note = "What a router reports replaces what fleet.yaml declares. Of several sources the first counts."
    return (Section("router", "Router", (to_table(facts, fields, "router", f"Routers of {pool.name}", note),)),)


def _value_cell(fact: RouterFact) -> Cell:
    loaded = json.loads(fact.value)
    if not isinstance(loaded, list):
        return Cell(_fact_text(loaded))
    named = shortlist(map(_fact_text, loaded), SOME)
    return Cell(named or NOTHING, hint=", ".join(map(_fact_text, loaded[:100])))


def _cohort_cell(fact: RouterFact, cohort: Cohort) -> Cell:
    """Return what a cohort has in place of a fact; marked where it is another value."""
    found = lookup_value(cohort.settings, BLOCK_SIZE) if fact.name is FactName.BLOCK_SIZE else None
    if found is None:
        return Cell(NOTHING)
    own = tokens_of_block(found, cohort.settings)
    return Cell(_fact_text(json.loads(own.value)), Tone.PLAIN if own.value == fact.value else Tone.WARNING)


def _fact_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def routers_section(routers: Sequence[RouterConfig]) -> tuple[Section, ...]:
    """Return all routers of the options: where, for which pools, how much they report, and what cannot be read."""
    if not routers:
        return ()
    fields = (
        Field("name", "Router", lambda router: router.name),
        Field("kind", "Kind"),
        Field("", "Pools", lambda router: ", ".join(router.pools)),
        Field("", "Facts", value=lambda router: len(router.facts), is_number=True),
        Field(
            "",
            "Last read",
            lambda router: iso(max(fact.observed_at for fact in router.facts)) if router.facts else NOTHING,
        ),
        Field(
            "",
            "Error",
            lambda router: "; ".join(router.failures) or NOTHING,
            tone=lambda router: Tone.WARNING if router.failures else Tone.PLAIN,
        ),
    )
    return (Section("routers", "Routers", (to_table(routers, fields, "routers", "Routers and stores"),)),)


def trait_paragraphs(fleet: Fleet, group: Collection[str], pools: Collection[str]) -> tuple[Paragraph, ...]:
    """Return what all replicas of a group share and the rest of these pools does not; empty without such a trait.

    A line for each number of others: `All 3: image 4f2, started 2026-03-02 14:00 to 14:36 UTC; none of the other 37.`
    """
    own = [each for each in fleet.replicas if each.id in group]
    rest = [each for each in fleet.replicas if each.pool in pools and each.id not in group]
    traits = islice(shared_traits(own, rest), MOST_TRAITS)
    head = Piece(f"All {len(own):,}: " if len(own) > PAIR else "Both: ", Style.STRONG)
    lines = [
        (head, *join_texts(map(_trait, same), last=", "), Piece(f"; {_others_text(*numbers, len(rest))}."))
        for numbers, same in groupby(traits, key=lambda each: (each.others, each.known))
    ]
    return (Paragraph(join_texts(lines, "\n", "\n")),) if lines else ()


def _trait(trait: Trait) -> Text:
    if trait.name == "started" and not trait.is_label:
        return (Piece(f"{trait.name} {trait.value}"),)
    name, value = (middle_cut(one_line(text), LONGEST) for text in (trait.name, trait.value))
    return (Piece(f"{name} "), Piece(value, Style.CODE))


def _others_text(others: int, known: int, rest: int) -> str:
    """Return how many of the rest have it as well, and of how many that is not known."""
    number = f"{others:,}" if others else "none"
    return f"{number} of the other {known:,}" + (f" (not reported by {rest - known:,} more)" if known < rest else "")
