"""PD-19: encoders and those that read from them do not agree."""

from collections.abc import Iterator, Mapping, Sequence

from dashboard.rules.connectors import value
from dashboard.rules.disaggregation.partners import partners
from dashboard.rules.domain import ENCODER_ROLE, ImpactContext
from dashboard.rules.drift import MOST_SIDES, capital, say
from dashboard.rules.findings import Draft, Evidence, Family, Severity
from dashboard.rules.holders import held_natively
from dashboard.rules.registry import Scope, rule
from dashboard.rules.remedy import set_to
from dashboard.rules.subject import FleetSubject, Holders, PoolSubject

PRODUCERS, CONSUMERS = ("ec_producer", "ec_both"), ("ec_consumer", "ec_both")
NOUNS = {
    "ec_transfer_config.ec_connector": "encoder cache connector",
    "version": "version of vLLM",
    "model_config.model": "model path",
    "model_config.dtype": "model dtype",
}


@rule(
    id="PD-19",
    name="encoder-settings-differ",
    family=Family.DISAGGREGATION,
    scope=Scope.FLEET,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(ENCODER_ROLE,),
)
def encoder_settings_differ(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas that encode images and those that read from them differ in what both compare.

    Compared are the connector of the encoder cache, the version of vLLM, the model's path and its dtype.

    Why it matters:
        - disaggregated: The encoder answers each transfer with NACK_INCOMPAT: every replica encodes each image itself,
          and the encoder pool works for nothing.

    How to fix:
        Give encoders and readers the same connector, version, `--model` and `--dtype`.

    Exceptions:
        Connectors that go through a shared folder or store compare less: suppress what they do not mind.

    Evidence:
        - vllm/distributed/ec_transfer/ec_connector/cpu/protocol.py (what the fingerprint is made of)
        - vllm/distributed/ec_transfer/ec_connector/cpu/session.py (another fingerprint is refused)

    Example:
        The encoder pool is left on 0.31.0 when the others are upgraded.
    """
    for pools in partners(fleet):
        roles = {replica: role for pool in pools for replica, role in _roles(pool).items()}
        sides = [{each for each, role in roles.items() if role in part} for part in (PRODUCERS, CONSUMERS)]
        for path, noun in NOUNS.items():
            told = {
                replica: each for pool in pools for replica, each in pool.identity(path).items() if replica in roles
            }
            holders = [held_natively({each: told[each] for each in side & told.keys()}) for side in sides]
            is_ignored = any(pool.is_ignored(path) for pool in pools)
            if all(holders) and len(holders[0].keys() | holders[1].keys()) > 1 and not is_ignored:
                yield _draft(path, noun, holders)


def _roles(pool: PoolSubject) -> Mapping[str, str]:
    told = pool.of_documents(lambda settings: value(settings, ENCODER_ROLE))
    return {replica: role for replica, role in told.items() if isinstance(role, str)}


def _draft(path: str, noun: str, sides: Sequence[Holders]) -> Draft:
    """Draft one setting; those that read are the reference, for they also decode."""
    wanted = next(iter(sides[1]))
    named = [" or ".join(say(told) for told in list(holders)[:MOST_SIDES]) for holders in sides]
    evidence = tuple(
        Evidence(path, *told, replicas, holder, is_reference=holders is sides[1])
        for holder, holders in zip(("encoders", "readers"), sides, strict=True)
        for told, replicas in holders.items()
    )
    odd = {replica for holders in sides for told, ids in holders.items() if told != wanted for replica in ids}
    return Draft(
        tuple(sorted(odd)),
        f"{capital(noun)} is {named[0]} on encoders and {named[1]} on those that read from them.",
        evidence,
        set_to([(path, wanted)], f"Give both the same {noun}, and restart those that change."),
    )
