"""ID-16: digests on /metrics that are not those of the answer."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet import Contradiction
from dashboard.fleet.formatting import count, joined
from dashboard.fleet.pieces import value
from dashboard.rules.findings import Draft, Evidence, Remedy, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.sentences import write
from dashboard.rules.subject import PoolSubject
from vllm_fleet_provider.shared.digests import DIGESTS, SERIES


@rule("ID-16", needs=("sources",), least=1)
def digest_without_answer(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas report a digest on `/metrics` that their answer does not have.

    Of replicas that Prometheus scrapes with equal digests of `vllm_fleet_config_info`, the dashboard asks one for its
    settings, and a sample of two others at each full poll. As long as a digest of one is wrong, each replica of its
    group is asked directly.

    Why it matters:
        - any pool (warning): Settings of this replica would count for others with the digest, and theirs for it. What
          compares digests, such as an alert in Prometheus, compares something that the replica does not run.

    How to fix:
        Look for a proxy or a relabelling rule that gives the replica the series of another one, and for a second
        process behind its address. Otherwise restart the replica with the current provider.

    Exceptions:
        A replica that restarted between two answers: the finding ends with the next poll.

    Evidence:
        - https://prometheus.io/docs/prometheus/latest/configuration/configuration/#metric_relabel_configs (a rule that
          replaces labels of a series)
        - vllm/config/vllm.py (VllmConfig does not change while a server runs, so the digests of it do not, either)

    Example:
        A load balancer has one address for two servers. `/metrics` came from the one with block size 16, the answer of
        the provider from the one with 32.
    """
    found: dict[Contradiction, list[str]] = defaultdict(list)
    for member in pool.members:
        for contradiction in member.contradictions:
            if contradiction.path.startswith(DIGESTS):
                found[contradiction].append(member.id)
    if not found:
        return
    names = joined(sorted({each.path.removeprefix(DIGESTS).partition("[")[0] for each in found}))
    replicas = tuple(sorted({replica for its in found.values() for replica in its}))
    each = "its answer has" if len(replicas) == 1 else "their answers have"
    (_, own, reported), *more = sorted(found)
    values = (value(json.loads(reported.value)), f"; {each} ", value(json.loads(own.value)))
    yield Draft(
        replicas,
        write(
            value(SERIES), f" reports {names} ", *values, "." if not more else f" ({count(len(more), 'more pair')})."
        ),
        tuple(
            Evidence(path, setting.value, setting.state, tuple(its), setting.source)
            for (path, own, reported), its in sorted(found.items())
            for setting in (own, reported)
        ),
        Remedy(
            "List the address of one server, no load balancer. Check relabelling rules. Then restart the replica.",
            (
                Snippet(
                    "yaml",
                    f"targets:\n  - {json.dumps(replicas[0], ensure_ascii=False)} # one server, no load balancer",
                ),
            ),
        ),
    )
