"""CO-14: development routes are open to whoever reaches a replica."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.models import Source, State, Told
from dashboard.normalize.canonical import canonical_text
from dashboard.rules.behaviour.switches import is_on
from dashboard.rules.domain import Facet
from dashboard.rules.drift import apart
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import NOT_SET, held
from dashboard.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dashboard.models import Setting
    from dashboard.rules.subject import Holders, PoolSubject

DEV_MODE = "env.VLLM_SERVER_DEV_MODE"
PLUGINS = "env.VLLM_PLUGINS"
ROUTE = "/server_info"
TURN_OFF = Snippet("env", "unset VLLM_SERVER_DEV_MODE")
PROVIDER = "fleet_config"  # the dashboard's provider, as VLLM_PLUGINS names it
ADD_PROVIDER = Snippet("env", f'export VLLM_PLUGINS="${{VLLM_PLUGINS:+$VLLM_PLUGINS,}}{PROVIDER}"')
CLOSE = "Where the mode is needed for something else, close the port of their API to everybody but known clients."
READ = f"Unset VLLM_SERVER_DEV_MODE, and restart these replicas: the provider tells all that is read of them. {CLOSE}"
HOW = (
    "Unset VLLM_SERVER_DEV_MODE, and restart these replicas. So that their configuration can still be read, install "
    f"the provider where they run, and append `{PROVIDER}` to VLLM_PLUGINS, which then has to name all plugins in use. "
    f"{CLOSE}"
)


@rule(
    id="CO-14",
    name="development-routes-open",
    family=Family.BEHAVIOUR,
    severity={Facet.MODEL: Severity.WARNING},
    needs=("sources",),
    least=1,
)
def development_routes_open(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas run in development mode, whose routes let anybody stop or change them.

    It is also said, as information, where replicas name different plugins to load: these can add routes too. A replica
    that names none loads all that are installed, and does not tell which. The dashboard's provider, `fleet_config`,
    makes no difference: it only answers, behind `--api-key`.

    Why it matters:
        - any pool: Development routes let whoever reaches the port empty the caches, put the engine to sleep and call
          any method of the workers (`/reset_prefix_cache`, `/sleep`, `/collective_rpc`); `--api-key` does not guard
          them, nor those that plugins add under `/plugins`, only paths such as `/v1`.

    How to fix:
        Unset `VLLM_SERVER_DEV_MODE` and restart. To read configurations the mode is not needed: the dashboard's
        provider tells them too (`VLLM_PLUGINS=...,fleet_config`), and changes nothing. Where the mode is needed for
        something else, close the port of the API to everybody but known clients: routers, Prometheus, other replicas,
        this dashboard. A proxy that passes only `/v1` does so for people and programs outside. Other ports, such as
        those for KV transfer and KV events, must stay open to those that use them.

    Exceptions:
        Test fleets, and engines that a trainer steers through these routes: suppress the finding with a reason.

    Evidence:
        - vllm/entrypoints/serve/__init__.py (the routes that the mode opens)
        - vllm/entrypoints/serve/dev/rpc/api_router.py (`/collective_rpc` calls any method of the workers)
        - vllm/entrypoints/serve/middleware/authenticate.py (the paths that a key guards)
        - vllm-project/vllm#40277

    Example:
        `curl -X POST http://10.0.0.7:8000/reset_prefix_cache` from any pod of the cluster empties the prefix cache,
        though the replica was started with `--api-key`.
    """
    yield from _development_mode(pool)
    if not pool.is_ignored(PLUGINS):
        drafts = apart({PLUGINS: ("list of plugins to load", _plugins(pool))})
        yield from (replace(draft, severity=Severity.INFO) for draft in drafts)


def _plugins(pool: PoolSubject) -> Holders:
    """Return who names which plugins, in any order; lists that are one but for the provider count as the first."""
    holders = pool.values(PLUGINS, _in_any_order)
    first: dict[Told, Told] = {}
    named = {replica: first.setdefault(_others(told), told) for told, ids in holders.items() for replica in ids}
    return held(named)


def _in_any_order(told: Told, _: Mapping[str, Setting]) -> Told:
    names = json.loads(told.value)
    return Told(canonical_text(sorted(names, key=canonical_text)), told.state) if isinstance(names, list) else told


def _others(told: Told) -> Told:
    """Return the list without the provider; where nothing else is named, as where nothing is."""
    names = json.loads(told.value)
    if not isinstance(names, list) or PROVIDER not in names:
        return told
    return Told(canonical_text(left), told.state) if (left := [each for each in names if each != PROVIDER]) else NOT_SET


def _remedy(pool: PoolSubject, replicas: frozenset[str]) -> Remedy:
    """Say how to close the routes without losing what is read through them: by the provider."""
    has_provider = all(Source.PROVIDER in each.sources for each in pool.members if each.id in replicas)
    return Remedy(READ, (TURN_OFF,)) if has_provider else Remedy(HOW, (TURN_OFF, ADD_PROVIDER))


def _development_mode(pool: PoolSubject) -> Iterator[Draft]:
    """Yield one draft for all replicas whose development routes answer, or that say that the mode is on."""
    answered = tuple(each.id for each in pool.members if Source.SERVER_INFO in each.sources)
    said = {told: ids for told, ids in pool.values(DEV_MODE).items() if is_on(told)}
    replicas = sorted({*answered, *(replica for ids in said.values() for replica in ids)})
    if not replicas or pool.is_ignored(DEV_MODE):
        return
    how = f"the route {ROUTE} answers" if answered else "VLLM_SERVER_DEV_MODE is set"
    evidence = [Evidence(DEV_MODE, *told, ids) for told, ids in said.items()]
    if answered:
        evidence.append(Evidence(ROUTE, json.dumps("answers"), State.REPORTED, answered))
    yield Draft(
        tuple(replicas),
        f"Development mode is on: {how}, and with it routes that stop or change the server.",
        tuple(evidence),
        _remedy(pool, frozenset(replicas)),
    )
