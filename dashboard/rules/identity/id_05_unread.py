"""ID-05: replicas that could not be read, or only in part."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dashboard.fleet import FailureKind, Replica, ReplicaState, State
from dashboard.fleet.formatting import FAILURE_WORDS, count, joined, middle_cut, one_line
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject

REASON = "replicas.reason"
MOST_ROWS = 20  # reasons that a finding shows; the sentence counts them all
MOST_KINDS = 3  # of failure, that a remedy speaks of
MOST_ADDRESSES = 3  # that a remedy names
LONGEST_ADDRESS = 80  # characters
NO_REPLY = "No probe gave a reply."
NO_LONGER = "It was not asked again within three polls."

NO_ANSWER = "no answer"  # of a replica that no failure is told of
# What to do about a kind of failure where it happens.
STEPS = {
    FailureKind.DNS: "Correct the name in {where}, or make it known to DNS.",
    FailureKind.REFUSED: "Start vLLM at {where}, or take it off the list of targets.",
    FailureKind.TIMEOUT: "Look whether vLLM at {where} hangs or is overloaded; if it is only slow, allow it more time.",
    FailureKind.TLS: "Name the CA of the certificate at {where}, or write http:// if there is none.",
    FailureKind.PROTOCOL: "Look for a proxy in front of {where}, and read the log of vLLM there.",
    FailureKind.UNAUTHORIZED: "Give the API key of {where}, and give it there only.",
    FailureKind.STATUS: (
        "List the address of vLLM in place of any proxy at {where}, without a path such as /v1; where vLLM itself "
        "answers so, read its log."
    ),
    FailureKind.TOO_LARGE: "Raise the limits on answers if it is vLLM that answers at {where}.",
    FailureKind.DECODE: "In place of {where}, list the address of vLLM itself, not of a proxy in front of it.",
    FailureKind.SCHEMA: (
        "Wait while vLLM starts at {where}; else look whether a newer release of this program knows this vLLM."
    ),
    FailureKind.TARGET: "Write {where} as http://host:port.",
    FailureKind.FRONTEND: (
        "Start vLLM at {where} without VLLM_USE_RUST_FRONTEND, so that its Python API server loads the provider and "
        "serves vllm:cache_config_info. In development mode the frontend reports only its own options."
    ),
    None: "Look whether the list with {where} is still read.",
}
# One line below the target's own address, so that a key is sent to no other.
OF_TARGET = {
    FailureKind.UNAUTHORIZED: "credentials: {token_env: VLLM_API_KEY}",
    FailureKind.TLS: "credentials: {ca_file: secrets/ca.pem}",
}
IN_PLACE = (FailureKind.TARGET, FailureKind.DECODE, FailureKind.STATUS)
OF_POLLS = {
    FailureKind.TIMEOUT: "poll:\n  probe_timeout_seconds: 10\n  replica_timeout_seconds: 30",
    FailureKind.TOO_LARGE: "poll:\n  max_answer_bytes: 33554432\n  max_headers: 256",
}
DOWN, IN_PART, STALE = "did not answer", "answered only in part", "told nothing new for three polls"
SEVERITY = {DOWN: Severity.WARNING, IN_PART: Severity.INFO, STALE: Severity.WARNING}


@rule(
    id="ID-05",
    name="replicas-not-read",
    family=Family.IDENTITY,
    scope=Scope.FLEET,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(),
    least=1,
)
def replicas_not_read(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas did not answer, or only in part, so that nobody knows whether they are like the others.

    Why it matters:
        - any pool: What is not read is not the same as the rest, it is unknown: a replica that runs with another
          configuration hides behind a timeout or a missing key.

    How to fix:
        Each kind of failure has its own remedy, and the reason of each replica stands in the evidence.

    Exceptions:
        A vLLM that answers `/metrics`, `/version` and `/v1/models` and has no configuration endpoint was read: it
        tells less, and is no finding. One behind the Rust frontend of vLLM 0.33 reports nothing of its engine, and is.

    Evidence:
        - vllm/entrypoints/serve/middleware/authenticate.py (which paths a key protects)
        - https://docs.vllm.ai/en/latest/usage/security.html

    Example:
        Two replicas were moved behind a proxy that asks people to sign in. They answer every request with HTML, and
        would look well to whoever only counts answers.
    """
    sizes = Counter(each.pool for each in fleet.all_replicas)
    unread: dict[tuple[str | None, str], list[Replica]] = defaultdict(list)
    for replica in fleet.all_replicas:
        if (how := _how(replica)) is not None:
            unread[replica.pool, how].append(replica)
    for (pool, how), replicas in unread.items():
        yield _draft(replicas, how, f"{count(sizes[pool], 'replica')} {'of this pool' if pool else 'without a pool'}")


