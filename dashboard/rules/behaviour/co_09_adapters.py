"""CO-09: replicas of one pool have other LoRA adapters loaded."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from dashboard.fleet import Replica, Source, State
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.canonical import canonical_text

NAMES = "served_model_names"  # told by whoever answers /v1/models, as adapters are
ADAPTERS = "adapters"
MOST_NAMES = 4  # that a sentence names before it counts the rest
LONGEST_NAME = 60  # characters
PLACE = "/path/to/it"  # where no replica reports the path, or several differ (SH-05)


@rule(
    id="CO-09",
    name="adapters-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(NAMES,),
)
def adapters_differ(pool: PoolSubject, *, lora_aware: bool = False) -> Iterator[Draft]:
    """Replicas of one pool have different LoRA adapters loaded.

    Adapters are read from `/v1/models` at every poll: they come and go while a replica runs. Their paths are SH-05's.

    Why it matters:
        - any pool: A request for an adapter is refused with 404 by each replica that has not loaded it; loading it
          through the API reaches only the replica that the call happens to land on.

    How to fix:
        Load adapters on every replica: list them with `--lora-modules` at start, or let a controller call
        `/v1/load_lora_adapter` on each replica's own address, never on the pool's.

    Exceptions:
        A router that knows which replica holds which adapter makes this harmless: set the parameter `lora_aware`.
        Adapters that a resolver plugin loads when they are first asked for need no finding either.

    Evidence:
        - vllm/entrypoints/openai/models/serving.py (404 for an adapter that is not loaded)
        - vllm/entrypoints/serve/lora/api_router.py (loading is a call to one server)
        - vllm-project/vllm#12174
        - vllm-project/production-stack#708

    Example:
        The adapter `sql` was loaded with one POST to the pool's service. One replica of four has it; three of four
        requests for `sql` get a 404.
    """
    if pool.is_ignored(ADAPTERS):
        return
    asked = [each for each in pool.members if Source.MODELS in each.sources]
    everything = frozenset().union(*(each.adapters for each in asked))
    lacking: dict[tuple[str, ...], list[Replica]] = defaultdict(list)
    for replica in asked:
        if missing := everything - set(replica.adapters):
            lacking[tuple(sorted(missing))].append(replica)
    for missing_names, replicas in sorted(lacking.items()):
        yield _draft(missing_names, replicas, asked, Severity.INFO if lora_aware else None)


def _draft(
    missing: tuple[str, ...], replicas: Sequence[Replica], asked: Sequence[Replica], severity: Severity | None
) -> Draft:
    """Draft the adapters that some replicas lack and others have."""
    number = {name: sum(name in each.adapters for each in asked) for name in missing}
    shown = [f'"{_cut(name)}" (on {number[name]:,} of {len(asked):,} replicas)' for name in missing[:MOST_NAMES]]
    more = [count(len(missing) - MOST_NAMES, "more", "more")] if len(missing) > MOST_NAMES else []
    what, verb, them = ("adapter", "is", "it") if len(missing) == 1 else ("adapters", "are", "them")
    modules = " ".join(shlex.quote(f"{name}={_path(name, asked)}") for name in missing[:MOST_NAMES])
    return Draft(
        tuple(sorted(each.id for each in replicas)),
        f"LoRA {what} {joined(shown + more)} {verb} not loaded here: requests for {them} get a 404.",
        tuple(_evidence(replicas, asked)),
        Remedy(
            f"Load {them} on each of these replicas at its own address, and at start so that a restart keeps {them}; "
            f"or unload {them} from the others.",
            (Snippet("flag", f"--lora-modules {modules}"),),
        ),
        severity=severity,
    )


def _path(name: str, asked: Sequence[Replica]) -> str:
    """Return the path from which the others loaded an adapter, as far as it is one."""
    paths = {path for each in asked if (path := each.adapters.get(name)) is not None}
    return paths.pop() if len(paths) == 1 else PLACE


def _evidence(replicas: Sequence[Replica], asked: Sequence[Replica]) -> Iterator[Evidence]:
    """Yield every set of adapters that is loaded, that of these replicas first; the others are the reference."""
    odd = {each.id for each in replicas}
    holders: dict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
    for replica in asked:
        holders[replica.id not in odd, tuple(sorted(replica.adapters))].append(replica.id)
    for (is_other, loaded), ids in sorted(holders.items()):
        yield Evidence(ADAPTERS, canonical_text(list(loaded)), State.REPORTED, tuple(ids), is_reference=is_other)


def _cut(name: str) -> str:
    return middle_cut(one_line(name), LONGEST_NAME)
