"""PD-02: prefill and decode name their model differently."""

from collections.abc import Iterator

from dashboard.rules.disaggregation.handshake import as_checked, whole
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import Holders, PairSubject

MODEL = "model_config.model"


@rule(
    id="PD-02",
    name="prefill-decode-model-path-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(MODEL,),
)
def model_path_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode name their model differently, if only by its folder.

    Compared is the whole text that `--model` was given, letter by letter.

    Why it matters:
        - disaggregated: The text is part of what NIXL compares before it moves KV cache: `/mnt/a/llama` and
          `meta-llama/llama` are refused, also where the weights are the same files.

    How to fix:
        Mount the model at the same path in both pools, or name the same repository in both. With `HF_HUB_OFFLINE=1`
        vLLM replaces a repository's name by the folder of its copy: set it in both pools or in none.

    Exceptions:
        Connectors other than NIXL do not compare it: there it is a warning.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (the text is a factor of the compatibility hash)
        - vllm/engine/arg_utils.py (offline, the folder stands in for the name)
        - ai-dynamo/dynamo#14971
        - ai-dynamo/dynamo#14610

    Example:
        Prefill loads `/models/llama-3.3-70b` from a disk, decode loads `meta-llama/Llama-3.3-70B-Instruct` from the
        hub.
    """
    return as_checked(pair, _differing(pair))


def _differing(pair: PairSubject) -> Iterator[Draft]:
    sides: list[Holders] = [whole(side, MODEL) for side in pair.sides]
    if all(sides) and len(sides[0].keys() | sides[1].keys()) > 1 and not pair.is_ignored(MODEL):
        yield unequal(pair, MODEL, "model path", sides)
