"""All values of one path in a pool, with who tells them and how: what a cell opens."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.compare.encoding import VALUELESS, Unsupported, tell, votes, why_missing
from dashboard.fleet import Document, Pool, SettingValue, Source, State
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.versions import is_unsupported


@dataclass(frozen=True, slots=True)
class ValueHeld:
    """One value of a path: how many replicas have it, which, in which cohorts, and who said it.

    `value` is canonical JSON text, `null` where there is none. Stale replicas count, with what they last told.
    """

    value: str
    state: State
    count: int
    replicas: tuple[str, ...]
    cohorts: tuple[str, ...]
    sources: tuple[Source, ...]


class _Holders(NamedTuple):
    replicas: list[str]
    cohorts: list[str]
    sources: set[Source]


def values(
    pool: Pool,
    documents: Mapping[str, Document],
    path: str,
    *,
    unsupported: Unsupported = is_unsupported,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> tuple[ValueHeld, ...]:
    """Return the values of a path, the most frequent first, and after them what has no value.

    Every replica that was ever read is in exactly one of them.
    """
    found: dict[SettingValue, _Holders] = {}
    for cohort in pool.cohorts:
        for key in cohort.documents:
            setting = tell(documents[key].settings, path, filled_in_later)
            if setting is None:
                value = SettingValue("null", VALUELESS[why_missing(documents[key].version, path, unsupported)])
            else:
                value = SettingValue(setting.value, setting.state)
            holders = found.setdefault(value, _Holders([], [], set()))
            holders.replicas.extend(replica for replica, held in cohort.held.items() if held == key)
            holders.cohorts.append(cohort.letter)
            holders.sources.update([setting.source] if setting else ())
    order = sorted(found, key=lambda value: (not votes(value.state), -len(found[value].replicas), value))
    return tuple(_value_held(value, found[value]) for value in order)


def _value_held(value: SettingValue, holders: _Holders) -> ValueHeld:
    return ValueHeld(
        value=value.value,
        state=value.state,
        count=len(holders.replicas),
        replicas=tuple(sorted(holders.replicas)),
        cohorts=tuple(dict.fromkeys(holders.cohorts)),
        sources=tuple(source for source in Source if source in holders.sources),
    )
