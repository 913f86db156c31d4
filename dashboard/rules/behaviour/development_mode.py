"""CO-14, and the dashboard's provider as a vLLM plugin."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Setting, SettingValue, Source, State
from dashboard.fleet.pieces import Text, join_texts
from dashboard.rules.behaviour.weights import is_on
from dashboard.rules.differences import pool_differences
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet, Way
from dashboard.rules.registry import rule
from dashboard.rules.sentences import names_text, setting_piece, write
from dashboard.rules.subject import NO, PoolSubject, setting_value
from dashboard.vllm.versions import has_change
from vllm_fleet_provider.shared.spelling import canonical_text

PROVIDER = "fleet_config"  # in VLLM_PLUGINS and in both groups of entry points
PROVIDER_COMMAND = "python -m vllm_fleet_provider"  # prints the line that adds the provider to the current plugins
TESTED_SINCE = (0, 26, 0)  # the first release that the provider was tested with; 0.20.2 loads no endpoint plugins

DEV_MODE = "env.VLLM_SERVER_DEV_MODE"
PLUGINS = "env.VLLM_PLUGINS"
ROUTE = "/server_info"
TURN_OFF = Snippet("env", "unset VLLM_SERVER_DEV_MODE")
TURNED_OFF = Way(((DEV_MODE, NO),))
RUN_PROVIDER = Snippet("shell", PROVIDER_COMMAND)
UNSET = "Unset `VLLM_SERVER_DEV_MODE` and restart these replicas"
CLOSE = "Where the mode is needed otherwise, close the API port to everyone except known clients."
REPORTED = f"{UNSET}; the provider still reports their configuration. {CLOSE}"
INSTALL = (
    "Install the provider, then unset `VLLM_SERVER_DEV_MODE` and restart these replicas. The provider keeps their "
    f"configuration readable: run `{PROVIDER_COMMAND}` with vLLM's Python, and set the VLLM_PLUGINS line that it "
    "prints."
)
SOME_OLDER = f"{INSTALL} The provider was tested with vLLM 0.26 and newer; older ones may not load it."
ALL_OLDER = (
    f"{UNSET}. Less of their configuration is then reported: the provider was tested with vLLM 0.26 and newer, and "
    "these run an older version."
)
WHY_PLUGINS = (
    "A plugin can add routes and metrics, or change models and how requests are processed: equal requests may get "
    "different answers."
)
MAX_PLUGINS = 3  # plugins in a sentence before the rest is counted


def is_older(version: str | None) -> bool:
    """Return whether a vLLM is older than all that the provider was tested with; an unknown one is not."""
    return has_change(version, TESTED_SINCE) is False


@rule("CO-14", needs=("sources",), least=1)
def development_routes_open(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas run in development mode, whose routes let anyone stop or change them.

    Different plugin lists are info: plugins can add routes too. A replica without a list loads all installed plugins
    and does not report which. The dashboard's provider, `fleet_config`, is ignored: it is read-only, behind
    `--api-key`.
    """
    yield from _development_mode(pool)
    holders = _plugins(pool)
    total = sum(map(len, holders.values()))
    for draft in pool_differences(pool, {PLUGINS: holders}):
        text = _list_difference(draft, total) or draft.text
        yield replace(draft, severity=Severity.INFO, text=text, why=WHY_PLUGINS)


def _development_mode(pool: PoolSubject) -> Iterator[Draft]:
    """Yield one draft for all replicas whose development routes answer, or that report the mode as on."""
    answering = tuple(each.id for each in pool.members if Source.SERVER_INFO in each.sources)
    switched = {value: ids for value, ids in pool.values(DEV_MODE).items() if is_on(value)}
    replicas = sorted({*answering, *(replica for ids in switched.values() for replica in ids)})
    if not replicas or pool.is_ignored(DEV_MODE):
        return
    evidence = [Evidence(DEV_MODE, *value, ids) for value, ids in switched.items()]
    if answering:
        evidence.append(Evidence(ROUTE, json.dumps("answers"), State.REPORTED, answering))
    how = write(f"{ROUTE} responds") if answering else write(setting_piece(DEV_MODE), " is set")
    yield Draft(
        tuple(replicas),
        write("Development mode is enabled (", how, "). Its routes can stop or change the server."),
        tuple(evidence),
        _remedy(pool, frozenset(replicas)),
    )


def _remedy(pool: PoolSubject, replicas: frozenset[str]) -> Remedy:
    """Return how to close the routes and still read the configuration through the provider."""
    open_ones = [each for each in pool.members if each.id in replicas]
    without = [each for each in open_ones if Source.PROVIDER not in each.sources]
    older = [each for each in without if is_older(each.version)]
    if not without:  # else the configuration cannot be read any more
        return Remedy(REPORTED, (TURN_OFF,), ways=(TURNED_OFF,))
    if len(older) == len(open_ones):
        return Remedy(f"{ALL_OLDER} {CLOSE}", (TURN_OFF,))
    return Remedy(f"{SOME_OLDER if older else INSTALL} {CLOSE}", (RUN_PROVIDER, TURN_OFF))


def _list_difference(draft: Draft, total: int) -> Text:
    """Return the plugins that one list has more or fewer than the majority's; empty where one is no list."""
    own, other = draft.evidence[:2]
    here, there = (_names(each.value) for each in (own, other))
    if not other.is_reference or here is None or there is None:
        return ()
    share = f"on {len(other.replicas):,} of {total:,} replicas)"
    texts = []
    for names, verb, start in ((here - there, "Loads extra", "(not "), (there - here, "Lacks", "(")):
        if names:
            texts.append(write(f"{verb} plugins ", names_text(sorted(names), MAX_PLUGINS), f" {start}{share}"))
    return write(join_texts(texts, last=". "), ".") if texts else ()


def _names(value: str) -> frozenset[str] | None:
    """Return the plugins of a list except the provider, each as canonical text; None if it is no list."""
    names = json.loads(value)
    return frozenset(map(canonical_text, names)) - {f'"{PROVIDER}"'} if isinstance(names, list) else None


def _plugins(pool: PoolSubject) -> Holders:
    """Group replicas by plugins in any order; lists that differ only in the provider count as the first."""
    first: dict[SettingValue, SettingValue] = {}
    values: dict[str, SettingValue] = {}
    for value, ids in pool.values(PLUGINS, _in_any_order).items():
        values |= dict.fromkeys(ids, first.setdefault(_without_provider(value), value))
    return group_by_value(values)


def _in_any_order(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    names = json.loads(value.value)
    return setting_value(sorted(names, key=canonical_text)) if isinstance(names, list) else value


def _without_provider(value: SettingValue) -> SettingValue:
    """Return the list without the provider; a list of the provider alone counts as not set."""
    names = json.loads(value.value)
    if not isinstance(names, list) or PROVIDER not in names:
        return value
    return setting_value([each for each in names if each != PROVIDER] or None)
