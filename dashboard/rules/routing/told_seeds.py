"""Seeds of block hashes, held against each other as replicas tell them, where nobody tells what engines computed."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import SettingValue, State
from dashboard.rules.drift import Contrast, apart, deviation, majority, tie
from dashboard.rules.findings import Confidence, Draft
from dashboard.rules.routing import seeding
from dashboard.rules.routing.random_roots import FEWEST, Roots
from dashboard.rules.routing.roots import (
    FROM_SEED,
    SEED,
    SEED_POLICY,
    SEED_VARIABLE,
    RootKind,
    as_number,
    is_fixed,
)
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM
from dashboard.rules.subject import Holders, PoolSubject


def differing_seeds(pool: PoolSubject, known: Roots) -> Iterator[Draft]:
    """Compare the seeds that are told, and that none is set. Who does not tell is left out: it may be any."""
    holders = pool.values(SEED, as_number)
    if len(holders) < FEWEST:
        return
    reference = _seed_to_keep(holders, known)
    if reference is None:
        yield replace(tie(SEED, SEED_VARIABLE, holders), remedy=seeding.set_everywhere())
        return
    for own, replicas in holders.items():
        if own != reference:
            draft = deviation(
                {SEED: (SEED_VARIABLE, holders)}, [Contrast(SEED, SEED_VARIABLE, own, reference)], replicas
            )
            yield replace(draft, remedy=seeding.like_others(reference))


def seeded_in_part(pool: PoolSubject) -> Iterator[Draft]:
    """Draft replicas of which some have a seed and some have none, where nobody tells what their engines computed."""
    holders = pool.values(SEED_POLICY)
    if FROM_SEED in holders:
        is_free = all(map(is_fixed, pool.values(HASH_ALGORITHM)))
        way = seeding.one_seed(may_be_unset=is_free)
        drafts = apart({SEED_POLICY: ("source of the root of the block hashes", holders)})
        yield from (replace(each, remedy=way, confidence=Confidence.DERIVED) for each in drafts)


def _seed_to_keep(holders: Holders, known: Roots) -> SettingValue | None:
    """Return what most have, or the only seed there is where those without one start at random; else None."""
    most = majority(holders)
    is_random = any(root.kind is RootKind.RANDOM and root.is_certain for root in known)
    if most is not None and (most.state is State.REPORTED or not is_random):
        return most
    seeds = [told for told in holders if told.state is State.REPORTED]
    return seeds[0] if len(seeds) == 1 and is_random else None
