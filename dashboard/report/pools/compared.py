"""One pool laid out as a reader asked for: what decides prefix sharing, the settings, and what is not shown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.compare import (
    BASELINE,
    PREFIX_PATHS,
    Matrix,
    Reference,
    SharingVerdict,
    build_matrix,
    hash_row,
    sharing_text,
    sharing_verdict,
)
from dashboard.compare.prefix import SEED_PATHS
from dashboard.fleet import Pool, Replica
from dashboard.fleet.formatting import count, joined, middle_cut, natural
from dashboard.fleet.pieces import Text
from dashboard.report.findings.words import answered
from dashboard.report.pools.domain_words import shared_words
from dashboard.report.pools.named_paths import by_path, worst
from dashboard.report.pools.sharing import severity
from dashboard.rules.domain import Domain
from dashboard.rules.findings import Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import MOST_COLUMNS
from dashboard.views.capacity_data import device_words
from dashboard.views.context import as_of

MOST_NAMED = 3  # replicas that are not counted, by name


class Choice(NamedTuple):
    """What a reader asked for."""

    only_differences: bool
    section: str | None
    search: str
    reference: Reference
    by_replica: bool

    @property
    def is_filtered(self) -> bool:
        """Whether section or search may hide rows."""
        return bool(self.section or self.search)


class Compared(NamedTuple):
    """A pool as chosen. `prefix` holds the rows that decide prefix sharing, `matrix` the settings.

    `named` are the settings that findings name, with the worst severity; `kind` is how bad the verdict on sharing is.
    """

    sharing: SharingVerdict
    text: Text
    kind: str
    named: Mapping[str, Severity]
    prefix: Matrix
    matrix: Matrix


def compared(fleet: Fleet, pool: Pool, choice: Choice) -> Compared:
    """Lay out one pool as chosen; what a finding names stands first."""
    members = {replica.id: replica for replica in members_of(fleet, pool)}
    as_replicas = (
        sorted(pool.replicas, key=lambda replica: natural(members[replica].name)) if choice.by_replica else None
    )
    baseline = fleet.policy.baseline(pool.name)
    matrix = build_matrix(
        pool,
        fleet.documents,
        choice.reference,
        baseline=baseline,
        only_differences=choice.only_differences,
        section=choice.section,
        search=choice.search,
        as_replicas=as_replicas,
    )
    prefix = build_matrix(
        pool, fleet.documents, choice.reference, baseline=baseline, paths=_deciding(pool), as_replicas=as_replicas
    )
    hashes = hash_row(FINGERPRINT, pool, choice.reference, prefix.columns, members)
    sharing = sharing_verdict(pool, members, fleet.documents)
    named = worst(by_path(fleet.inspection, pool.name))
    return Compared(
        sharing=sharing,
        text=sharing_text(sharing, members),
        kind=severity(sharing, named),
        named=named,
        prefix=replace(prefix, rows=(*prefix.rows, hashes)) if hashes else prefix,
        matrix=replace(matrix, rows=tuple(sorted(matrix.rows, key=lambda row: _rank(named.get(row.path))))),
    )


def pool_named(fleet: Fleet, name: str) -> Pool:
    """Return the pool of this name."""
    return next(pool for pool in fleet.pools if pool.name == name)


def members_of(fleet: Fleet, pool: Pool) -> list[Replica]:
    """Return the replicas of a pool, in the fleet's order."""
    return [replica for replica in fleet.replicas if replica.pool == pool.name]


def head_words(pool: Pool, members: Sequence[Replica], domain: Domain | None) -> str:
    """Say how many replicas in how many cohorts a pool has, on what devices, and what they share."""
    parts = [f"{count(len(pool.replicas), 'replica')} in {count(len(pool.cohorts), 'cohort')}"]
    parts += [str(pool.role)] if pool.role != "both" else []
    parts += [device_words(members), *(shared_words(domain) if domain else ())]
    return " · ".join(filter(None, parts))


