"""RT-13: replicas cache no prefixes, some of them or all, behind a router that sends prompts by prefix."""

from collections.abc import Iterator

from dashboard.fleet import Role
from dashboard.fleet.formatting import count
from dashboard.rules import remedy
from dashboard.rules.domain import Basis, ImpactContext, Router
from dashboard.rules.findings import Draft, Family, Remedy, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import NO, PREFIX_CACHING, YES, shown
from dashboard.rules.routing.router import declaration
from dashboard.rules.subject import PoolSubject


@rule(
    id="RT-13",
    name="prefix-caching-off",
    family=Family.ROUTING,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.APPROXIMATE: Severity.CRITICAL,
    },
    needs=(PREFIX_CACHING,),
)
def prefix_caching_off(pool: PoolSubject) -> Iterator[Draft]:
    """Prefix caching is on for some replicas only, or off for all though the router sends prompts by prefix.

    Where the router is only assumed, a pool with prefix caching off everywhere is info.

    Why it matters:
        - any pool: The time to the first token depends on which replica answers: those without the cache compute
          every prompt from its first token.
        - prefix-hash: The router sends prompts with a known beginning to a replica that keeps none, and computes them
          there anew each time.
        - kv-events: Without prefix caching there are no block events, so the router never learns what a replica could
          reuse; there is nothing to reuse either.
        - approximate: The router believes that a replica keeps what was sent there, and goes on sending the like to one
          that keeps nothing.

    How to fix:
        Start every replica of the pool with `--enable-prefix-caching`, which is vLLM's default for most models.

    Exceptions:
        Prefill and decode may differ, and decode replicas may have it off. Models whose layers keep no KV cache per
        token run without it: declare `router: none` for their pool.

    Evidence:
        - vllm/config/cache.py (enable_prefix_caching)
        - captures/0.32.0/llama_noprefix
        - measured: a server with `--no-enable-prefix-caching` tells false, and its first block has no hash

    Example:
        `--no-enable-prefix-caching` was set for a benchmark and stayed in the template of one of three deployments. A
        third of the repeated prompts is computed in full.
    """
    holders = pool.values(PREFIX_CACHING)
    on, off = holders.get(YES, ()), holders.get(NO, ())
    is_aware = pool.domain.router is not Router.NONE
    if not off or pool.is_ignored(PREFIX_CACHING):
        return
    if on:
        is_on_wanted = is_aware or len(on) >= len(off)
        yield _some(pool, off, on, is_on_wanted=True) if is_on_wanted else _some(pool, on, off, is_on_wanted=False)
    elif is_aware and pool.pool.role is not Role.DECODE:
        yield _all(pool, off)


def _some(pool: PoolSubject, odd: tuple[str, ...], rest: tuple[str, ...], *, is_on_wanted: bool) -> Draft:
    """Draft the replicas that are to be switched: on, where the router goes by prefix, else as most have it."""
    is_now, wanted = ("off", "on") if is_on_wanted else ("on", "off")
    return Draft(
        odd,
        f"Prefix caching is {is_now}, while it is {wanted} for {len(rest):,} of {len(odd) + len(rest):,} replicas.",
        (*shown(pool, PREFIX_CACHING, odd), *shown(pool, PREFIX_CACHING, rest, is_reference=True)),
        remedy.set_to(
            [(PREFIX_CACHING, YES if is_on_wanted else NO)],
            f"Switch prefix caching {wanted} for these replicas, and restart them.",
        ),
    )


def _all(pool: PoolSubject, off: tuple[str, ...]) -> Draft:
    is_assumed = pool.domain.router_basis is Basis.ASSUMED
    behind = "" if is_assumed else ", and the router sends prompts by prefix"
    return Draft(
        off,
        f"Prefix caching is off on all {count(len(off), 'replica')} that report it{behind}.",
        tuple(shown(pool, PREFIX_CACHING, off)),
        _switch_on(pool.name, is_assumed=is_assumed),
        severity=Severity.INFO if is_assumed else None,
        assumptions=pool.domain.assumptions,
    )


def _switch_on(pool: str, *, is_assumed: bool) -> Remedy:
    """Say how to switch it on; where the router is only assumed, also how to say that there is none."""
    fix = "Switch prefix caching on, and restart the replicas"
    told = remedy.set_to([(PREFIX_CACHING, YES)], f"{fix}.")
    if not is_assumed:
        return told
    sentence = f"{fix}; or, where no router looks at prefixes, say `router: {Router.NONE}` for this pool in fleet.yaml."
    return Remedy(sentence, (*told.snippets, declaration(pool, f"router: {Router.NONE}")), any_of=True)
