"""One pool with the choices of the Compare page: prefix sharing, the settings, and what is hidden."""

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
from dashboard.report.pools.order import by_path, worst
from dashboard.report.pools.sharing import severity
from dashboard.rules.domain import Domain
from dashboard.rules.findings import Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import MOST_COLUMNS
from dashboard.views.capacity_data import device_words
from dashboard.views.context import as_of

MOST_NAMED = 3  # excluded replicas, by name


class Choice(NamedTuple):
    """The choices of the Compare page."""

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
    """A pool as chosen. `prefix` has the rows that decide prefix sharing, `matrix` the settings.

    `named` are the settings that findings name, with the worst severity; `kind` is the severity of the verdict.
    """

    sharing: SharingVerdict
    text: Text
    kind: str
    named: Mapping[str, Severity]
    prefix: Matrix
    matrix: Matrix


def compared(fleet: Fleet, pool: Pool, choice: Choice) -> Compared:
    """Lay out one pool as chosen; settings that a finding names come first."""
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
    """Return the number of replicas and cohorts of a pool, its devices, and what they share."""
    parts = [f"{count(len(pool.replicas), 'replica')} in {count(len(pool.cohorts), 'cohort')}"]
    parts += [str(pool.role)] if pool.role != "both" else []
    parts += [device_words(members), *(shared_words(domain) if domain else ())]
    return " · ".join(filter(None, parts))


def _deciding(pool: Pool) -> tuple[str, ...]:
    """Return the settings that decide prefix sharing; of the hash seed only reported ones."""
    seeds = [path for path in SEED_PATHS if any(path in cohort.settings for cohort in pool.cohorts)]
    return (*PREFIX_PATHS, *seeds)


def _rank(severity: Severity | None) -> int:
    """Return the sort key of a row: settings that a finding names first, the worst on top."""
    return len(Severity) if severity is None else severity.rank


def grey_words(matrix: Matrix, named: Mapping[str, Severity]) -> list[str]:
    """Explain grey differences, if there are any."""
    is_any = any(row.differs and row.path not in named for row in matrix.rows)
    return ["Grey: no rule covers this setting."] if is_any else []


def equal_words(pool: Pool, matrix: Matrix, members: Sequence[Replica]) -> str:
    """Return how much of a pool without differences was compared, and which replicas are excluded."""
    parts = [f"{count(pool.equal, 'setting')} compared"]
    parts += [f"{matrix.uncompared:,} reported by one replica only"] if matrix.uncompared else []
    parts += [f"{len(pool.ignored):,} ignored by fleet.yaml"] if pool.ignored else []
    return " ".join([", ".join(parts) + ".", *_not_counted(members)])


def unmatched_words(matrix: Matrix, choice: Choice) -> str:
    """Return what the filters looked for, and in how many settings."""
    kind = "that differ" if choice.only_differences else "of this pool"
    wanted = [f"is in section {choice.section}"] if choice.section else []
    wanted += [f"has “{choice.search}” in its path or values"] if choice.search else []
    if not matrix.filtered:
        return f"There are no settings {kind}, with or without the filters."
    return f"None of the {count(matrix.filtered, 'setting')} {kind} {joined(wanted)}."


def hidden_words(pool: Pool, matrix: Matrix, members: Sequence[Replica]) -> str:
    """Return how many settings differ, how many are hidden, and which replicas are excluded."""
    differ = len(pool.differences)
    total = differ + pool.equal + matrix.uncompared + pool.identity + len(pool.ignored)
    hidden = [
        (matrix.filtered, "by the filters"),
        (matrix.equal, "equal"),
        (matrix.uncompared, "reported by one replica only"),
        (pool.identity, "identity"),
        (len(pool.ignored), "ignored by fleet.yaml"),
    ]
    sentences = [f"{differ:,} of {count(total, 'setting')} {'differs' if differ == 1 else 'differ'}."]
    sentences += _deviating_words(matrix)
    words = ", ".join(f"{number:,} {what}" for number, what in hidden if number)
    sentences += [f"Hidden: {words}."] if words else []
    left = len(matrix.columns) - MOST_COLUMNS
    sentences += [f"{count(left, 'more column')} only in the CSV."] if left > 0 else []
    return " ".join([*sentences, *_not_counted(members)])


def _deviating_words(matrix: Matrix) -> list[str]:
    """Return how many rows differ from the baseline, where it is the reference."""
    if not matrix.columns or matrix.columns[0].key != BASELINE.text:
        return []
    number = sum(row.differs for row in matrix.rows)
    return [f"{count(number, 'setting')} {'differs' if number == 1 else 'differ'} from the {matrix.columns[0].title}."]


def _not_counted(members: Sequence[Replica]) -> list[str]:
    missing = [middle_cut(replica.name, 40) for replica in members if not replica.fresh]
    if not missing:
        return []
    if len(missing) > MOST_NAMED:
        return [f"Excluded: {len(missing):,} unreachable replicas."]
    return [f"Excluded: {joined(missing)} (unreachable)."]


def coverage_words(fleet: Fleet) -> str:
    """Return the fleet, how many replicas answered, and the time of the data."""
    return ", ".join(filter(None, (f"{fleet.name}: {answered(fleet)}", as_of(fleet))))