def _deciding(pool: Pool) -> tuple[str, ...]:
    """Return what decides prefix sharing: where the root comes from only where anybody tells."""
    told = [path for path in SEED_PATHS if any(path in cohort.settings for cohort in pool.cohorts)]
    return (*PREFIX_PATHS, *told)


def _rank(severity: Severity | None) -> int:
    """Order rows: what a finding names stands first, the worst on top; the rest keeps its order."""
    return len(Severity) if severity is None else severity.rank


def grey_words(matrix: Matrix, named: Mapping[str, Severity]) -> list[str]:
    """Say what the colour of a difference means that no finding names, where there is one."""
    is_any = any(row.differs and row.path not in named for row in matrix.rows)
    return ["Differences in grey are named by no finding."] if is_any else []


def equal_words(pool: Pool, matrix: Matrix, members: Sequence[Replica]) -> str:
    """Say of a pool without differences how much was compared, what was not, and which replicas are not counted."""
    parts = [f"{count(pool.equal, 'setting')} compared"]
    parts += [f"{matrix.uncompared:,} told by one replica only"] if matrix.uncompared else []
    parts += [f"{len(pool.ignored):,} ignored by fleet.yaml"] if pool.ignored else []
    return " ".join([", ".join(parts) + ".", *_not_counted(members)])


def unmatched_words(matrix: Matrix, choice: Choice) -> str:
    """Say what the filters looked for, and in how many settings, in one sentence."""
    kind = "that differ" if choice.only_differences else "of this pool"
    wanted = [f"is in section {choice.section}"] if choice.section else []
    wanted += [f"has “{choice.search}” in its path or values"] if choice.search else []
    if not matrix.filtered:
        return f"There are no settings {kind}, with or without the filters."
    return f"None of the {count(matrix.filtered, 'setting')} {kind} {joined(wanted)}."


def hidden_words(pool: Pool, matrix: Matrix, members: Sequence[Replica]) -> str:
    """Say how many settings differ, what the table does not show, and which replicas are not counted."""
    differ = len(pool.differences)
    told = differ + pool.equal + matrix.uncompared + pool.identity + len(pool.ignored)
    hidden = [
        (matrix.filtered, "by the filters"),
        (matrix.equal, "equal"),
        (matrix.uncompared, "told by one replica only"),
        (pool.identity, "that identify a replica"),
        (len(pool.ignored), "ignored by fleet.yaml"),
    ]
    sentences = [f"{differ:,} of {count(told, 'setting')} {'differs' if differ == 1 else 'differ'}."]
    sentences += _deviating_words(matrix)
    words = ", ".join(f"{number:,} {what}" for number, what in hidden if number)
    sentences += [f"Hidden: {words}."] if words else []
    left = len(matrix.columns) - MOST_COLUMNS
    sentences += [f"{count(left, 'more column')} only in the CSV."] if left > 0 else []
    return " ".join([*sentences, *_not_counted(members)])


def _deviating_words(matrix: Matrix) -> list[str]:
    """Say how many of the rows deviate from a baseline, where it is what they are held against."""
    if not matrix.columns or matrix.columns[0].key != BASELINE.text:
        return []
    number = sum(row.differs for row in matrix.rows)
    return [
        f"{count(number, 'setting')} {'deviates' if number == 1 else 'deviate'} from the {matrix.columns[0].title}."
    ]


def _not_counted(members: Sequence[Replica]) -> list[str]:
    missing = [middle_cut(replica.name, 40) for replica in members if not replica.fresh]
    if not missing:
        return []
    if len(missing) > MOST_NAMED:
        return [f"{len(missing):,} replicas did not answer and are not counted."]
    verb = "did not answer and is not counted" if len(missing) == 1 else "did not answer and are not counted"
    return [f"{joined(missing)} {verb}."]


def coverage_words(fleet: Fleet) -> str:
    """Say whose data it is, how many answered, and of when."""
    return ", ".join(filter(None, (f"{fleet.name}: {answered(fleet)}", as_of(fleet))))
