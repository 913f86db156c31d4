"""The router, the KV store and the rollout of a pool as text, with how they are known."""

from dashboard.fleet import FactName
from dashboard.fleet.formatting import count, iso
from dashboard.rules.domain import CERTAIN, Domain, ImpactContext, Origin, Store
from dashboard.rules.findings import Finding, Inspection, Rollout
from dashboard.rules.sentences import capital
from dashboard.views.names import brief

BASES = {Origin.READ: "read", Origin.DECLARED: "fleet.yaml", Origin.DETECTED: "detected", Origin.ASSUMED: "assumed"}


def context_text(finding: Finding, inspection: Inspection) -> str:
    """Return the impact context of a finding and how it is known; empty if the finding matters in any pool."""
    domains = [inspection.domains[pool] for pool in finding.pools if pool in inspection.domains]
    domain = next((each for each in domains if finding.context in each.contexts), None)
    return domain_text(domain, finding.context) if domain and finding.context else ""


def domain_text(domain: Domain, context: ImpactContext) -> str:
    """Return one impact context of a pool: `Router: prefix-hash (fleet.yaml).`; empty for that of any pool."""
    if context is ImpactContext.MODEL:
        return ""
    if context is ImpactContext.KV_STORE:
        text, basis = _store(domain), domain.kv_store_basis
    elif context is ImpactContext.DISAGGREGATED:
        text, basis = f"prefill and decode: separate ({BASES[domain.disaggregated_basis]})", Origin.DECLARED
    else:
        text, basis = _router(domain), domain.router_basis
    return f"{capital(text)}{'; if not, declare it under pools in fleet.yaml' if basis not in CERTAIN else ''}."


def shared_texts(domain: Domain) -> list[str]:
    """Return the router and the KV store of a pool: `router: prefix-hash (fleet.yaml)`."""
    return [_router(domain), *([_store(domain)] if domain.kv_store is not Store.NONE else [])]


def rollout_text(rollout: Rollout) -> str:
    """Return the progress of a rollout, and its effect on the severity of findings."""
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"Rollout {rollout.old} → {rollout.new}: {moved} moved, the last one started {iso(rollout.last)}. "
        "Severity is one step lower during a rollout."
    )


def _router(domain: Domain) -> str:
    fact = domain.fact(FactName.ROUTING)
    source = f"read from {brief(fact.source)}" if fact else BASES[domain.router_basis]
    return f"router: {domain.router} ({source})"


def _store(domain: Domain) -> str:
    return f"KV store: {domain.kv_store} ({BASES[domain.kv_store_basis]})"
