"""What the documents of a pool tell otherwise than the target: one of its cohorts, or a baseline."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.compare.baseline import agreed_paths, deviations
from dashboard.compare.encoding import NULL, encode, is_comparable, lookup_setting
from dashboard.fleet import Baseline, Cohort, Document, Pool, Setting, SettingValue

Target = Cohort | Baseline


class Contrast(NamedTuple):
    """A setting that a document tells otherwise than the target."""

    path: str
    own: SettingValue
    wanted: SettingValue


Contrasts = tuple[Contrast, ...]


def target_of(pool: Pool, chosen: str | Baseline) -> Target:
    """Return the cohort that a letter names, or the baseline itself. Raises KeyError: there is no such cohort."""
    if isinstance(chosen, Baseline):
        return chosen
    cohort = next((each for each in pool.cohorts if each.letter == chosen), None)
    if cohort is None:
        raise KeyError(f"Pool {pool.name} has no cohort {chosen}.")
    return cohort


def contrasts(
    pool: Pool,
    documents: Mapping[str, Document],
    target: Target,
    ignored: Sequence[str] = (),
    usual: Mapping[str, SettingValue] | None = None,
) -> Mapping[str, Contrasts]:
    """Return, per document of a pool, what it tells otherwise than the target, by path; what only one tells is none.

    `ignored` are globs over paths that are compared nowhere; `usual` is of `usual_values` of the baseline.
    """
    held = {key: documents[key] for cohort in pool.cohorts for key in cohort.documents}
    if isinstance(target, Cohort):
        found = _against_cohort(held, target)
    else:
        found = {
            key: [
                Contrast(each.path, each.own, each.wanted)
                for each in deviations(target, document.settings, usual).deviating
            ]
            for key, document in held.items()
        }
    return {
        key: tuple(sorted(each for each in told if not any(fnmatchcase(each.path, glob) for glob in ignored)))
        for key, told in found.items()
    }


def told_by(target: Target, paths: Iterable[str]) -> frozenset[str]:
    """Return those of these paths for which the target has a value."""
    if isinstance(target, Baseline):
        return frozenset(agreed_paths(target)).intersection(paths)
    return frozenset(path for path in paths if told_of(target.settings, path) is not None)


def told_of(settings: Mapping[str, Setting], path: str) -> SettingValue | None:
    """Return the value that a document has for a path, its own or by a section above it; None where it has none."""
    setting = lookup_setting(settings, path)
    return SettingValue(setting.value, setting.state) if setting is not None and is_comparable(setting.state) else None


def _against_cohort(held: Mapping[str, Document], target: Cohort) -> Mapping[str, list[Contrast]]:
    """Compare as pools are compared, so that what differs here is what differs there."""
    table = encode([*(document.settings for document in held.values()), target.settings])
    wanted = table.codes[-1]
    found = {}
    for key, own in zip(held, table.codes[:-1], strict=True):
        columns = np.flatnonzero((own >= NULL) & (wanted >= NULL) & (own != wanted)).tolist()
        found[key] = [
            Contrast(table.paths[column], table.values[own[column]], table.values[wanted[column]]) for column in columns
        ]
    return found
