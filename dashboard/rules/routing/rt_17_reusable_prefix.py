"""RT-17: typical prompts are shorter than the smallest prefix that can be reused."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, State
from dashboard.rules.connectors import value
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Confidence, Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import PREFIX_CACHING, shown
from dashboard.rules.routing.rt_01_block_size import BLOCK_SIZE
from dashboard.rules.routing.rt_02_router_block_size import is_size
from dashboard.rules.routing.rt_03_match_unit import MATCH_UNIT
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.lookahead import METHODS, lookahead_setting

ALIGNMENT = "cache_config.cache_hit_alignment_tokens"
METHOD = "speculative_config.method"
NO_DROP = "speculative_config.disable_eagle_block_drop"


@rule(
    id="RT-17",
    name="reusable-prefix-too-long",
    family=Family.ROUTING,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(BLOCK_SIZE, ALIGNMENT),
    least=1,
)
def reusable_prefix_too_long(pool: PoolSubject, *, prompt_tokens: int = 512) -> Iterator[Draft]:
    """Typical prompts are shorter than the smallest prefix that can be reused.

    A hit ends at a multiple of the block size, or of the alignment where the model has several kinds of layers. With
    EAGLE and MTP the last block of a hit is dropped, so a hit needs two. `prompt_tokens` is the length of a typical
    prompt.

    Why it matters:
        - any pool: Shorter prompts never hit the prefix cache. No log and no metric reports why the hit rate is zero.

    How to fix:
        Use a smaller `--block-size`. For a hybrid model, whose block size vLLM raises itself, set a finer
        `--prefix-match-unit`. If prompts are longer, set the parameter `prompt_tokens` of this rule.

    Exceptions:
        Not evaluated with prefix caching off, nor for a `prefix_match_unit` whose alignment is not reported.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (resolve_cache_hit_alignment_tokens)
        - vllm/config/speculative.py (use_eagle_block_drop)
        - vllm-project/vllm#40696
        - vllm-project/vllm#53749
        - vllm-project/vllm-ascend#16639

    Example:
        vLLM raised the block size of a hybrid model to 2,096 tokens. System prompts of 1,500 tokens are shared by all
        requests and computed for each.
    """
    if pool.is_ignored(BLOCK_SIZE):
        return
    found: dict[int, set[str]] = defaultdict(set)
    for replica, tokens in pool.of_documents(_smallest).items():
        if tokens is not None and tokens > prompt_tokens:
            found[tokens].add(replica)
    for tokens, replicas in sorted(found.items()):
        evidence = tuple(each for path in (BLOCK_SIZE, ALIGNMENT, METHOD) for each in shown(pool, path, replicas))
        yield Draft(
            tuple(sorted(replicas)),
            f"Prefixes below {tokens:,} tokens are never reused; a typical prompt has {prompt_tokens:,}.",
            tuple(each for each in evidence if each.state is State.REPORTED),
            Remedy(
                "Use a smaller block size, or a finer prefix match unit for a hybrid model. If prompts are longer, "
                "raise the parameter `prompt_tokens` of this rule in fleet.yaml.",
                (
                    Snippet("flag", "--prefix-match-unit 16"),
                    Snippet("yaml", f"rules:\n  RT-17: {{parameters: {json.dumps({'prompt_tokens': tokens})}}}"),
                ),
                any_of=True,
            ),
            Confidence.DERIVED,
        )


def _smallest(settings: Mapping[str, Setting]) -> int | None:
    """Return the tokens of the smallest prefix that can be hit; None where it is not known or nothing is cached."""
    block, alignment = value(settings, BLOCK_SIZE), value(settings, ALIGNMENT)
    if value(settings, PREFIX_CACHING) is not True or not is_size(block):
        return None
    if not is_size(alignment):
        if value(settings, MATCH_UNIT) is not None:
            return None
        alignment = block
    return int(alignment) * (2 if _drops_a_block(settings) else 1)


def _drops_a_block(settings: Mapping[str, Setting]) -> bool:
    """Tell whether a hit loses its last block: not where hashes look ahead, or may."""
    if value(settings, METHOD) not in METHODS or value(settings, NO_DROP) is not False:
        return False
    ahead = lookahead_setting(settings)
    return ahead is not None and ahead.value == "0"
