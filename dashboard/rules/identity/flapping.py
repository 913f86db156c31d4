"""ID-12 to ID-15: restarts, values that return, rollouts that stand still, findings that come and go."""

from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.fleet.formatting import count, iso
from dashboard.fleet.history import Alternation
from dashboard.fleet.pieces import value
from dashboard.rules.findings import Draft, Evidence, Remedy, UnevaluatedReplicas
from dashboard.rules.registry import rule
from dashboard.rules.sentences import name_piece, setting_label, values_text, write
from dashboard.rules.subject import PoolSubject, setting_value

RESTARTS, ALTERNATES, RECURS = "ID-12", "ID-13", "ID-15"
ONE_POLL = "Only for a dashboard that goes on polling."
STARTS = "replicas.restarts"
REPEATED = '"repeated"'  # in place of a number: ids depend on values


def _unwatched(pool: PoolSubject) -> Iterator[UnevaluatedReplicas]:
    if pool.recent.since is None:
        yield UnevaluatedReplicas((), ONE_POLL)


@rule(RESTARTS, least=1)
def replica_restarts_repeatedly(
    pool: PoolSubject, *, restarts: int = 3, minutes: int = 60
) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas were restarted several times in a short time.

    Starts are counted while the dashboard polls: two between two polls are one.
    """
    yield from _unwatched(pool)
    found = {key: len(its) for key, its in pool.recent.starts.items() if len(its) >= max(restarts, 1)}
    if found:
        most = max(found.values())
        who = "A replica was" if len(found) == 1 else f"{count(len(found), 'replica')} were"
        up_to = "" if len(set(found.values())) == 1 else "up to "
        each = " each" if len(found) > 1 else ""
        yield Draft(
            tuple(sorted(found)),
            write(f"{who} restarted {up_to}{count(most, 'time')}{each} within {minutes:,} minutes."),
            (Evidence(STARTS, REPEATED, State.REPORTED, tuple(sorted(found))),),
            Remedy("Read the log of the process that ended, and the reason of its end."),
        )


@rule(ALTERNATES, least=1)
def setting_alternates(
    pool: PoolSubject, *, returns: int = 3, minutes: int = 60
) -> Iterator[Draft | UnevaluatedReplicas]:
    """Values of a setting alternate: a replica returned to earlier ones several times in a short time."""
    yield from _unwatched(pool)
    by_path: dict[str, list[tuple[str, Alternation]]] = defaultdict(list)
    for key, found in sorted(pool.recent.alternations.items()):
        for each in found:
            if each.returns >= max(returns, 1) and not pool.is_ignored(each.path):
                by_path[each.path].append((key, each))
    for path, holders in sorted(by_path.items()):
        most = max(each.returns for _, each in holders)
        values = [_value(text) for text in dict.fromkeys(text for _, each in holders for text in each.values)]
        yield Draft(
            tuple(key for key, _ in holders),
            write(
                setting_label(path),
                " alternates between ",
                values_text(values, path, last=" and "),
                f" on {count(len(holders), 'replica')}, {count(most, 'return')} within {minutes:,} minutes.",
            ),
            tuple(
                Evidence(path, *each, tuple(key for key, its in holders if each in map(_value, its.values)))
                for each in values
            ),
            Remedy("Find what starts these replicas with another value: a second controller, or a second process."),
        )


def _value(text: str) -> SettingValue:
    return setting_value(None) if text == "null" else SettingValue(text, State.REPORTED)


@rule("ID-14")
def rollout_stalled(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas stopped moving to the new version of a rollout hours ago, and old ones are left.

    A replica that is restarted with its version does not move. After this time differences along the rollout have
    their full severity again.
    """
    yield from _unwatched(pool)
    if (stalled := pool.stalled) is None:
        return
    holders = pool.values("version")
    old = tuple(each.id for each in pool.all_replicas if each.version == stalled.old)
    rows = [(each, ids) for each, ids in holders.items() if each.state is State.REPORTED]
    yield Draft(
        old,
        write(
            "The rollout from ", name_piece(stalled.old), " to ", name_piece(stalled.new),
            f" stands still: {len(stalled.replicas):,} of {count(stalled.total, 'replica')} moved, the last one at "
            f"{iso(stalled.last)}.",
        ),
        tuple(Evidence("version", *each, ids) for each, ids in rows),
        Remedy("Find out why no further replica starts with the new version. Finish the rollout, or undo it."),
    )  # fmt: skip


@rule(RECURS, least=1)
def finding_recurs(pool: PoolSubject, *, times: int = 3, minutes: int = 60) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas have a finding that came several times in a short time, and went in between.

    Each replica is counted alone: a rolling restart makes no replica unreachable twice. Of a finding without replicas
    the pool is counted.
    """
    yield from _unwatched(pool)
    known = {each.id for each in pool.all_replicas} | {""}
    found = sorted(pool.recent.recurrences.values(), key=lambda each: (each.rule, sorted(each.times)))
    for recurrence in found:
        often = {key: len(its) for key, its in recurrence.times.items() if len(its) >= max(times, 1) and key in known}
        if often:
            replicas = tuple(sorted(filter(None, often)))
            where = f" on {count(len(replicas), 'replica')}" if len(replicas) > 1 else ""
            yield Draft(
                replicas,
                write(
                    value(recurrence.rule),
                    f" was found {count(max(often.values()), 'time')}{where} within {minutes:,} minutes.",
                ),
                (Evidence(f"findings.{recurrence.rule}", REPEATED, State.REPORTED, replicas),),
                Remedy("Compare the times before and after on Changes, and end what changes back and forth."),
            )
