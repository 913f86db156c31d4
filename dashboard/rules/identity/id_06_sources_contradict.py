"""ID-06: two answers of one replica contradict each other."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from dashboard.fleet import Contradiction, Setting, SettingValue, Source
from dashboard.fleet.formatting import count, middle_cut, one_line
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

LONGEST_PATH = 80  # characters of a path that a sentence shows
ANSWERS = {
    Source.PROVIDER: "the provider (/inference/v1/config)",
    Source.SERVER_INFO: "/server_info",
    Source.PLUGIN: "another plugin (below /plugins)",
    Source.MODELS: "/v1/models",
    Source.VERSION: "/version",
    Source.METRICS: "/metrics",
}
VLLMS_OWN = (Source.PROVIDER, Source.SERVER_INFO, Source.METRICS)  # who passes on what vLLM itself counted
TOKENS = "cache_config.kv_cache_size_tokens"
WHY_TOKENS = (
    "Who plans batches, queues or a router's index by a number that is too large expects KV cache that is not there: "
    "requests wait, or are computed again, where room was expected."
)
OWN_NUMBER = Remedy(
    "Size nothing by the plugin's number. Update the plugin, or switch it off: take its name out of VLLM_PLUGINS on "
    "these replicas, and restart them."
)


@rule(
    id="ID-06",
    name="sources-contradict",
    family=Family.IDENTITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=("sources",),
    least=1,
)
def sources_contradict(pool: PoolSubject) -> Iterator[Draft]:
    """Two answers of one replica say different things about one setting.

    Only what means the same in both answers is held against each other. Where they are about how many tokens fit, one
    of them is known to be wrong: vLLM's own number counts every KV cache group, and a plugin that multiplies blocks by
    the block size counts too much for a hybrid model.

    Why it matters:
        - any pool: One address may stand for two servers that were started differently, or one of the answers is
          wrong; until it is known which, nothing that this replica tells can be relied on.

    How to fix:
        Look whether the target is a load balancer or a service with several servers behind it, and give the addresses
        of the servers in its place. Otherwise restart the replica, and report what still contradicts itself. Size
        nothing by a plugin that counts tokens wrongly; update it, or switch it off.

    Exceptions:
        A replica that restarted between two answers: the finding goes away with the next poll.

    Evidence:
        - captures/ of the tests (real servers whose answers nowhere contradict each other; one whose plugin tells
          4,194,304 tokens where vLLM itself logs 664,444)
        - vllm/v1/core/kv_cache_utils.py (get_kv_cache_capacity: how vLLM counts tokens)

    Example:
        The target is the address of a Kubernetes service. `/server_info` came from a pod with block size 16,
        `/metrics` from one with 32.
    """
    found: dict[Contradiction, list[str]] = defaultdict(list)
    for member in pool.members:
        for contradiction in member.contradictions:
            if not pool.is_ignored(contradiction.path):
                found[contradiction].append(member.id)
    miscounted = {each: tuple(replicas) for each, replicas in found.items() if _is_miscounted(each)}
    for contradiction, replicas in found.items():
        if contradiction not in miscounted:
            yield _draft(contradiction, tuple(replicas))
    if miscounted:
        yield _miscounted(miscounted)


def _is_miscounted(contradiction: Contradiction) -> bool:
    """Tell whether a plugin counts tokens by itself, where vLLM's own number is known."""
    path, kept, other = contradiction
    return path == TOKENS and other.source is Source.PLUGIN and kept.source in VLLMS_OWN


def _draft(contradiction: Contradiction, replicas: tuple[str, ...]) -> Draft:
    path, kept, other = contradiction
    name = middle_cut(one_line(path), LONGEST_PATH)
    sources = [ANSWERS.get(each.source, f"the answer of {each.source}") for each in (kept, other)]
    target = json.dumps(replicas[0], ensure_ascii=False)
    return Draft(
        replicas,
        f"{name} is {_say(kept)} according to {sources[0]} and {_say(other)} according to {sources[1]}.",
        tuple(_evidence(contradiction, replicas)),
        Remedy(
            "If this address stands for several servers, list the address of each; otherwise restart the replica.",
            (Snippet("yaml", f"targets:\n  - {target} # one server, no load balancer"),),
        ),
    )


def _miscounted(told: Mapping[Contradiction, tuple[str, ...]]) -> Draft:
    """Draft all tokens that a plugin counts by itself, whoever tells vLLM's own number: one cause, one finding."""
    pairs = Counter((each.kept.value, each.other.value) for each, replicas in told.items() for _ in replicas)
    (kept, other), _ = min(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    own = [ANSWERS[source] for source in VLLMS_OWN if any(each.kept.source is source for each in told)]
    more = f", and so in {count(len(pairs) - 1, 'more pair')} of numbers" if len(pairs) > 1 else ""
    return Draft(
        tuple(sorted(replica for replicas in told.values() for replica in replicas)),
        f"{TOKENS} is {kept} according to {' or '.join(own)}, and {other} according to {ANSWERS[Source.PLUGIN]}{more}: "
        "the first is right, it is vLLM's own and counts every KV cache group; blocks times block size is too much for "
        "a hybrid model.",
        tuple(row for each, replicas in sorted(told.items()) for row in _evidence(each, replicas)),
        OWN_NUMBER,
        why=WHY_TOKENS,
    )


def _evidence(contradiction: Contradiction, replicas: tuple[str, ...]) -> Iterator[Evidence]:
    path, kept, other = contradiction
    return (Evidence(path, each.value, each.state, replicas, each.source) for each in (kept, other))


def _say(setting: Setting) -> str:
    return say(SettingValue(setting.value, setting.state))
