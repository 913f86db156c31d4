"""ID-05: replicas that could not be read, or only in part."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from dashboard.models import FailureKind, ReplicaState, State
from dashboard.rules.domain import Facet
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.wording import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dashboard.models import Replica
    from dashboard.rules.subject import FleetSubject

REASON = "replicas.reason"
MOST_ROWS = 20  # reasons that a finding shows; the sentence counts them all
MOST_KINDS = 3  # of failure, that a remedy speaks of
NO_REPLY = "No probe gave a reply."
NO_LONGER = "It was not asked again within three polls."

# What a kind of failure is called in a sentence, and what to do about it.
KINDS = {
    FailureKind.DNS: ("name not found", "Correct the name, or make it known to DNS."),
    FailureKind.REFUSED: ("connection refused", "Start vLLM there, or take the target off the list."),
    FailureKind.TIMEOUT: (
        "timeout",
        "Look whether vLLM hangs or is overloaded; if it is only slow, allow it more time.",
    ),
    FailureKind.TLS: ("no trusted TLS connection", "Name the CA of its certificate, or write http:// if it has none."),
    FailureKind.PROTOCOL: ("connection broken off", "Look for a proxy in between, and read the log of vLLM."),
    FailureKind.UNAUTHORIZED: ("API key missing or refused", "Give its API key."),
    FailureKind.STATUS: ("unexpected status", "Point the target at vLLM itself, and read its log."),
    FailureKind.TOO_LARGE: ("answer too large", "Raise the limits on answers if this is vLLM."),
    FailureKind.DECODE: ("unreadable answer", "Point the target at vLLM itself, not at a proxy in front of it."),
    FailureKind.SCHEMA: (
        "answer of an unknown shape",
        "Wait if the engine is still starting; else look whether a newer release of this program knows this vLLM.",
    ),
    FailureKind.TARGET: ("no usable address", "Write its address as http://host:port."),
    None: ("no answer", "Look whether the list of targets is still read."),
}
PASTE = {
    FailureKind.UNAUTHORIZED: "credentials:\n  token_env: VLLM_API_KEY",
    FailureKind.TLS: "credentials:\n  ca_file: secrets/ca.pem",
    FailureKind.TIMEOUT: "poll:\n  probe_timeout_seconds: 10\n  replica_timeout_seconds: 30",
    FailureKind.TOO_LARGE: "poll:\n  max_answer_bytes: 33554432\n  max_headers: 256",
    FailureKind.TARGET: "targets:\n  - http://10.0.0.1:8000",
    FailureKind.DECODE: "targets:\n  - http://10.0.0.1:8000 # of vLLM itself",
    FailureKind.STATUS: "targets:\n  - http://10.0.0.1:8000 # of vLLM itself",
}
DOWN, IN_PART, STALE = "did not answer", "answered only in part", "told nothing new for three polls"
SEVERITY = {DOWN: Severity.WARNING, IN_PART: Severity.INFO, STALE: Severity.WARNING}


@rule(
    id="ID-05",
    name="replicas-not-read",
    family=Family.IDENTITY,
    scope=Scope.FLEET,
    severity={Facet.MODEL: Severity.WARNING},
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
        tells less, and is no finding.

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
        yield _draft(replicas, how, f"{sizes[pool]:,} replicas{'' if pool else ' without a pool'}")


def _how(replica: Replica) -> str | None:
    if replica.state is ReplicaState.DOWN:
        return DOWN
    if not replica.fresh:
        return STALE
    return IN_PART if replica.state is ReplicaState.PARTIAL else None


def _draft(replicas: Sequence[Replica], how: str, whole: str) -> Draft:
    kinds = Counter(each.failure.kind if each.failure else None for each in replicas)
    ordered = sorted(kinds, key=lambda kind: (-kinds[kind], str(kind)))
    share = f"{len(replicas):,} of {whole}".replace("of 1 replicas", "of 1 replica")
    reasons = joined([_counted(KINDS[kind][0], kinds[kind], len(kinds)) for kind in ordered])
    steps = " ".join(KINDS[kind][1] for kind in ordered[:MOST_KINDS])
    paste = dict.fromkeys(PASTE[kind] for kind in ordered[:MOST_KINDS] if kind in PASTE)
    return Draft(
        tuple(each.id for each in replicas),
        f"{share} {how}: {reasons}.",
        (*_where(replicas, how), *_reasons(replicas, how)),
        Remedy(steps, tuple(Snippet("yaml", text) for text in paste)),
        severity=SEVERITY[how],
    )


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
