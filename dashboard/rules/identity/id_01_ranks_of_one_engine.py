"""ID-01: ranks of one data-parallel engine were started with different parallel settings."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import State
from dashboard.fleet.formatting import uncapitalized
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Evidence, Family, Severity
from dashboard.rules.identity.addresses import DP_RANK, DP_SIZE, host_of, is_loopback, port_of, rank_of
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

MASTER = "parallel_config.data_parallel_master_ip"
RPC_PORT = "parallel_config.data_parallel_rpc_port"
HOST = "replicas.host"
SECTION = "parallel_config."


@rule(
    id="ID-01",
    name="ranks-of-one-engine-differ",
    family=Family.IDENTITY,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(MASTER, DP_RANK),
)
def ranks_of_one_engine_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Ranks of one data-parallel engine were started with different parallel settings.

    Ranks belong together when they name the same master and port, and each another rank.

    Why it matters:
        - any pool: The ranks exchange data in step with each other. One that was started otherwise waits for a step
          that the others never take, and all of them hang.

    How to fix:
        Start every rank with the same command line, but for its rank and its addresses.

    Exceptions:
        Ranks whose master is `localhost` are only put together when they have the same host. Replicas that do not
        tell their master and rank are not judged.

    Evidence:
        - vllm/v1/engine/utils.py (newer versions refuse to start such an engine)
        - vllm/config/parallel.py (which settings may differ between ranks, and which are checked)
        - vllm-project/vllm#26187
        - vllm-project/vllm#26218

    Example:
        Of eight ranks behind eight addresses one was started without `--enable-eplb`. The first time that the others
        move experts, requests stop everywhere.
    """
    for (master, host), ranks in _engines(pool).items():
        part = replace(pool, all_replicas=tuple(each for each in pool.all_replicas if each.id in ranks))
        where = [Evidence(MASTER, json.dumps(master, ensure_ascii=False), State.REPORTED, ranks)]
        where += [Evidence(HOST, json.dumps(host), State.REPORTED, ranks)] if host else []
        for draft in drift(part, _nouns(part)):
            sentence = f"Ranks of one data-parallel engine disagree: {uncapitalized(draft.sentence)}"
            yield replace(draft, sentence=sentence, evidence=(*draft.evidence, *where))


def _engines(pool: PoolSubject) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the replicas of each engine that has several addresses, by master and, if that is the loopback, host."""
    masters, ports = pool.identity(MASTER), pool.identity(RPC_PORT)
    sizes, ranks = pool.identity(DP_SIZE), pool.identity(DP_RANK)
    members: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for replica, master in masters.items():
        rank, port = rank_of(sizes.get(replica), ranks.get(replica)), port_of(ports.get(replica))
        if rank is not None and port is not None and isinstance(master, str):
            members[f"{master}:{port}", host_of(replica) if is_loopback(master) else ""][replica] = rank
    return {
        engine: tuple(sorted(found))
        for engine, found in members.items()
        if len(set(found.values())) == len(found) > 1  # two of one rank are two engines that look alike
    }


def _nouns(part: PoolSubject) -> dict[str, str]:
    paths = {path for member in part.members for path in part.settings(member) if path.startswith(SECTION)}
    return {path: f"setting {path.removeprefix(SECTION)}" for path in sorted(paths)}