def _how(replica: Replica) -> str | None:
    if replica.state is ReplicaState.DOWN:
        return DOWN
    if not replica.fresh:
        return STALE
    return IN_PART if replica.state is ReplicaState.PARTIAL else None


def _draft(replicas: Sequence[Replica], how: str, whole: str) -> Draft:
    failed: dict[FailureKind | None, list[str]] = defaultdict(list)
    for replica in replicas:
        failed[replica.failure.kind if replica.failure else None].append(replica.id)
    ordered = sorted(failed, key=lambda kind: (-len(failed[kind]), str(kind)))
    reasons = joined([_counted(_named(kind), len(failed[kind]), len(failed)) for kind in ordered])
    steps = " ".join(STEPS[kind].format(where=_addresses(failed[kind])) for kind in ordered[:MOST_KINDS])
    paste = [text for kind in ordered[:MOST_KINDS] for text in _paste(kind, failed[kind])]
    return Draft(
        tuple(each.id for each in replicas),
        f"{len(replicas):,} of {whole} {how}: {reasons}.",
        (*_where(replicas, how), *_reasons(replicas, how)),
        Remedy(steps, tuple(Snippet("yaml", text) for text in paste)),
        severity=SEVERITY[how],
    )


def _addresses(ids: Sequence[str]) -> str:
    """Name a few addresses, count many."""
    if len(ids) > MOST_ADDRESSES:
        return f"these {len(ids):,} addresses"
    return joined([middle_cut(one_line(each), LONGEST_ADDRESS) for each in ids])


def _paste(kind: FailureKind | None, ids: Sequence[str]) -> Iterator[str]:
    if kind in OF_POLLS:
        yield OF_POLLS[kind]
    if kind in OF_TARGET:
        entries = [f"  - url: {json.dumps(each)}\n    {OF_TARGET[kind]}" for each in ids[:MOST_ADDRESSES]]
        more = [f"  # and so on for {len(ids):,} targets"] if len(ids) > MOST_ADDRESSES else []
        yield "\n".join(["targets:", *entries, *more])
    if kind in IN_PLACE:
        entries = [f"  - http://10.0.0.1:8000 # vLLM itself, for {json.dumps(each)}" for each in ids[:MOST_ADDRESSES]]
        yield "\n".join(["targets:", *entries])


def _named(kind: FailureKind | None) -> str:
    return FAILURE_WORDS[kind] if kind else NO_ANSWER


def _counted(reason: str, number: int, kinds: int) -> str:
    return reason if kinds == 1 else f"{reason} ({number:,})"


def _where(replicas: Sequence[Replica], how: str) -> Iterator[Evidence]:
    ids, pool = tuple(each.id for each in replicas), replicas[0].pool
    state = State.NULL if pool is None else State.REPORTED
    yield Evidence("replicas.pool", json.dumps(pool, ensure_ascii=False), state, ids)
    yield Evidence("replicas.state", json.dumps(how), State.REPORTED, ids)


def _reasons(replicas: Sequence[Replica], how: str) -> tuple[Evidence, ...]:
    said: dict[str, list[str]] = defaultdict(list)
    for replica in replicas:
        nothing = NO_LONGER if how == STALE else NO_REPLY
        said[replica.failure.detail if replica.failure else nothing].append(replica.id)
    rows = [(json.dumps(detail, ensure_ascii=False), tuple(ids)) for detail, ids in said.items()]
    return tuple(Evidence(REASON, detail, State.REPORTED, ids) for detail, ids in rows[:MOST_ROWS])
