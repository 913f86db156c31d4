"""How one replica stands, as a mark and in a sentence: whether it answers, and why it was not read whole."""

from dashboard.fleet import Replica, ReplicaState
from dashboard.fleet.formatting import STALE_TARGET
from dashboard.report.replicas.settings import ReadCoverage
from dashboard.report.replicas.sources import best_answer
from dashboard.views.blocks import Tone

IN_PART = "Answers, but its cache configuration could not be read."


def mark(state: ReplicaState) -> Tone:
    """Return the mark of a state, the same wherever it is shown; its word stands beside it.

    A state is no severity: of what is not read whole something is unknown, and how bad that is, a finding says.
    """
    return Tone.PLAIN if state is ReplicaState.UP else Tone.UNKNOWN


def reason(replica: Replica) -> str:
    """Say in one sentence why a replica was not read whole."""
    return replica.failure.detail if replica.failure else IN_PART


def standing_words(replica: Replica, reach: ReadCoverage | None) -> str:
    """Say whether it answers, how much it tells, by whom best. `reach` is None where nothing was read."""
    words = {ReplicaState.PARTIAL: "Read in part", ReplicaState.DOWN: "Down"}
    sentence = "Up: it answers." if replica.state is ReplicaState.UP else f"{words[replica.state]}: {reason(replica)}"
    if reach is not None and reach.read < reach.of_pool:
        sentence += f" It tells {reach.read:,} of the {reach.of_pool:,} settings that its pool tells."
    sentence += f" {STALE_TARGET}" if replica.target_stale else ""
    best = best_answer(replica.sources)
    return sentence + (f" Best answer: {best}." if best else "")
