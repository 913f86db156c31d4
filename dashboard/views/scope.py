"""One pool of a fleet: what pages show of it, and what lies outside, so that no filter looks like an all-clear."""

from collections import Counter
from dataclasses import replace

from dashboard.analysis.assembly import Fleet, only_pool
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, uncapitalized
from dashboard.rules.findings import FAMILIES, Family
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.names import brief
from dashboard.views.summary import found_text

NOTHING_ELSE = "no findings"


def only_scope(fleet: Fleet, pool: str) -> Fleet:
    """Return one pool as a fleet, with every finding on it, also those that span pools."""
    part = only_pool(fleet, pool)
    found, suppressed = (
        tuple(each for each in listed if pool in each.pools)
        for listed in (fleet.inspection.findings, fleet.inspection.suppressed)
    )
    return replace(part, inspection=replace(part.inspection, findings=found, suppressed=suppressed))


def scoped_title(title: str, pool: str | None) -> str:
    """Return a headline with the pool that it is about: `chat: two ranks have less KV cache than their peers`."""
    if pool is None:
        return title
    name, whole, share = brief(pool), "Fleet is consistent", "of replicas share prefixes with their pool"
    if whole in title or share in title:
        return title.replace(whole, f"{name} is consistent").replace(share, f"of replicas of {name} share prefixes")
    is_name = title.startswith("KV")
    return f"{name}: {title if is_name else uncapitalized(title)}"


def name_scope(view: View, fleet: Fleet, pool: str, page: str) -> View:
    """Return the view of a page that is limited to a pool, for an export: its lead begins with what that leaves out."""
    outside = f"Only pool {brief(pool)}. Other pools: {outside_text(fleet, pool, page)}."
    return replace(view, lead=f"{outside} {view.lead}".strip())


def outside_text(fleet: Fleet, pool: str, page: str) -> str:
    """Return what a page would also show of other pools: `3 critical, 2 warnings`."""
    if page == pages.CHANGES:
        pools = [each for each in fleet.pools if each.name != pool]
        replicas = count(sum(len(each.replicas) for each in pools), "replica")
        return f"{replicas} in {count(len(pools), 'pool')}, not compared"
    if page == pages.REPLICAS:
        states = Counter(each.state for each in fleet.replicas if each.pool != pool)
        named = [(states[each], str(each)) for each in (ReplicaState.DOWN, ReplicaState.PARTIAL)]
        total = count(states.total(), "replica")
        return ", ".join([total, *(f"{number:,} {state}" for number, state in named if number)])
    if page == pages.SETTINGS:
        paths = {each.path for other in fleet.pools if other.name != pool for each in other.differences}
        return f"{count(len(paths), 'setting')} with different values"
    others = [each for each in fleet.inspection.findings if pool not in each.pools]
    if page == pages.CAPACITY:
        others = [each for each in others if FAMILIES[each.rule[:2]] is Family.CAPACITY]
        return f"capacity findings: {found_text(others)}" if others else "no capacity findings"
    return found_text(others) or NOTHING_ELSE
