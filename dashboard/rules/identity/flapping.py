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

    Why it matters:
        - any pool (warning): Each start empties the prefix cache and loads the weights again. Requests in flight fail
          and move to the other replicas.

    How to fix:
        Read the log of the last process and the reason of its exit: out of memory, a failed liveness probe, a crash of
        the engine.

    Exceptions:
        Restarts on purpose, such as tests of settings: suppress the finding for that time.

    Evidence:
        - https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy (CrashLoopBackOff)

    Example:
        The liveness probe of a pod times out while long prompts are computed. Kubernetes restarts it every 15 minutes.
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
    """Values of a setting alternate: a replica returned to earlier ones several times in a short time.

    Why it matters:
        - any pool (warning): The replica is restarted with one configuration and then with another. Its cohort changes
          each time, and findings about it come and go.

    How to fix:
        Look for two controllers that write the same workload, or two processes behind one address.

    Exceptions:
        Tests that switch a setting back and forth: suppress the finding for that time.

    Evidence:
        - https://argo-cd.readthedocs.io/en/stable/user-guide/diffing/ (two controllers that write one field)

    Example:
        A load balancer has one address for two servers. One hashes with sha256, the other with xxhash, and each poll
        reaches another one.
    """
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

    Why it matters:
        - any pool (warning): Two versions serve one pool although nothing replaces the old one any more. Cached
          prefixes are shared by replicas of one version only.

    How to fix:
        Look at the Deployment's or LeaderWorkerSet's events: new pods that do not become ready, a quota, missing GPUs.
        Then finish the rollout or undo it.

    Exceptions:
        A canary: suppress the finding until a date.

    Evidence:
        - https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#failed-deployment

    Example:
        The new pods need another driver. The first one replaced an old pod on the only node that has it, and the others
        are pending since.
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

    Why it matters:
        - any pool (info): Something changes back and forth. At any one time the list of findings shows one side of it.

    How to fix:
        Open the page at the times before and after, and compare them on Changes.

    Exceptions:
        A rollout or a restart that is tested: the finding ends by itself.

    Evidence:
        - https://assets.nagios.com/downloads/nagioscore/docs/nagioscore/4/en/flapping.html

    Example:
        A replica at the limit of its memory is killed every quarter of an hour. Each time its pool has a finding for a
        few minutes.
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
