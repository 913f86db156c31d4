"""A fleet as text for a terminal: replicas, cohorts, and what differs."""

from collections.abc import Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dashboard.analysis.assembly import Fleet
from dashboard.compare import sharing_text
from dashboard.fleet import Engine, Pool, Replica, ReplicaState, State, cohort_letters
from dashboard.fleet.formatting import count, end_cut, told_text
from dashboard.fleet.pieces import to_plain
from dashboard.render.console import printed
from dashboard.report.pools.sharing import pool_verdict

MOST_DIFFERENCES = 12  # per pool; the rest is counted
LONGEST_SENTENCE = 500  # characters
TOLD = frozenset({State.REPORTED, State.NULL, State.REDACTED})
STYLES = {ReplicaState.UP: "green", ReplicaState.PARTIAL: "yellow", ReplicaState.DOWN: "red"}


def to_table(fleet: Fleet, *, width: int, colour: bool) -> str:
    """Write a fleet for people, at most `width` columns wide. Foreign text loses its control characters."""
    parts: list[RenderableType] = [_replicas(fleet)]
    replicas = {replica.id: replica for replica in fleet.replicas}
    for pool in fleet.pools:
        parts += [Text(""), *_pool(fleet, pool, replicas)]
    counts = fleet.coverage
    parts.append(
        Text(
            f"\n{counts.answered} of {counts.targets} answered: {counts.up} up, "
            f"{counts.partial} partial, {counts.down} down"
        )
    )
    return printed(*parts, width=width, colour=colour)


def _replicas(fleet: Fleet) -> Table:
    cohorts = cohort_letters(fleet.pools)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("replica", "pool", "state", "cohort", "vLLM"):
        table.add_column(title, no_wrap=title != "replica", overflow="fold")
    table.add_column("KV tokens", justify="right")
    table.add_column("reason", overflow="fold")
    for replica in fleet.replicas:
        table.add_row(
            Text(end_cut(replica.name)),
            Text(end_cut(replica.pool or "-", 40)),
            Text(str(replica.state), STYLES[replica.state]),
            Text(cohorts.get(replica.id, "-")),
            Text(end_cut(replica.version or "-", 20)),
            Text(_tokens(replica)),
            Text(end_cut(replica.failure.detail) if replica.failure else ""),
        )
    return table


def _no_difference(pool: Pool) -> str:
    read = sum(len(cohort.replicas) for cohort in pool.cohorts)
    if read < 2:  # noqa: PLR2004  # it takes two to differ
        return "one replica: nothing to compare with" if read else "no replica was read: nothing to compare"
    return f"no difference in the {count(pool.equal, 'setting')} that at least two replicas tell"


def _tokens(replica: Replica) -> str:
    """Sum the ranks of one replica; "≤" when one of them is an upper bound, "not known" when one is not known."""
    if not replica.engines:
        return "-"
    known = [engine.kv_cache_size_tokens for engine in replica.engines if engine.kv_cache_size_tokens is not None]
    if len(known) < len(replica.engines):
        return "not known"
    tokens = sum(engine.kv_cache_size_tokens or 0 for engine in replica.adding_engines)
    return f"{'≤ ' if any(map(_assumed, replica.engines)) else ''}{tokens:,}"


def _assumed(engine: Engine) -> bool:
    return engine.basis == "assumed"


def _pool(fleet: Fleet, pool: Pool, replicas: Mapping[str, Replica]) -> list[RenderableType]:
    cohorts = ", ".join(f"{cohort.letter} x{len(cohort.replicas)}" for cohort in pool.cohorts) or "not read"
    title = Text.assemble((end_cut(pool.name, 80), "bold"), f"  {cohorts}")
    verdict = to_plain(sharing_text(pool_verdict(fleet, pool, replicas), replicas))
    head = [title, Text(f"  {end_cut(verdict, LONGEST_SENTENCE)}")]
    if not pool.differences:
        return [*head, Text(f"  {_no_difference(pool)}")]
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    table.add_column("  setting", no_wrap=True)
    for cohort in pool.cohorts:
        only = f" {end_cut(replicas[cohort.replicas[0]].name, 30)}" if len(cohort.replicas) == 1 else ""
        table.add_column(Text(f"{cohort.letter} x{len(cohort.replicas)}{only}"), overflow="fold")
    for difference in pool.differences[:MOST_DIFFERENCES]:
        values = {letter: each for each in difference.values if each.state in TOLD for letter in each.cohorts}
        cells = [values.get(cohort.letter) for cohort in pool.cohorts]
        table.add_row(
            Text(f"  {end_cut(difference.path)}"),
            *(
                Text(end_cut(told_text(each.value, each.state)) if each else "not reported", "" if each else "dim")
                for each in cells
            ),
        )
    hidden = len(pool.differences) - MOST_DIFFERENCES
    more = [Text(f"  and {count(hidden, 'more difference')}")] if hidden > 0 else []
    return [*head, table, *more]
