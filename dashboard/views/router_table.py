"""What the routers of a pool report, next to what its cohorts have: a row a fact, with its source and time."""

import json
from collections.abc import Iterable
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Cohort, FactName, Pool, RouterConfig, RouterFact, facts_of_pool
from dashboard.fleet.formatting import first_of, iso
from dashboard.rules.routing.blocks import BLOCK_SIZE, tokens_of_block
from dashboard.views.blocks import Block, Cell, Column, Section, Table, Tone, number_cell

MOST_LISTED = 5  # entries of a list that a cell names
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
    columns = (
        Column("Fact", is_code=True),
        Column("Router", is_code=True),
        *(Column(f"{each.letter} ×{len(each.replicas):,}", is_code=True) for each in pool.cohorts),
        Column("Source"),
        Column("Read"),
    )
    rows = tuple(_pool_row(each, pool.cohorts) for each in facts)
    note = "What a router reports replaces what fleet.yaml declares. Of several sources the first counts."
    return (Section("router", "Router", (Table("router", f"Routers of {pool.name}", columns, rows, note),)),)


def _pool_row(fact: RouterFact, cohorts: Iterable[Cohort]) -> tuple[Cell, ...]:
    return (
        Cell(LABELS.get(fact.name, str(fact.name))),
        _value_cell(fact),
        *(_cohort_cell(fact, each) for each in cohorts),
        Cell(fact.source),
        Cell(iso(fact.observed_at)),
    )


def _value_cell(fact: RouterFact) -> Cell:
    loaded = json.loads(fact.value)
    if not isinstance(loaded, list):
        return Cell(_text(loaded))
    named = first_of(map(_text, loaded), MOST_LISTED)
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
    columns = (
        Column("Router"),
        Column("Kind"),
        Column("Pools"),
        Column("Facts", is_number=True),
        Column("Last read"),
        Column("Error"),
    )
    rows = tuple(
        (
            Cell(each.name),
            Cell(each.kind),
            Cell(", ".join(each.pools)),
            number_cell(f"{len(each.facts):,}", len(each.facts)),
            Cell(iso(max(fact.observed_at for fact in each.facts)) if each.facts else NOTHING),
            Cell("; ".join(each.failures) or NOTHING, Tone.WARNING if each.failures else Tone.PLAIN),
        )
        for each in routers
    )
    return (Table("routers", "Routers and stores", columns, rows),) if rows else ()
