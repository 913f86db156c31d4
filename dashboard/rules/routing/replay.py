"""RT-23: KV events that a router cannot request again."""

from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.rules.domain import EVENTS
from dashboard.rules.findings import Draft, Remedy, Snippet
from dashboard.rules.identity.addresses import REPLAY
from dashboard.rules.registry import rule
from dashboard.rules.selection import evidence_of, publishing
from dashboard.rules.sentences import setting_piece, write
from dashboard.rules.subject import PoolSubject

ENDPOINT_FLAG = "--kv-events-config.replay_endpoint 'tcp://*:5558'"


@rule("RT-23", needs=(EVENTS, REPLAY), least=1)
def kv_events_cannot_be_replayed(pool: PoolSubject) -> Iterator[Draft]:
    """No replica of the pool has a replay endpoint for its KV events.

    Where only some have one, RT-11 reports the difference.
    """
    senders = publishing(pool)
    replays = senders.values(REPLAY)
    replicas = tuple(sorted(each.id for each in senders.members))
    if not replicas or pool.is_ignored(REPLAY) or {each.state for each in replays} != {State.NULL}:
        return
    if sum(map(len, replays.values())) == len(replicas):
        yield Draft(
            replicas,
            write(setting_piece(REPLAY), " is unset on all replicas that publish KV events."),
            evidence_of(senders, (REPLAY,)),
            Remedy(
                "Set a replay endpoint on every replica and its port in the router's configuration, then restart them.",
                (Snippet("flag", ENDPOINT_FLAG),),
            ),
        )
