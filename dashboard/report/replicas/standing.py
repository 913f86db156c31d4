"""How one replica stands, in a sentence: whether it answers, and why it was not read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.models import ReplicaState
from dashboard.report.replicas.sources import best_answer

if TYPE_CHECKING:
    from dashboard.models import Replica
    from dashboard.report.replicas.settings import Reach

IN_PART = "Answers, but its cache configuration could not be read."


def reason(replica: Replica) -> str:
    """Say in one sentence why a replica was not read whole."""
    return replica.failure.detail if replica.failure else IN_PART


def standing_words(replica: Replica, reach: Reach | None) -> str:
    """Say whether it answers, how much it tells, by whom best. `reach` is None where nothing was read."""
    words = {ReplicaState.PARTIAL: "Read in part", ReplicaState.DOWN: "Down"}
    sentence = "Up: it answers." if replica.state is ReplicaState.UP else f"{words[replica.state]}: {reason(replica)}"
    if reach is not None and reach.read < reach.of_pool:
        sentence += f" It tells {reach.read:,} of the {reach.of_pool:,} settings that its pool tells."
    best = best_answer(replica.sources)
    return sentence + (f" Best answer: {best}." if best else "")
