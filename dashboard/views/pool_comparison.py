"""One pool compared as a reader chose: the settings that decide prefix sharing, the others, and what is not shown."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from dashboard import compare
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.after import DERIVED_FROM
from dashboard.compare.hashes import SharingCause
from dashboard.compare.prefix import CACHING_PATH, SEED_PATHS
from dashboard.fleet import Document, Pool, Replica
from dashboard.fleet.formatting import FEW, count, natural, one_line, shortlist
from dashboard.fleet.history import Sighting
from dashboard.rules.domain import Domain
from dashboard.rules.findings import Finding, Inspection, Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import MOST_COLUMNS, Cell, DifferenceTable
from dashboard.views.context import as_of
from dashboard.views.finding_text import answered
from dashboard.views.names import brief, device_words, slug
from dashboard.views.pool_text import SPLIT, shared_texts, sharing_severity
from dashboard.views.traffic import FIRST_TOKEN, HIT_RATE, PREEMPTIONS, PROMPT_SHARE, external_of, traffic_of
from dashboard.vllm.value_origin import is_set

DECIDES = "What decides prefix sharing"
WHY_UNKNOWN = "arguments not reported, see docs/config-api.md, or setting not in the field reference"
_SEVERITIES = frozenset(Severity)


class OriginFilter(StrEnum):
    """Which settings are shown by the origin of their values."""

    ANY = "any"
    UNSET = "unset"  # values differ and no replica sets them
    SET = "set"  # an argument of a replica sets it


ORIGIN_WORDS = {
    OriginFilter.ANY: "any",
    OriginFilter.UNSET: "differs, set by nobody",
    OriginFilter.SET: "set by an argument",
}


class SettingChoice(NamedTuple):
    """Which settings a reader chose: of one replica or, with columns and a reference, of a matrix."""

    only_differences: bool = True
    section: str | None = None
    search: str = ""
    reference: compare.Reference = compare.MAJORITY
    by_replica: bool = False
    origin: OriginFilter = OriginFilter.ANY

    @property
    def is_filtered(self) -> bool:
        """Whether section, search or origin may hide rows."""
        return bool(self.section or self.search) or self.origin is not OriginFilter.ANY


ONLY_DIFFERENCES = SettingChoice()


def compare_chosen(
    fleet: Fleet, pool: Pool, choice: SettingChoice = ONLY_DIFFERENCES, order: Sequence[str] = ()
) -> tuple[DifferenceTable, DifferenceTable]:
    """Return the settings of a pool as chosen, rows of findings first, the worst on top; and the prefix band.

    Columns of replicas have the `order` of their ids, by default that of their names; the reference is the first.
    """
    members = {replica.id: replica for replica in members_of(fleet, pool)}
    by_name = order or sorted(pool.replicas, key=lambda replica: natural(members[replica].name))
    as_replicas = sorted(by_name, key=lambda replica: (compare.ReferenceKind.REPLICA, replica) != choice.reference)
    matrix = compare.lay_out(
        pool,
        fleet.documents,
        choice.reference,
        baseline=fleet.policy.baseline(pool.name),
        as_replicas=as_replicas if choice.by_replica else None,
    )
    listed = matrix.table(only_differences=choice.only_differences, section=choice.section, search=choice.search)
    found = setting_severities(fleet, pool)
    rows = sorted(listed.rows, key=lambda row: found[row.path].rank if row.path in found else len(Severity))
    settings = DifferenceTable(
        f"settings-{slug(pool.name)}",
        f"Settings of {pool.name}",
        _filter_origin(replace(listed, rows=tuple(rows)), choice.origin, fleet.documents, members.values()),
        fleet.names,
        found,
        suppressed=suppressed_settings(fleet, pool),
        sightings=difference_sightings(fleet, pool),
        column_sightings=cohort_sightings(fleet, pool),
        measures=measures_of(fleet, pool, listed.columns),
    )
    seeds = [path for path in SEED_PATHS if any(path in cohort.settings for cohort in pool.cohorts)]
    band = matrix.band((*compare.PREFIX_PATHS, *seeds))
    if hashes := compare.hash_row(FINGERPRINT, pool, choice.reference, band.columns, members):
        band = replace(band, rows=(*band.rows, hashes))
    name = f"prefix-settings-{slug(pool.name)}"
    measures = () if settings.matrix.rows else settings.measures  # in the first table
    return settings, replace(settings, name=name, caption=DECIDES, matrix=band, measures=measures)


def measures_of(
    fleet: Fleet, pool: Pool, columns: Iterable[compare.MatrixColumn]
) -> tuple[tuple[str, Mapping[str, Cell]], ...]:
    """Return what the replicas of each column did; empty where none of the pool was counted."""
    if not fleet.traffic_of(pool.replicas).seconds:
        return ()
    rows = {
        each.key: traffic_of(fleet, each.key, _pool_of(fleet, pool, each.replicas), each.replicas)
        for each in columns
        if each.replicas
    }
    shown = (HIT_RATE, *external_of(rows.values()), PROMPT_SHARE, FIRST_TOKEN, PREEMPTIONS)
    return tuple((field.title, {key: field.cell(row) for key, row in rows.items()}) for field in shown)


def _pool_of(fleet: Fleet, pool: Pool, replicas: Iterable[str]) -> str:
    """Return the pool of some replicas, which is one of several where pools are compared as one."""
    own = {found.pool for each in replicas if (found := fleet.by_id.get(each))}
    return next(iter(own)) or pool.name if len(own) == 1 else pool.name


def difference_sightings(fleet: Fleet, pool: Pool) -> dict[str, Sighting]:
    """Return the sightings of a pool's differences by path."""
    known = fleet.sightings.differences
    return {each.path: seen for each in pool.differences if (seen := known.get((pool.name, each.path)))}


