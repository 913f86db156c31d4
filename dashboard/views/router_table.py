"""What the routers of a pool report, next to what its cohorts have: a row a fact, with its source and time."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Cohort, FactName, Pool, RouterConfig, RouterFact, facts_of_pool
from dashboard.fleet.formatting import SOME, iso, shortlist
from dashboard.rules.routing.blocks import BLOCK_SIZE, tokens_of_block
from dashboard.views.blocks import Block, Cell, Section, Tone
from dashboard.views.table import Field, to_table

NOTHING = "-"
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
        return Cell(_text(loaded))
    named = shortlist(map(_text, loaded), SOME)
    return Cell(named or NOTHING, hint=", ".join(map(_text, loaded[:100])))


def _cohort_cell(fact: RouterFact, cohort: Cohort) -> Cell:
    """Return what a cohort has in place of a fact; marked where it is another value."""
    found = lookup_value(cohort.settings, BLOCK_SIZE) if fact.name is FactName.BLOCK_SIZE else None
    if found is None:
        return Cell(NOTHING)
    own = tokens_of_block(found, cohort.settings)
    return Cell(_text(json.loads(own.value)), Tone.PLAIN if own.value == fact.value else Tone.WARNING)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def routers_blocks(routers: Iterable[RouterConfig]) -> tuple[Block, ...]:
    """Return all routers of the options: where, for which pools, how much they report, and what cannot be read."""
    known = tuple(routers)
    fields = (
        Field("name", "Router", lambda router: router.name),
        Field("kind", "Kind"),
        Field("", "Pools", lambda router: ", ".join(router.pools)),
        Field("", "Facts", value=lambda router: len(router.facts), is_number=True),
        Field("", "Last read", _last_read),
        Field("", "Error", _error_cell),
    )
    return (to_table(known, fields, "routers", "Routers and stores"),) if known else ()


def _last_read(router: RouterConfig) -> str:
    return iso(max(fact.observed_at for fact in router.facts)) if router.facts else NOTHING


def _error_cell(router: RouterConfig) -> Cell:
    return Cell("; ".join(router.failures), Tone.WARNING) if router.failures else Cell(NOTHING)
