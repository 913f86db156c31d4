"""Which replicas have which value: the one place that groups replicas by value."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dashboard.compare.encoding import VALUELESS, codes_of, is_comparable, lookup_setting, missing_code
from dashboard.fleet import Document, Pool, SettingValue
from dashboard.vllm.lookahead import LOOKAHEAD

Holders = dict[SettingValue, tuple[str, ...]]  # value -> ids of the replicas that report it


def holders(pool: Pool, documents: Mapping[str, Document], path: str) -> Holders:
    """Return the values of a setting with their replicas, the most frequent first, then the states without a value.

    Every replica that was ever read has exactly one of them.
    """
    values: dict[str, SettingValue] = {}
    for key, value in zip(pool.documents, document_values(pool, documents, path), strict=True):
        values[key] = value or SettingValue("null", VALUELESS[missing_code(documents[key].version, path)])
    by_replica = {each: values[key] for cohort in pool.cohorts for each, key in cohort.documents_by_replica.items()}
    return group_by_value(by_replica)


def document_values(pool: Pool, documents: Mapping[str, Document], path: str) -> list[SettingValue | None]:
    """Return the value of a setting in each of a pool's documents, or its state; None where it is not reported."""
    if path == LOOKAHEAD:  # derived
        found = (lookup_setting(documents[key].settings, path) for key in pool.documents)
        return [SettingValue(setting.value, setting.state) if setting else None for setting in found]
    return [pool.table.values[code] if code else None for code in codes_of(pool.table, path).tolist()]


def group_by_value(values: Mapping[str, SettingValue]) -> Holders:
    """Turn replica -> value into value -> replicas, the most frequent first, then by value; states come last."""
    found: dict[SettingValue, list[str]] = defaultdict(list)
    for replica, value in values.items():
        found[value].append(replica)
    return {value: tuple(sorted(found[value])) for value in by_frequency(found)}


def by_frequency(found: Mapping[SettingValue, Sequence[str]]) -> Iterable[SettingValue]:
    """Sort values: the one with the most replicas first, numbers by size, states without a value last."""
    if len(found) == 1:
        return found
    return sorted(found, key=lambda value: (not is_comparable(value.state), -len(found[value]), _place(value)))


def _place(value: SettingValue) -> tuple[bool, float, SettingValue]:
    """Return the key that sorts numbers by size, before all other values."""
    try:
        return False, float(value.value), value
    except ValueError:
        return True, 0.0, value
