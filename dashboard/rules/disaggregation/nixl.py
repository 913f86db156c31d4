"""What NIXL compares or asserts at the handshake, by the version of vLLM that runs.

Read in the source of the newest patch of each minor version from 0.12 to 0.33. Until 0.19 the files below `nixl/` were
one: vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from dashboard.rules.connector_options import connectors
from dashboard.rules.findings import Draft, Severity
from dashboard.rules.subject import PairSubject, PoolSubject
from dashboard.vllm.versions import History, answer_at

ASSUMED_COMPARED = "NIXL of these versions compares it"
NIXL = frozenset({"NixlConnector", "NixlPullConnector", "NixlPushConnector"})


class NixlFact(StrEnum):
    """One fact about a version's NIXL connector."""

    COMPARES_BACKEND = "compares backend"
    TRANSFERS_DRAFT_STATE = "transfers draft state"
    HASHES_CONFIG = "hashes config"
    HASHES_HYBRID_MANAGER = "hashes hybrid manager"
    HASHES_CROSS_LAYERS = "hashes cross layers"
    ASSERTS_RANKS = "asserts ranks"
    LEASES_BLOCKS = "leases blocks"


HISTORY: dict[NixlFact, History] = {
    # nixl/metadata.py, compute_nixl_compatibility_hash: attn_backend_name; in 0.12 _validate_remote_agent_handshake
    NixlFact.COMPARES_BACKEND: (((0, 12, 0), True),),
    # nixl/metadata.py, _get_speculative_compatibility_factors since 0.28; before that decode crashed (vllm#49230)
    NixlFact.TRANSFERS_DRAFT_STATE: (((0, 12, 0), True),),
    # nixl/metadata.py, compute_nixl_compatibility_hash: version, model, dtype, cache_dtype. 0.12 has no hash.
    NixlFact.HASHES_CONFIG: (((0, 12, 0), False), ((0, 13, 0), True)),
    # nixl/metadata.py, compute_nixl_compatibility_hash: is_hma_enabled
    NixlFact.HASHES_HYBRID_MANAGER: (((0, 12, 0), False), ((0, 17, 1), False), ((0, 18, 1), True)),
    # nixl/metadata.py, compute_nixl_compatibility_hash: cross_layers_blocks (connector.py, prefer_cross_layer_blocks)
    NixlFact.HASHES_CROSS_LAYERS: (
        *(((0, 12, 0), False), ((0, 15, 1), False), ((0, 16, 0), True)),
        *(((0, 28, 0), True), ((0, 29, 0), False)),
    ),
    # nixl_connector.py, _validate_remote_agent_handshake: tp_ratio > 0 ("Decode TP cannot be smaller than prefill TP")
    NixlFact.ASSERTS_RANKS: (((0, 12, 0), True), ((0, 13, 0), True), ((0, 14, 1), False)),
    # nixl/base_scheduler.py (nixl/scheduler.py until 0.23), __init__: kv_lease_duration. Until 0.21 vllm/envs.py:
    # VLLM_NIXL_ABORT_REQUEST_TIMEOUT
    NixlFact.LEASES_BLOCKS: (((0, 12, 0), False), ((0, 21, 0), False), ((0, 22, 1), True)),
}


def holds(fact: NixlFact, *pools: PoolSubject) -> bool | None:
    """Return whether a fact is true of all members; False where it is untrue of any, None where unknown of any."""
    answers = {answer_at(HISTORY[fact], member.version) for pool in pools for member in pool.members}
    return next((answer for answer in (False, None) if answer in answers), True)


def has_nixl(pair: PairSubject) -> bool:
    """Return whether a side uses NIXL; also where no connector is reported."""
    names = _names(pair)
    return not names or not NIXL.isdisjoint(names)


def reports_nixl(pair: PairSubject) -> bool:
    """Return whether a side reports a NIXL connector."""
    return not NIXL.isdisjoint(_names(pair))


def _names(pair: PairSubject) -> set[str]:
    return {each.name for side in pair.sides for found in side.of_documents(connectors).values() for each in found}


def warn_unless_compared(fact: NixlFact, pair: PairSubject, drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Yield drafts; as warnings with other connectors and versions of NIXL, which do not compare these settings.

    Where the versions are unknown, the findings are assumed.
    """
    is_compared = holds(fact, *pair.sides) if has_nixl(pair) else False
    for draft in drafts:
        if is_compared is None:
            yield replace(draft, assumptions=(*draft.assumptions, ASSUMED_COMPARED))
        else:
            yield draft if is_compared else replace(draft, severity=Severity.WARNING)
