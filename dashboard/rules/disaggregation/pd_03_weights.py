"""PD-03: prefill and decode use different weights of one model."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.meanings import branch, weights_format, without_empty
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

REVISION, QUANTIZATION = "model_config.revision", "model_config.quantization"
NOUNS = {REVISION: "model revision", QUANTIZATION: "quantization"}
OVERRIDES, LOAD_FORMAT = "model_config.hf_overrides", "load_config.load_format"


@rule(
    id="PD-03",
    name="prefill-decode-weights-differ",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(REVISION, QUANTIZATION, OVERRIDES),
)
def weights_differ(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode use different weights of one model.

    Compared are the revision, the quantization, `hf_overrides` and whether weights are random (`--load-format dummy`).
    `main` is the revision where none is set.

    Why it matters:
        - disaggregated: Nothing checks it: none of them is part of what the sides compare, so decode continues from KV
          cache that other weights computed, and answers are worse without any error.

    How to fix:
        Pin one `--revision`, one quantization and one `--hf-overrides` for both pools.

    Exceptions:
        A prefill pool quantized otherwise on purpose, after its answers were measured: suppress the finding.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (none is a factor of the compatibility hash)
        - vllm/v1/kv_offload/file_mapper.py (nor of the key of shared files)
        - vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/data.py (nor of Mooncake's keys)

    Example:
        Decode is pinned to a commit, prefill takes the newest of the branch. After the authors fix a weight file and
        the prefill pool restarts, each answer begins with KV cache of a model that decode does not have.
    """
    yield from across(pair, NOUNS, branch)
    yield from across(pair, {OVERRIDES: "setting hf_overrides"}, without_empty)
    yield from across(pair, {LOAD_FORMAT: "setting load_format"}, weights_format)
