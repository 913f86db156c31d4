"""Parts of a pool that a routing rule is about: the replicas that cache prefixes, those that publish KV events."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connectors import value
from dashboard.rules.domain import EVENTS, NO_PUBLISHER, PUBLISHER
from dashboard.rules.findings import Evidence
from dashboard.rules.subject import PoolSubject

PREFIX_CACHING = "cache_config.enable_prefix_caching"
YES = SettingValue("true", State.REPORTED)
NO = SettingValue("false", State.REPORTED)


def only(pool: PoolSubject, replicas: Collection[str]) -> PoolSubject:
    """Return the pool with none but these members."""
    wanted = frozenset(replicas)
    kept = tuple(member for member in pool.members if member.id in wanted)
    return pool if len(kept) == len(pool.members) else replace(pool, all_replicas=kept)


def caching(pool: PoolSubject) -> PoolSubject:
    """Return the pool without the replicas that tell that they cache no prefixes: they hash no blocks."""
    off = set(pool.values(PREFIX_CACHING).get(NO, ()))
    return only(pool, {member.id for member in pool.members} - off)


def publishing(pool: PoolSubject) -> PoolSubject:
    """Return the pool with none but the replicas that tell that they publish KV events."""
    return only(pool, pool.values(EVENTS, publication).get(YES, ()))


def publication(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Say whether a replica publishes KV events: they must be enabled, and have a publisher that sends them."""
    if told.state is State.NULL:
        return NO
    return NO if told == YES and value(settings, PUBLISHER) == NO_PUBLISHER else told


def shown(pool: PoolSubject, path: str, replicas: Collection[str], *, is_reference: bool = False) -> Iterator[Evidence]:
    """Yield what these replicas tell of a setting, one row a value."""
    wanted = frozenset(replicas)
    for told, held in pool.values(path).items():
        part = tuple(each for each in held if each in wanted)
        if part:
            yield Evidence(path, told.value, told.state, part, is_reference=is_reference)
