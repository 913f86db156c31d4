"""ID-06: two answers of one replica contradict each other."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from dashboard.models import Setting, Told
from dashboard.rules.domain import Facet
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.wording import middle_cut, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.models import Contradiction
    from dashboard.rules.subject import PoolSubject

LONGEST_PATH = 80  # characters of a path that a sentence shows
ANSWERS = {"server_info": "/server_info", "models": "/v1/models", "version": "/version", "metrics": "/metrics"}


@rule(
    id="ID-06",
    name="sources-contradict",
    family=Family.IDENTITY,
    severity={Facet.MODEL: Severity.WARNING},
    needs=("sources",),
    least=1,
)
def sources_contradict(pool: PoolSubject) -> Iterator[Draft]:
    """Two answers of one replica say different things about one setting.

    Only what means the same in both answers is held against each other.

    Why it matters:
        - any pool: One address may stand for two servers that were started differently, or one of the answers is
          wrong; until it is known which, nothing that this replica tells can be relied on.

    How to fix:
        Look whether the target is a load balancer or a service with several servers behind it, and give the addresses
        of the servers in its place. Otherwise restart the replica, and report what still contradicts itself.

    Exceptions:
        A replica that restarted between two answers: the finding goes away with the next poll.

    Evidence:
        - captures/ of the tests (real servers whose answers nowhere contradict each other)

    Example:
        The target is the address of a Kubernetes service. `/server_info` came from a pod with block size 16,
        `/metrics` from one with 32.
    """
    found: dict[Contradiction, list[str]] = defaultdict(list)
    for member in pool.members:
        for contradiction in member.contradictions:
            if not pool.is_ignored(contradiction.path):
                found[contradiction].append(member.id)
    for contradiction, replicas in found.items():
        yield _draft(contradiction, tuple(replicas))


def _draft(contradiction: Contradiction, replicas: tuple[str, ...]) -> Draft:
    path, kept, other = contradiction
    name = middle_cut(one_line(path), LONGEST_PATH)
    sources = [ANSWERS.get(each.source, f"the answer of {each.source}") for each in (kept, other)]
    target = json.dumps(replicas[0], ensure_ascii=False)
    return Draft(
        replicas,
        f"{name} is {_say(kept)} according to {sources[0]} and {_say(other)} according to {sources[1]}.",
        tuple(Evidence(path, each.value, each.state, replicas, each.source) for each in (kept, other)),
        Remedy(
            "If this address stands for several servers, list the address of each; otherwise restart the replica.",
            (Snippet("yaml", f"targets:\n  - {target} # one server, no load balancer"),),
        ),
    )


def _say(setting: Setting) -> str:
    return say(Told(setting.value, setting.state))
