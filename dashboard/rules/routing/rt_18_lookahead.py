"""RT-18: block hashes of some replicas also cover later tokens."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import caching
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.lookahead import LOOKAHEAD

DISABLED = ("speculative_config.disable_lookahead_block_hashes", SettingValue("true", State.REPORTED))
HOW = (
    "Set disable_lookahead_block_hashes on the replicas with lookahead, and restart them: they then hash as replicas "
    "without it do. Or use one speculative configuration and one vLLM version for the pool."
)


@rule(
    id="RT-18",
    name="hash-lookahead-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.INFO,
        ImpactContext.MODEL: Severity.INFO,
    },
    needs=(LOOKAHEAD,),
)
def hash_lookahead_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Block hashes of some replicas also cover tokens after the block, so equal prompts have different hashes.

    Since 0.33 vLLM does so under `eagle`, `eagle3` and `mtp` speculation: one token, or as many as are drafted where
    the draft has several MTP modules. The provider reports the number. Without it the number is derived from version,
    method, prefix caching and KV connector; where one of these is not reported, it is unknown. With any KV connector
    it is 0. Replicas that cache no prefixes are left out.

    Why it matters:
        - prefix-hash: The router computes one kind of hash. On replicas with another lookahead it never finds a prefix.
        - kv-store: The hash is the key of a stored block, so replicas with different lookahead share nothing.
        - kv-events: An index that makes its own keys from the tokens in events works with any mixture. One that looks
          up the replicas' hashes finds nothing on the odd replicas.
        - any pool: Hashes of the same tokens differ between replicas. Nothing here is known to compare them.

    How to fix:
        Set `disable_lookahead_block_hashes` in `--speculative-config` of every replica with lookahead, or use one
        speculative configuration on all of them. A router that computes block hashes itself needs it too, unless it
        adds the later tokens.

    Exceptions:
        An index that learns tokens and hashes from events works with any mixture.

    Evidence:
        - vllm/config/vllm.py (num_hash_lookahead_tokens)
        - vllm/config/speculative.py (needs_eagle_block_drop, disable_lookahead_block_hashes)
        - vllm/v1/core/kv_cache_utils.py (get_request_block_hasher)
        - captures/0.33.0 (llama_eagle and llama_eagle_nolookahead: one prompt, two first hashes)

    Example:
        One of four replicas was started with EAGLE to try it. Its blocks have other hashes than those of the three
        others, and no prompt is routed to it for what it caches.
    """
    for draft in drift(caching(pool), {LOOKAHEAD: "hash lookahead"}):
        yield replace(draft, remedy=remedy.set_to([DISABLED], HOW))
