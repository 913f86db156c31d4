"""SH-04: replicas of one pool use LMCache differently."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import State
from dashboard.rules.connectors import CONNECTOR, EXTRA, connectors
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.remedy import flag_of
from dashboard.rules.spelled_out import spelled_out
from dashboard.rules.subject import PoolSubject

LMCACHE = "LMCache"  # how the names of its connectors begin
OPTIONS = {
    "lmcache.chunk_size": "chunk size of LMCache",
    "lmcache.pre_caching_hash_algorithm": "hash algorithm of LMCache",
    "lmcache.remote_url": "store of LMCache",
    "lmcache.remote_serde": "encoding of LMCache's store",
}


@rule(
    id="SH-04",
    name="lmcache-settings-differ",
    family=Family.STORES,
    severity={ImpactContext.KV_STORE: Severity.CRITICAL},
    needs=(CONNECTOR,),
)
def lmcache_settings_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool use LMCache differently.

    Compared are the connector and what its extra config says of LMCache. What stands in LMCache's own file or variables
    is told by nobody.

    Why it matters:
        - kv-store: LMCache's keys are hashes of chunks: with another chunk size, hash algorithm or store a replica
          finds nothing of what the others have put there, and they find nothing of it.

    How to fix:
        Give all replicas the same LMCache version, connector and settings, best from one file.

    Exceptions:
        The hash seed, which LMCache's keys depend on too, has a rule of its own.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/lmcache_integration/vllm_v1_adapter.py (the extra config counts)
        - vllm/distributed/kv_transfer/kv_connector/v1/lmcache_connector.py (the connectors)
        - vllm-project/production-stack#1062
        - LMCache/LMCache#2979

    Example:
        One replica was tuned with `lmcache.chunk_size` 512. Its own hits look fine; nobody shares them.
    """
    if not any(each.name.startswith(LMCACHE) for told in pool.of_documents(connectors).values() for each in told):
        return
    nouns = {CONNECTOR: "connector", **{f"{EXTRA}.{name}": noun for name, noun in OPTIONS.items()}}
    for draft in drift(spelled_out(pool, OPTIONS), nouns):
        yield replace(draft, remedy=draft.remedy._replace(snippets=_snippets(draft)))


def _snippets(draft: Draft) -> tuple[Snippet, ...]:
    """Return what to paste. The dots in LMCache's names are no levels for vLLM: they go in as JSON."""
    references = [each for each in draft.evidence if each.is_reference] or draft.evidence[:1]
    wanted = {each.path: json.loads(each.value) for each in references if each.state is State.REPORTED}
    connector = wanted.pop(CONNECTOR, None)
    options = {path.removeprefix(f"{EXTRA}."): told for path, told in wanted.items()}
    flags = [f"{flag_of(CONNECTOR)} {shlex.quote(str(connector))}"] if connector is not None else []
    flags += [f"{flag_of(EXTRA)} {shlex.quote(json.dumps(options))}"] if options else []
    return (Snippet("flag", " ".join(flags)),) if flags else ()
