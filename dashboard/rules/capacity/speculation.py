"""CP-13: draft models that are shorter than their model."""

import json
from collections import defaultdict
from collections.abc import Iterator

from dashboard.fleet.pieces import value
from dashboard.rules.findings import Draft, Remedy
from dashboard.rules.registry import rule
from dashboard.rules.routing.blocks import is_size
from dashboard.rules.selection import evidence_of
from dashboard.rules.sentences import setting_piece, write
from dashboard.rules.subject import PoolSubject

DRAFT_LENGTH = "speculative_config.draft_model_config.max_model_len"
LENGTH = "model_config.max_model_len"
REMEDY = Remedy(
    "Extend the draft model's context like the model's (`--speculative-config`), or use a draft model with the model's "
    "length. Restart these replicas."
)


@rule("CP-13", needs=(DRAFT_LENGTH,), least=1)
def draft_model_is_shorter(pool: PoolSubject) -> Iterator[Draft]:
    """Draft models have a shorter context than their model.

    Why it matters:
        - any pool (warning): Once a request is longer than the draft model's context, vLLM drafts nothing for its whole
          batch. Acceptance falls to 0 and every step is slower than without speculation.

    How to fix:
        Extend the draft model's context like the model's: `--hf-overrides` of the model do not apply to it. Or use a
        draft model with the model's length.

    Exceptions:
        Pools without requests of that length: suppress the finding.

    Evidence:
        - vllm/v1/worker/gpu_model_runner.py (_input_fits_in_drafter)
        - vllm/config/speculative.py (_maybe_override_draft_max_model_len)
        - vllm-project/vllm#58080
        - vllm-project/vllm#57941

    Example:
        The model's context was extended to 163,840 tokens with YaRN, the draft model's stayed at 40,960.
    """
    pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
    for member in pool.members:
        draft, model = (pool.value(member.id, path) for path in (DRAFT_LENGTH, LENGTH))
        if is_size(draft) and is_size(model) and draft < model:
            pairs[draft, model].append(member.id)
    for (draft, model), replicas in pairs.items() if not pool.is_ignored(DRAFT_LENGTH) else ():
        lengths = (value(json.dumps(draft)), "; ", setting_piece(LENGTH), " is ", value(json.dumps(model)), ".")
        yield Draft(
            tuple(replicas),
            write(setting_piece(DRAFT_LENGTH), " is ", *lengths),
            evidence_of(pool, (DRAFT_LENGTH, LENGTH), replicas),
            REMEDY,
        )
