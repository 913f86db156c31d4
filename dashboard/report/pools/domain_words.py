"""What the replicas of a pool share, in words: why a difference hurts there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Basis, Facet, Router, Store
from dashboard.wording import count, iso

if TYPE_CHECKING:
    from dashboard.rules.domain import Domain
    from dashboard.rules.findings import Finding, Inspection, Rollout

ROUTERS = {
    Router.PREFIX_HASH: "a router that hashes prefixes",
    Router.KV_EVENTS: "a router that follows KV events",
    Router.APPROXIMATE: "a router that remembers where it sent what",
    Router.NONE: "a router that does not look at prefixes",
}
STORES = {
    Store.NONE: "no shared KV store",
    Store.LMCACHE: "a KV store shared through LMCache",
    Store.MOONCAKE: "a KV store shared through Mooncake",
    Store.FILE: "a KV store shared through files",
    Store.P2P: "KV cache that replicas fetch from each other",
}
PAIR = "prefill and decode on replicas of their own"
HOW_KNOWN = {Basis.DECLARED: "fleet.yaml says", Basis.INFERRED: "seen in its settings", Basis.ASSUMED: "assumed"}
SHORT = {Basis.DECLARED: "fleet.yaml", Basis.INFERRED: "seen in its settings", Basis.ASSUMED: "assumed"}
SAY_SO = "; if that is wrong, say so in fleet.yaml under pools"


def domain_words(domain: Domain, facet: Facet) -> str:
    """Say what about a pool makes a difference hurt, and how that is known; nothing of what hurts in any pool."""
    if facet is Facet.MODEL:
        return ""
    if facet is Facet.KV_STORE:
        what, basis = STORES[domain.kv_store], domain.kv_store_basis
    elif facet is Facet.DISAGGREGATED:
        what, basis = PAIR, domain.disaggregated_basis
    else:
        what, basis = ROUTERS[domain.router], domain.router_basis
    words = f"{HOW_KNOWN[basis]}: {what}{SAY_SO if basis is Basis.ASSUMED else ''}."
    return words if basis is Basis.DECLARED else words[0].upper() + words[1:]


def shared_words(domain: Domain) -> list[str]:
    """Say in a few words what a pool shares, and how that is known: `a router that hashes prefixes (assumed)`.

    What is only assumed not to be there is not spoken of.
    """
    words = [f"{ROUTERS[domain.router]} ({SHORT[domain.router_basis]})"]
    if domain.kv_store is not Store.NONE:
        words.append(f"{STORES[domain.kv_store]} ({SHORT[domain.kv_store_basis]})")
    return words


def rollout_words(rollout: Rollout) -> str:
    """Say which rollout a finding runs along, and what that changes."""
    moved = f"{len(rollout.replicas):,} of {count(rollout.total, 'replica')}"
    return (
        f"It runs along a rollout from {rollout.old} to {rollout.new}: {moved} moved, the last one started "
        f"{iso(rollout.last)}. While that goes on it counts one step milder."
    )


def facet_of(finding: Finding) -> Facet | None:
    """Return the facet whose reason the finding gives."""
    rule = BY_ID.get(finding.rule)
    return next((facet for facet, why in rule.page.why.items() if why == finding.why), None) if rule else None


def known_how(finding: Finding, inspection: Inspection, facet: Facet | None) -> str:
    """Say how it is known that the reason of a finding holds in its pools; empty where it holds in any pool."""
    domains = [inspection.domains[pool] for pool in finding.pools if pool in inspection.domains]
    held = next((domain for domain in domains if facet in domain.facets), None)
    return domain_words(held, facet) if held and facet else ""
