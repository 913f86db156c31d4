"""A recorded week of the simulated fleet, which ends with it: two rollouts, a gap, restarts, findings that end."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.fleet import NO_LETTERS, Document, Replica
from dashboard.vllm.merging import document_id
from tests.store.history.recorded import Recorded

MOST_SEQUENCES = "scheduler_config.max_num_seqs"
OLD_VERSION = "0.31.0"
CHAT, QWEN, DECODE = "chat-70b", "qwen3-8b", "deepseek-v3/decode"
HOUR = timedelta(hours=1)
# Hours before the last poll.
BEGIN, CHAT_ROLLOUT, GAP, QWEN_ROLLOUT, RESTARTS = 168, 120, 90, 44, 20
CHAT_STEP, GAP_HOURS = timedelta(minutes=9), 11
POLL = timedelta(minutes=1)


def record_week(history: Recorded, fleet: Fleet) -> Fleet:
    """Record it, and return its last fleet; polls in which nothing changes are only those at the ends of a gap."""
    assert fleet.polled_at is not None
    end = fleet.polled_at
    members = {pool.name: [each for each in fleet.replicas if each.pool == pool.name] for pool in fleet.pools}
    old = {each.id for name in (CHAT, QWEN) for each in members[name]}
    restarted: dict[str, datetime] = {}
    times = [end - BEGIN * HOUR]
    states = [(set(old), dict(restarted))]

    def poll(at: datetime) -> None:
        times.append(at)
        states.append((set(old), dict(restarted)))

    for place, each in enumerate(members[CHAT]):
        old.remove(each.id)
        poll(end - CHAT_ROLLOUT * HOUR + place * CHAT_STEP)
    poll(end - GAP * HOUR)
    poll(end - (GAP - GAP_HOURS) * HOUR)
    for number, some in enumerate((members[QWEN][:3], members[QWEN][3:])):
        old -= {each.id for each in some}
        poll(end - QWEN_ROLLOUT * HOUR + number * HOUR)
    for place, each in enumerate(members[DECODE][:3]):
        at = end - (RESTARTS - 3 * place) * HOUR
        restarted[each.id] = at - POLL
        poll(at)
    last = None
    for at, (olds, starts), after in zip(times, states, [*times[1:], end], strict=True):
        last = past(fleet, at, olds, starts, last)
        is_before_gap = at == end - GAP * HOUR
        history.record(last, POLL if is_before_gap else after - at)
    return history.record(past(fleet, end, old, restarted, last), timedelta(minutes=5))


def past(
    fleet: Fleet, at: datetime, old: Collection[str], starts: Mapping[str, datetime], before: Fleet | None = None
) -> Fleet:
    """The fleet in which some replicas have older settings, and others started at another time."""
    documents = dict(fleet.documents)
    replicas = [
        replace(
            _older(each, documents) if each.id in old else each,
            observed_at=at,
            started_at=starts.get(each.id, each.started_at),
        )
        for each in fleet.replicas
    ]
    used = {each.document for each in replicas}
    kept = {key: documents[key] for key in sorted(documents) if key in used}
    letters = before.letters if before else NO_LETTERS
    read = Fleet(fleet.name, 1, at, replicas=tuple(replicas), documents=kept, letters=letters)
    return assemble(read, at, before=before)


def _older(one: Replica, documents: dict[str, Document]) -> Replica:
    if one.document is None:
        return one
    now = documents[one.document]
    settings = dict(now.settings)
    if MOST_SEQUENCES in settings:
        settings[MOST_SEQUENCES] = settings[MOST_SEQUENCES]._replace(value="77")
    version = OLD_VERSION if one.pool == CHAT else now.version
    then = Document(document_id(settings), version, settings)
    documents[then.id] = then
    return replace(one, document=then.id, version=version)
