"""What the replicas of a pool share, in words: router, KV store, rollout."""

from dashboard.fleet.formatting import count, iso
from dashboard.rules.domain import Basis, Domain, ImpactContext, Store
from dashboard.rules.findings import Finding, Inspection, Rollout
from dashboard.rules.sentences import capital

HOW_KNOWN = {Basis.DECLARED: "fleet.yaml", Basis.INFERRED: "detected", Basis.ASSUMED: "assumed"}


def domain_words(domain: Domain, context: ImpactContext) -> str:
    """Write why a difference matters in a pool, and how that is known; empty if it matters in any pool."""
    if context is ImpactContext.MODEL:
        return ""
    if context is ImpactContext.KV_STORE:
        words, basis = _store(domain), domain.kv_store_basis
    elif context is ImpactContext.DISAGGREGATED:
        words, basis = f"prefill and decode: separate ({HOW_KNOWN[domain.disaggregated_basis]})", Basis.DECLARED
    else:
        words, basis = _router(domain), domain.router_basis
    return f"{capital(words)}{'; if not, declare it under pools in fleet.yaml' if basis is Basis.ASSUMED else ''}."


def shared_words(domain: Domain) -> list[str]:
    """Write what a pool shares, and how that is known: `router: prefix-hash (fleet.yaml)`."""
    return [_router(domain), *([_store(domain)] if domain.kv_store is not Store.NONE else [])]


def _router(domain: Domain) -> str:
    return f"router: {domain.router} ({HOW_KNOWN[domain.router_basis]})"


def _store(domain: Domain) -> str:
    return f"KV store: {domain.kv_store} ({HOW_KNOWN[domain.kv_store_basis]})"


def rollout_words(rollout: Rollout) -> str:
    """Write the rollout of a finding, and its effect on the severity."""
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"Rollout {rollout.old} → {rollout.new}: {moved} moved, the last one started {iso(rollout.last)}. "
        "Severity is one step lower during a rollout."
    )


def known_how(finding: Finding, inspection: Inspection) -> str:
    """Write how it is known that a finding matters in its pools; empty if it matters in any pool."""
    domains = [inspection.domains[pool] for pool in finding.pools if pool in inspection.domains]
    held = next((domain for domain in domains if finding.context in domain.contexts), None)
    return domain_words(held, finding.context) if held and finding.context else ""