def cohort_sightings(fleet: Fleet, pool: Pool) -> dict[str, Sighting]:
    """Return the sightings of a pool's cohorts by letter."""
    known = fleet.sightings.cohorts
    return {each.letter: seen for each in pool.cohorts if (seen := known.get((pool.name, each.document)))}


def _filter_origin(
    matrix: compare.Matrix, chosen: OriginFilter, documents: Mapping[str, Document], members: Iterable[Replica]
) -> compare.Matrix:
    """Return the rows with the chosen origin, and how many have another or an unknown one."""
    if chosen is OriginFilter.ANY:
        return matrix
    variants = {(str(each.document), each.version, each.set_arguments) for each in members if each.document}
    kept, unknown = [], 0
    for row in matrix.rows:
        found = {
            is_set(row.path, version, arguments)  # None where it is unknown
            for key, version, arguments in variants
            if row.path in documents[key].settings
        }
        if chosen is OriginFilter.UNSET and (not row.differs or True in found):
            continue
        if None in found and True not in found:
            unknown += 1
        elif chosen is OriginFilter.UNSET or True in found:
            kept.append(row)
    filtered = matrix.filtered + len(matrix.rows) - len(kept) - unknown
    return replace(matrix, rows=tuple(kept), filtered=filtered, unknown_origin=unknown)


def setting_severities(fleet: Fleet, pool: Pool) -> dict[str, Severity]:
    """Return the severity of each setting of a pool: that of its worst active finding, on every page.

    A setting without a finding that splits the pool has the severity of what it is derived from, else of the verdict on
    sharing. One whose findings are all suppressed has none.
    """
    found = worst_by_path(fleet.inspection, pool.name)
    kind = sharing_severity(fleet.sharing[pool.name], found)
    if kind not in _SEVERITIES:
        return found
    quiet = suppressed_settings(fleet, pool)
    splitting = {
        path: min(
            (found[each] for each in sources if each in found), key=lambda each: each.rank, default=Severity(kind)
        )
        for path, sources in _splitting_paths(fleet, pool).items()
        if path not in quiet
    }
    return {**splitting, **found}


def suppressed_settings(fleet: Fleet, pool: Pool) -> dict[str, str]:
    """Return by path who suppressed the findings on a setting of a pool, where no finding on it is active.

    So is one that splits the pool and is derived from such settings only.
    """
    active = worst_by_path(fleet.inspection, pool.name)
    found: dict[str, str] = {}
    for finding in fleet.inspection.suppressed:
        by = finding.suppression
        if by is None or pool.name not in finding.pools:
            continue
        words = f"suppressed until {by.until} by {one_line(by.owner)}"
        found |= {path: words for path in finding.paths if path not in active and path not in found}
    for path, sources in _splitting_paths(fleet, pool).items():
        if sources and path not in active and all(each in found for each in sources):
            found.setdefault(path, found[sources[0]])
    return found


def _splitting_paths(fleet: Fleet, pool: Pool) -> dict[str, list[str]]:
    """Return the settings that split a pool, each with those of them that it is derived from."""
    split = [cell for cell in fleet.sharing[pool.name].cells if cell.share in SPLIT]
    paths = {path for cell in split for path in cell.paths}
    paths |= {CACHING_PATH for cell in split if cell.cause is SharingCause.CACHING_OFF}
    paths &= {each.path for each in pool.differences}
    return {path: [each for each in DERIVED_FROM.get(path, ()) if each in paths] for path in paths}


def pool_named(fleet: Fleet, name: str) -> Pool:
    return next(pool for pool in fleet.pools if pool.name == name)


def members_of(fleet: Fleet, pool: Pool) -> list[Replica]:
    """Return the replicas of a pool, in the fleet's order."""
    return [replica for replica in fleet.replicas if replica.pool == pool.name]


def findings_by_path(inspection: Inspection, pool: str) -> Mapping[str, list[Finding]]:
    """Return the findings of a pool by their settings, the worst first."""
    named: dict[str, list[Finding]] = defaultdict(list)
    for finding in inspection.findings:
        for path in finding.paths if pool in finding.pools else ():
            named[path].append(finding)
    return named


