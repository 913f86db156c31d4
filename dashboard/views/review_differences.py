"""In which settings the replicas of each pool differ, as a part of the review; what is the same in many pools once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare import PREFIX_PATHS, Matrix, SharingVerdict, Verdict
from dashboard.fleet import Pool
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.findings.headline import is_split
from dashboard.report.pools.compared import Compared, compared, grey_words, head_words, hidden_words, members_of
from dashboard.report.pools.order import by_path, ordered, worst
from dashboard.report.pools.sharing import severity
from dashboard.rules import rollup
from dashboard.rules.findings import Severity, Tally
from dashboard.views.blocks import Block, Paragraph, Section
from dashboard.views.capacity_text import name_of
from dashboard.views.compare import ONLY_DIFFERENCES
from dashboard.views.names import replica_names
from dashboard.views.pool_blocks import cohorts_table, difference_table, sharing_band
from dashboard.views.slugs import slugs

DIFFERENCES = "differences"
TITLE = "Differences in each pool"
MOST_ROWS = 8  # settings of one pool in the review where no finding names them; the appendix holds all
MOST_POOLS = 24  # different ways to differ that are shown; more are counted
MOST_NAMED = 12  # pools that a sentence names


class Differing(NamedTuple):
    """Pools that differ in the same settings in the same way. The first of them is shown for all."""

    pools: tuple[Pool, ...]
    slug: str
    found: Compared
    told: Matrix

    @property
    def is_cut(self) -> bool:
        """Tell whether rows were left to the appendix."""
        return len(self.told.rows) < len(self.found.matrix.rows)


def differing_pools(fleet: Fleet, sentences: Mapping[str, SharingVerdict]) -> tuple[Differing, ...]:
    """Compare the pools that have several cohorts, those that need a look first; equal ones stand together."""
    names = slugs(pool.name for pool in fleet.pools)
    groups: dict[object, list[Pool]] = {}
    for pool in filter(is_split, ordered(fleet, sentences, rollup.by_pool(fleet.inspection))):
        named = worst(by_path(fleet.inspection, pool.name))
        groups.setdefault(_likeness(pool, named, severity(sentences[pool.name], named)), []).append(pool)
    return tuple(_differing(fleet, pools, names[pools[0].name]) for pools in groups.values())


def differences_part(fleet: Fleet, differing: Sequence[Differing], said: tuple[Block, ...]) -> Section:
    """Show each way to differ; uniform pools stand in one sentence. `said` are notes on this part."""
    uniform = [pool.name for pool in fleet.pools if len(pool.cohorts) == 1]
    silent = [pool.name for pool in fleet.pools if not pool.cohorts]
    left = differing[MOST_POOLS:]
    more = [f"{count(sum(len(each.pools) for each in left), 'more pool')} differ in other ways."] if left else []
    told = [*_uniform(uniform), *_found_even_so(fleet, uniform)]
    lines = [*told, *_silent(silent), *more] if fleet.pools else ["There is no pool to compare."]
    return Section(
        DIFFERENCES,
        TITLE,
        (*(Paragraph(plain(line)) for line in lines), *said),
        tuple(_pool(fleet, each) for each in differing[:MOST_POOLS]),
    )


def full_differences(fleet: Fleet, differing: Iterable[Differing]) -> tuple[Section, ...]:
    """Return the appendix with all rows of the pools whose tables were cut; nothing where none was."""
    names = replica_names(fleet)
    tables = tuple(
        difference_table(
            each.found,
            each.found.matrix,
            names,
            name=f"all-settings-{each.slug}",
            caption=f"All settings that differ in {name_of(each.pools[0].name)}{_like(each)}",
        )
        for each in list(differing)[:MOST_POOLS]
        if each.is_cut
    )
    return (Section("all-differences", "All differences", tables, is_appendix=True),) if tables else ()


def _pool(fleet: Fleet, differing: Differing) -> Section:
    pool = differing.pools[0]
    members = members_of(fleet, pool)
    names = {each.id: each.name for each in members}
    found, slug = differing.found, differing.slug
    left = len(found.matrix.rows) - len(differing.told.rows)
    more = [f"{count(left, 'more setting differs', 'more settings differ')}: see the appendix."] if left else []
    about = head_words(pool, members, fleet.inspection.domains.get(pool.name))
    blocks: list[Block] = [Paragraph((Piece(about, Style.MUTED),))]
    if len(differing.pools) > 1:
        blocks.append(Paragraph(plain(_the_same(differing))))
    if found.sharing.verdict is not Verdict.AGREES:
        blocks.append(sharing_band(found))
    table = difference_table(
        found,
        differing.told,
        names,
        name=f"settings-{slug}",
        caption=f"Settings that differ in {name_of(pool.name)}",
        notes=(*more, hidden_words(pool, found.matrix, members), *grey_words(differing.told, found.named)),
    )
    cohorts = cohorts_table(pool, {each.id: each for each in members}, slug)
    return Section(f"pool-{slug}", f"{name_of(pool.name)}{_like(differing)}", (*blocks, table, cohorts))


def _differing(fleet: Fleet, pools: Sequence[Pool], slug: str) -> Differing:
    found = compared(fleet, pools[0], ONLY_DIFFERENCES)
    return Differing(tuple(pools), slug, found, _that_matter(found))


def _that_matter(found: Compared) -> Matrix:
    """Keep the rows that a finding names or that decide prefix sharing, and the first ones of the rest."""
    rows = found.matrix.rows
    loud = {row.path for row in rows if row.path in found.named or row.path in PREFIX_PATHS}
    quiet = [row.path for row in rows if row.path not in loud][: max(MOST_ROWS - len(loud), 0)]
    kept = loud.union(quiet)
    return replace(found.matrix, rows=tuple(row for row in rows if row.path in kept))


def _likeness(pool: Pool, named: Mapping[str, Severity], kind: str) -> object:
    """Return what two pools have in common that differ in the same way, whoever and however many they are."""
    rows = tuple(
        (each.path, each.majority, tuple((value.value, value.state, value.cohorts) for value in each.values))
        for each in pool.differences
    )
    return rows, tuple(cohort.letter for cohort in pool.cohorts), kind, tuple(sorted(named.items()))


def _like(differing: Differing) -> str:
    more = len(differing.pools) - 1
    return f" and {more:,} more like it" if more else ""


def _the_same(differing: Differing) -> str:
    others = first_of([name_of(pool.name) for pool in differing.pools[1:]], MOST_NAMED)
    return f"The same settings differ in the same way in {others}; shown is {name_of(differing.pools[0].name)}."


def _uniform(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    told = first_of(map(name_of, names), MOST_NAMED)
    verb = (
        "agrees in all settings that were compared" if len(names) == 1 else "agree in all settings that were compared"
    )
    return [f"{count(len(names), 'pool is', 'pools are')} uniform: {told} {verb}."]


def _found_even_so(fleet: Fleet, uniform: Iterable[str]) -> list[str]:
    """Name the uniform pools that are not in order for all that: a rule finds more than differences of settings."""
    tallies = rollup.by_pool(fleet.inspection)
    told = [f"{name_of(name)} ({words})" for name in uniform if (words := _severe(tallies[name]))]
    return [f"Even so there are findings in {first_of(told, MOST_NAMED)}: see Findings."] if told else []


def _severe(tally: Tally) -> str:
    told = ((tally.critical, Severity.CRITICAL), (tally.warning, Severity.WARNING))
    return ", ".join(f"{number:,} {severity}" for number, severity in told if number)


def _silent(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    told = first_of(map(name_of, names), MOST_NAMED)
    return [f"Of {told}, nothing was read: nobody knows whether {'it differs' if len(names) == 1 else 'they differ'}."]
