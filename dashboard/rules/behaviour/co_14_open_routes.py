"""CO-14: development routes are open to whoever reaches a replica."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, Source, State
from dashboard.fleet.formatting import LONG_TEXT, first_of, middle_cut, one_line
from dashboard.rules.behaviour import provider_plugin
from dashboard.rules.behaviour.provider_plugin import NAME as PROVIDER
from dashboard.rules.behaviour.switches import is_on
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import NOT_SET, held
from dashboard.rules.registry import rule
from dashboard.rules.subject import Holders, PoolSubject
from dashboard.vllm.canonical import canonical_text

DEV_MODE = "env.VLLM_SERVER_DEV_MODE"
PLUGINS = "env.VLLM_PLUGINS"
ROUTE = "/server_info"
TURN_OFF = Snippet("env", "unset VLLM_SERVER_DEV_MODE")
ASK_PROVIDER = Snippet("shell", provider_plugin.ASKED)
CLOSE = "Where the mode is needed for something else, close the port of their API to everybody but known clients."
READ = f"Unset VLLM_SERVER_DEV_MODE, and restart these replicas: the provider tells all that is read of them. {CLOSE}"
HOW = (
    "Unset VLLM_SERVER_DEV_MODE, and restart these replicas. So that their configuration can still be read, first "
    f"install the provider where they run: `{provider_plugin.ASKED}`, run with vLLM's Python, prints the line that "
    "adds it to VLLM_PLUGINS and keeps what is loaded now."
)
SOME_OLDER = f"{HOW} The provider was tried with vLLM 0.26 and newer: those that run an older one may not load it."
ALL_OLDER = (
    "Unset VLLM_SERVER_DEV_MODE, and restart these replicas. Less of their configuration is read then: the provider, "
    "which tells it without the mode, was tried with vLLM 0.26 and newer, and they run an older one."
)
MOST_PLUGINS = 3  # that a sentence names before it counts the rest


@rule(
    id="CO-14",
    name="development-routes-open",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
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
        provider tells them too, and changes nothing. `python -m dashboard.provider`, run with vLLM's Python, prints the
        line that adds it to `VLLM_PLUGINS` and keeps what is loaded now. It was tried with vLLM 0.26 and newer; 0.20.2
        does not load it. Where the mode is needed for something else, close the port of the API to everybody but known
        clients: routers, Prometheus, other replicas, this dashboard. A proxy that passes only `/v1` does so for people
        and programs outside. Other ports, such as those for KV transfer and KV events, must stay open to those that use
        them.

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
        holders = _plugins(pool)
        total = sum(map(len, holders.values()))
        for draft in apart({PLUGINS: ("list of plugins to load", holders)}):
            yield replace(draft, severity=Severity.INFO, sentence=_what_differs(draft, total) or draft.sentence)


def _what_differs(draft: Draft, total: int) -> str:
    """Name the plugins by which a list is another than most have: lists are long. Empty where one is no list."""
    own, other = draft.evidence[:2]
    here, there = (_named(each.value) for each in (own, other))
    if not other.is_reference or here is None or there is None:
        return ""
    adds, lacks = (first_of(map(_shown, some), MOST_PLUGINS) for some in (sorted(here - there), sorted(there - here)))
    said = " and ".join([*([f"adds {adds}"] if adds else []), *([f"lacks {lacks}"] if lacks else [])])
    share = f"{len(other.replicas):,} of {total:,} replicas"
    return f"List of plugins to load {said}, compared with that of {share}." if said else ""


def _named(value: str) -> frozenset[str] | None:
    """Return the plugins of a list but for the provider, each as canonical text; None if it is no list."""
    names = json.loads(value)
    return frozenset(map(canonical_text, names)) - {f'"{PROVIDER}"'} if isinstance(names, list) else None


def _shown(name: str) -> str:
    return middle_cut(one_line(name), LONG_TEXT)


def _plugins(pool: PoolSubject) -> Holders:
    """Return who names which plugins, in any order; lists that are one but for the provider count as the first."""
    holders = pool.values(PLUGINS, _in_any_order)
    first: dict[SettingValue, SettingValue] = {}
    named = {replica: first.setdefault(_others(told), told) for told, ids in holders.items() for replica in ids}
    return held(named)


def _in_any_order(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    names = json.loads(told.value)
    return (
        SettingValue(canonical_text(sorted(names, key=canonical_text)), told.state) if isinstance(names, list) else told
    )


def _others(told: SettingValue) -> SettingValue:
    """Return the list without the provider; where nothing else is named, as where nothing is."""
    names = json.loads(told.value)
    if not isinstance(names, list) or PROVIDER not in names:
        return told
    return (
        SettingValue(canonical_text(left), told.state)
        if (left := [each for each in names if each != PROVIDER])
        else NOT_SET
    )


def _remedy(pool: PoolSubject, replicas: frozenset[str]) -> Remedy:
    """Say how to close the routes without losing what is read through them: by the provider."""
    those = [each for each in pool.members if each.id in replicas]
    without = [each for each in those if Source.PROVIDER not in each.sources]
    older = [each for each in without if provider_plugin.is_older(each.version)]
    if not without:
        return Remedy(READ, (TURN_OFF,))
    if len(older) == len(those):
        return Remedy(f"{ALL_OLDER} {CLOSE}", (TURN_OFF,))
    return Remedy(f"{SOME_OLDER if older else HOW} {CLOSE}", (TURN_OFF, ASK_PROVIDER))


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
