"""What Compare shows of one pool: the band that decides prefix sharing, the matrix, and the line on what is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard.compare import PREFIX_PATHS, build_matrix, hash_row, pool_sharing, sharing_sentence
from dashboard.compare.random_root import SEED_PATHS
from dashboard.report.finding_words import answered
from dashboard.report.matrix_html import MOST_COLUMNS, matrix_html
from dashboard.rules.findings import Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.ui import markup, named_paths
from dashboard.ui.findings_words import shared_words
from dashboard.ui.prefix_words import prefix_band, severity
from dashboard.ui.sharing_matrix import sharing_matrix
from dashboard.ui.totals import device_words
from dashboard.wording import count, iso, joined, middle_cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dashboard.compare import Matrix
    from dashboard.fleet import Fleet
    from dashboard.models import Pool, Replica
    from dashboard.rules.domain import Domain
    from dashboard.ui.compare_controls import Choice

MOST_NAMED = 3  # replicas that are not counted, by name
COPY = '<button type="button" class="copy" data-copy-table>Copy table</button>'


class View(NamedTuple):
    """The drawn parts, as HTML, and the matrix itself for its CSV. `notes` are plain text.

    `is_good`: all can share prefixes, as far as settings or engines tell.
    """

    band: str
    prefix: str
    table: str
    equal: str
    matrix: Matrix
    notes: tuple[str, ...]
    is_good: bool


@st.cache_resource(max_entries=24, show_spinner=False)
def view(generation: int, polled_at: datetime | None, pool_name: str, choice: Choice, _fleet: Fleet) -> View:  # noqa: ARG001
    """Lay out one pool as chosen; sessions that look at the same share the result."""
    pool = pool_named(_fleet, pool_name)
    members = members_of(_fleet, pool)
    names = {replica.id: replica.name for replica in members}
    as_replicas = (
        sorted(pool.replicas, key=lambda replica: markup.natural(names[replica])) if choice.by_replica else None
    )
    matrix = build_matrix(
        pool,
        _fleet.documents,
        choice.reference,
        only_differences=choice.only_differences,
        section=choice.section,
        search=choice.search,
        as_replicas=as_replicas,
    )
    by_id = {replica.id: replica for replica in members}
    prefix = build_matrix(pool, _fleet.documents, choice.reference, paths=_deciding(pool), as_replicas=as_replicas)
    hashes = hash_row(FINGERPRINT, prefix.columns, by_id)
    prefix = replace(prefix, rows=(*prefix.rows, hashes)) if hashes else prefix
    sharing = pool_sharing(pool, by_id)
    sentence = sharing_sentence(pool, sharing, _fleet.documents, by_id)
    named = named_paths.worst(named_paths.by_path(_fleet.inspection, pool_name))
    kind = severity(sentence, named)
    matrix = replace(matrix, rows=tuple(sorted(matrix.rows, key=lambda row: _rank(named.get(row.path)))))
    hidden = hidden_words(pool, matrix, members)
    return View(
        band=prefix_band(sentence, named) + sharing_matrix(sharing, kind),
        prefix=matrix_html(
            prefix,
            names,
            caption="What decides prefix sharing",
            corner="Prefix sharing",
            kinds=named,
            interactive=True,
        ),
        table=matrix_html(
            matrix,
            names,
            caption=f"Settings of {pool.name}",
            corner="Setting",
            kinds=named,
            interactive=True,
        )
        + f'<div class="foot">{markup.text(" ".join([hidden, *_grey(matrix, named)]))} {COPY}</div>',
        equal=equal_words(pool, matrix, members),
        matrix=matrix,
        notes=(_coverage(_fleet), hidden),
        is_good=kind == "good",
    )


def _deciding(pool: Pool) -> tuple[str, ...]:
    """Return what decides prefix sharing: where the root comes from only where anybody tells."""
    told = [path for path in SEED_PATHS if any(path in cohort.settings for cohort in pool.cohorts)]
    return (*PREFIX_PATHS, *told)


def _rank(severity: Severity | None) -> int:
    """Order rows: what a finding names stands first, the worst on top; the rest keeps its order."""
    return len(Severity) if severity is None else severity.rank


def _grey(matrix: Matrix, named: Mapping[str, Severity]) -> list[str]:
    """Say what the colour of a difference means that no finding names, where there is one."""
    is_any = any(row.differs and row.path not in named for row in matrix.rows)
    return ["Differences in grey are named by no finding."] if is_any else []


def pool_named(fleet: Fleet, name: str) -> Pool:
    """Return the pool of this name."""
    return next(pool for pool in fleet.pools if pool.name == name)


def members_of(fleet: Fleet, pool: Pool) -> list[Replica]:
    """Return the replicas of a pool, in the fleet's order."""
    return [replica for replica in fleet.replicas if replica.pool == pool.name]


def head(pool: Pool, members: Sequence[Replica], domain: Domain | None) -> str:
    """Head the page: the pool, how many replicas in how many cohorts, on what devices, and what they share. HTML."""
    parts = [f"{count(len(pool.replicas), 'replica')} in {count(len(pool.cohorts), 'cohort')}"]
    parts += [str(pool.role)] if pool.role != "both" else []
    parts += [device_words(members), *(shared_words(domain) if domain else ())]
    return markup.heading(markup.text(pool.name), markup.text(" · ".join(filter(None, parts))))


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
    words = ", ".join(f"{number:,} {what}" for number, what in hidden if number)
    sentences += [f"Hidden: {words}."] if words else []
    left = len(matrix.columns) - MOST_COLUMNS
    sentences += [f"{count(left, 'more column')} only in the CSV."] if left > 0 else []
    return " ".join([*sentences, *_not_counted(members)])


def _not_counted(members: Sequence[Replica]) -> list[str]:
    missing = [middle_cut(replica.name, 40) for replica in members if not replica.fresh]
    if not missing:
        return []
    if len(missing) > MOST_NAMED:
        return [f"{len(missing):,} replicas did not answer and are not counted."]
    verb = "did not answer and is not counted" if len(missing) == 1 else "did not answer and are not counted"
    return [f"{joined(missing)} {verb}."]


def _coverage(fleet: Fleet) -> str:
    as_of = f", data as of {iso(fleet.polled_at)}" if fleet.polled_at else ""
    return f"{fleet.name}: {answered(fleet)}{as_of}"
