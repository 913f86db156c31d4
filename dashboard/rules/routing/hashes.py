"""Which replicas hash alike, by the digests of block hashes that their engines computed themselves."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from dashboard.fleet import SettingValue, State
from dashboard.rules.findings import Evidence
from dashboard.rules.holders import held
from dashboard.rules.subject import FINGERPRINT, Holders

Digests = frozenset[str]
Hashes = Mapping[str, Digests]  # replica -> digests of its engines, as PoolSubject.fingerprints gives them

MOST_GROUPS = 50  # groups whose digests are shown; the sentence counts all


class Group(NamedTuple):
    """Replicas whose engines have the same digests; more than one digest: the ranks of each differ."""

    digests: Digests
    replicas: tuple[str, ...]


def groups(hashes: Hashes, replicas: Collection[str]) -> list[Group]:
    """Put replicas together that hash alike, the largest group first; who tells no hashes stands in none."""
    known: dict[Digests, list[str]] = defaultdict(list)
    for replica in sorted(replicas):
        if replica in hashes:
            known[hashes[replica]].append(replica)
    found = [Group(digests, tuple(ids)) for digests, ids in known.items()]
    return sorted(found, key=lambda group: (-len(group.replicas), sorted(group.digests)))


def alike(hashes: Hashes, replicas: Collection[str]) -> frozenset[str]:
    """Return who hashes as one of these replicas does, these included as far as they tell it."""
    wanted = {hashes[each] for each in replicas if each in hashes}
    return frozenset(replica for replica, digests in hashes.items() if digests in wanted)


def counted_as_one(holders: Holders, hashes: Hashes, first: SettingValue | None = None) -> Holders:
    """Count values as one where those who tell them hash alike: as `first` if it is among them, else the most frequent.

    A setting that changes nothing of what engines compute makes no difference, whatever it is called.
    """
    if len(holders) <= 1:
        return holders
    place = {told: number for number, told in enumerate(holders)} | ({first: -1} if first is not None else {})
    values = {replica: told for told, replicas in holders.items() for replica in replicas}
    for group in groups(hashes, values):
        value = min((values[replica] for replica in group.replicas), key=lambda told: place[told])
        values |= dict.fromkeys(group.replicas, value)
    return held(values)


def shown_digests(hashes: Hashes, replicas: Collection[str], *, is_reference: bool = False) -> Iterator[Evidence]:
    """Yield what the engines of these replicas computed, one row a group."""
    for group in groups(hashes, replicas)[:MOST_GROUPS]:
        digests = sorted(group.digests)
        value = json.dumps(digests[0] if len(digests) == 1 else digests)
        yield Evidence(FINGERPRINT, value, State.REPORTED, group.replicas, is_reference=is_reference)
