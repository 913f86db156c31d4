"""Says how the fleet is, in a sentence: what is wrong first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dashboard import wording
from dashboard.models import ReplicaState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.fleet import Fleet
    from dashboard.models import Pool, Replica


class Standing(NamedTuple):
    """What is counted of a fleet. `read` are the pools of which anything was, `unread` the replicas not read whole."""

    replicas: int
    down: int
    partial: int
    pools: int
    read: int
    split: tuple[str, ...]
    differences: int
    unread: tuple[Replica, ...]


def standing(fleet: Fleet) -> Standing:
    """Count what the headline and the cards speak of."""
    states = [replica.state for replica in fleet.replicas]
    unread = [replica for replica in fleet.replicas if replica.state is not ReplicaState.UP]
    return Standing(
        replicas=len(states),
        down=states.count(ReplicaState.DOWN),
        partial=states.count(ReplicaState.PARTIAL),
        pools=len(fleet.pools),
        read=sum(bool(pool.cohorts) for pool in fleet.pools),
        split=tuple(pool.name for pool in fleet.pools if is_split(pool)),
        differences=sum(len(pool.differences) for pool in fleet.pools),
        unread=tuple(sorted(unread, key=lambda replica: (replica.state is not ReplicaState.DOWN, replica.name))),
    )


def is_split(pool: Pool) -> bool:
    """Say whether a pool's replicas contradict each other."""
    return len(pool.cohorts) > 1


def title(now: Standing) -> str:
    """Say in one sentence how the fleet is: `Two pools are split; one replica is down`."""
    if now.down == now.replicas:
        return "No replica answers"
    troubles = []
    if now.split:
        troubles.append(f"{_number(len(now.split), 'pool')} split")
    if now.down:
        troubles.append(f"{_number(now.down, 'replica')} down")
    if troubles:
        return _sentence("; ".join(troubles))
    if now.partial:
        return _sentence(f"{_number(now.partial, 'replica')} read only in part")
    return "No difference within any pool"


def more(now: Standing, unshared: Sequence[str], versions: Sequence[str]) -> str:
    """Say what follows from it.

    `unshared` are the pools in which prefixes cannot be shared by all, `versions` those that only run several versions.
    """
    if now.down == now.replicas:
        return "Every replica was asked, and none gave a usable answer."
    sentences = [f"Prefixes cannot be shared by all replicas of {_names(unshared)}."] if unshared else []
    sentences += [f"{_names(versions)} {'runs' if len(versions) == 1 else 'run'} several versions."] if versions else []
    if sentences:
        return " ".join(sentences)
    if now.split:
        reservation = ", as far as it was read" if now.unread else ""
        return f"What differs in {_names(now.split)} does not decide prefix sharing{reservation}."
    known = f"{wording.count(now.read, 'pool')}, each with one configuration."
    return f"{known} What was not read is not counted." if now.unread else known


def _names(names: Sequence[str], most: int = 3) -> str:
    named = list(names)
    return wording.joined(named if len(named) <= most else [*named[:most], f"{len(named) - most:,} more"])


def _number(number: int, noun: str) -> str:
    return f"{wording.in_words(number)} {noun if number == 1 else noun + 's'} {'is' if number == 1 else 'are'}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
