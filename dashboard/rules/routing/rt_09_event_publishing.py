"""RT-09: some replicas publish KV events and some do not, or none does though the router follows them."""

from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import EVENTS, PUBLISHER, Basis, ImpactContext, Router
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import NO, YES, publication, shown
from dashboard.rules.subject import PoolSubject

ZMQ = SettingValue('"zmq"', State.REPORTED)


@rule(
    id="RT-09",
    name="events-not-published",
    family=Family.ROUTING,
    severity={ImpactContext.MODEL: Severity.INFO, ImpactContext.KV_EVENTS: Severity.CRITICAL},
    needs=(EVENTS,),
    least=1,
)
def events_not_published(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish no KV events while others do, or while the router follows them.

    Publishing takes both: `enable_kv_cache_events`, and a publisher other than `null`. A replica that answers `{}` at
    `/kv_event_sources` publishes nothing.

    Why it matters:
        - any pool: Whoever reads the events sees only a part of the pool. The router is not known to read them.
        - kv-events: A replica without events looks empty for ever, so no prompt is sent there because of what it holds;
          when none publishes, the router only balances load, and nothing says so.

    How to fix:
        Enable KV events on every replica of the pool. Switching the router to KV events does not enable them on the
        replicas.

    Exceptions:
        When nothing reads the events, switch them off everywhere instead.

    Evidence:
        - vllm/config/kv_events.py (both settings, and what they are by default)
        - ai-dynamo/dynamo#12319
        - ai-dynamo/dynamo#11505
        - ai-dynamo/dynamo#11984

    Example:
        A second deployment joins the pool and lacks `--kv-events-config`. Its replicas serve, but only what is left
        when the others are busy.
    """
    told = pool.values(EVENTS, publication)
    on, off = told.get(YES, ()), told.get(NO, ())
    is_followed = pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis is not Basis.ASSUMED
    if not off or not (on or is_followed) or pool.is_ignored(EVENTS):
        return
    if on:
        sentence = f"KV events are not published, while {len(on):,} of {len(on) + len(off):,} replicas publish them."
    else:
        sentence = "KV events are not published by any replica that reports them; the router follows them."
    evidence = [each for path in (EVENTS, PUBLISHER) for each in shown(pool, path, off)]
    yield Draft(
        off,
        sentence,
        (*evidence, *shown(pool, EVENTS, on, is_reference=True)),
        remedy.set_to([(EVENTS, YES), (PUBLISHER, ZMQ)], "Enable KV events on these replicas, and restart them."),
    )
