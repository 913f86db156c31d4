"""SH-05: replicas of one pool loaded a LoRA adapter of one name from several paths."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, apart
from dashboard.rules.findings import Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import held_natively
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

ADAPTERS = "adapters"
LONGEST_NAME = 60  # characters of an adapter's name that a sentence shows


@rule(
    id="SH-05",
    name="adapter-paths-differ",
    family=Family.STORES,
    severity={ImpactContext.KV_STORE: Severity.CRITICAL, ImpactContext.MODEL: Severity.CRITICAL},
    needs=(ADAPTERS,),
)
def adapter_paths_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool loaded a LoRA adapter of one name from different paths.

    The path is `root` of the adapter's card in `/v1/models`. It is compared whole.

    Why it matters:
        - kv-store: Since vLLM 0.32 the block hash holds the adapter's name and path, so equal requests share no KV
          cache across paths. Another path may hold other weights, which give other answers.
        - any pool: Another path may hold another adapter: answers depend on the replica. Since vLLM 0.32 the path is
          also in the block hash, so a router that knows the name alone finds no cached prefix.

    How to fix:
        Mount the adapter at one path on every replica, and load it from there: `--lora-modules NAME=PATH`, or a call of
        `/v1/load_lora_adapter` on each replica.

    Exceptions:
        Before vLLM 0.32 copies of one adapter at different paths share their prefixes and answer alike.

    Evidence:
        - vllm/entrypoints/openai/models/serving.py (`root` of an adapter's card is its path)
        - vllm/v1/core/kv_cache_utils.py (name and path are extra keys of the block hash)
        - vllm/distributed/kv_events.py (events hold the name alone)

    Example:
        Three replicas load `sql` from `/adapters/sql-v2`, one still from `/adapters/sql`. Every fourth answer comes
        from the old adapter.
    """
    names = sorted({name for member in pool.members for name in member.adapters})
    for name in names if not pool.is_ignored(ADAPTERS) else ():
        paths = {each.id: path for each in pool.members if (path := each.adapters.get(name)) is not None}
        noun = f'path of LoRA adapter "{middle_cut(one_line(name), LONGEST_NAME)}"'
        for draft in apart({f"{ADAPTERS}.{name}": (noun, held_natively(paths))}):
            yield replace(draft, remedy=_one_path(name, draft))


def _one_path(name: str, draft: Draft) -> Remedy:
    """Load the adapter from the reference's path, or without a majority from one of those that are told."""
    wanted = [each for each in draft.evidence if each.is_reference] or draft.evidence[:MOST_SIDES]
    modules = (shlex.quote(f"{name}={json.loads(each.value)}") for each in wanted)
    snippets = tuple(Snippet("flag", f"--lora-modules {module}") for module in modules)
    sentence = "Load the adapter from one path on every replica of the pool, also at start so that a restart keeps it."
    return Remedy(sentence, snippets, any_of=len(snippets) > 1)