def worst_by_path(inspection: Inspection, pool: str) -> dict[str, Severity]:
    """Return the worst severity of each setting that a finding of a pool names."""
    return {path: findings[0].severity for path, findings in findings_by_path(inspection, pool).items()}


def head_text(pool: Pool, members: Sequence[Replica], domain: Domain | None) -> str:
    """Return replicas, cohorts, role, devices, router and store of a pool in one line."""
    read = sum(len(each.replicas) for each in pool.cohorts)
    some = f"{read:,} of " if 0 < read < len(pool.replicas) else ""
    where = f" in {count(len(pool.cohorts), 'cohort')}" if read else ", settings not reported"
    parts = [f"{some}{count(len(pool.replicas), 'replica')}{where}"]
    parts += [str(pool.role)] if pool.role != "both" else []
    parts += [device_words(members), *(shared_texts(domain) if domain else ())]
    return " · ".join(filter(None, parts))


def uncovered_text(table: DifferenceTable) -> list[str]:
    """Return what grey differences mean, where there are any."""
    named = table.kinds.keys() | table.suppressed.keys()
    is_any = any(row.differs and row.path not in named for row in table.matrix.rows)
    return ["Grey: no finding names this setting."] if is_any else []


def equal_text(matrix: compare.Matrix, members: Sequence[Replica]) -> str:
    """Return how much of a pool without differences was compared, and what was not."""
    pool = matrix.pool
    parts = [f"{count(pool.equal, 'setting')} compared"]
    parts += [f"{matrix.uncompared:,} reported by one replica only"] if matrix.uncompared else []
    parts += [f"{len(pool.ignored):,} ignored by fleet.yaml"] if pool.ignored else []
    return " ".join([", ".join(parts) + ".", *_unreachable(members)])


def unmatched_text(matrix: compare.Matrix, choice: SettingChoice) -> str:
    """Return the message that the filters hide all settings, and how many."""
    kind = "differing " if choice.only_differences else ""
    filters = [f"section {choice.section}"] if choice.section else []
    filters += [f"“{choice.search}”"] if choice.search else []
    filters += [f"origin “{ORIGIN_WORDS[choice.origin]}”"] if choice.origin is not OriginFilter.ANY else []
    if not (hidden := matrix.filtered + matrix.unknown_origin):
        return f"The pool has no {kind}settings, with or without the filters."
    none = f"None of {count(hidden, f'{kind}setting')} matches {' and '.join(filters)}."
    return " ".join([none, *_unknown_origin(matrix)])


def _unknown_origin(matrix: compare.Matrix) -> list[str]:
    """Return how many settings are hidden because their origin is unknown, and why it is."""
    number = matrix.unknown_origin
    return [f"{count(number, 'setting')} hidden: origin unknown ({WHY_UNKNOWN})."] if number else []


def hidden_text(matrix: compare.Matrix, members: Sequence[Replica]) -> str:
    """Return how many settings differ, what the table hides, and which replicas are not compared."""
    pool = matrix.pool
    differ = len(pool.differences)
    hidden = [(matrix.filtered, "filtered out"), (matrix.equal, "equal")]
    left_out = [
        (matrix.uncompared, "reported by one replica only"),
        (pool.identity, "per-replica identity"),
        (len(pool.ignored), "ignored by fleet.yaml"),
    ]
    counted = (
        f"{differ:,} of {count(differ + pool.equal, 'compared setting')} {'differs' if differ == 1 else 'differ'}."
    )
    sentences = [counted] if pool.cohorts else []
    if matrix.columns and matrix.columns[0].key == compare.BASELINE.text:
        number = sum(row.differs for row in matrix.rows)
        sentences.append(f"{count(number, 'deviation')} from the {matrix.columns[0].title}.")
    if parts := ", ".join(f"{number:,} {what}" for number, what in hidden if number):
        sentences.append(f"Hidden: {parts}.")
    sentences += _unknown_origin(matrix)
    if parts := ", ".join(f"{number:,} {what}" for number, what in left_out if number):
        sentences.append(f"Left out: {parts}.")
    left = len(matrix.columns) - MOST_COLUMNS
    sentences += [f"{count(left, 'more column')} only in the CSV."] if left > 0 else []
    return " ".join([*sentences, *_unreachable(members)])


def coverage_text(fleet: Fleet) -> str:
    """Return the fleet, how many replicas answered, and the time of its data."""
    return ", ".join(filter(None, (f"{fleet.name}: {answered(fleet)}", as_of(fleet))))


def _unreachable(members: Sequence[Replica]) -> list[str]:
    missing = [brief(replica.name) for replica in members if not replica.fresh]
    if not missing:
        return []
    named = f"{len(missing):,} replicas" if len(missing) > FEW else shortlist(missing, FEW)
    return [f"Not compared (unreachable): {named}."]
