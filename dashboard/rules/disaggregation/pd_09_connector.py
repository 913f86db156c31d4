"""PD-09: prefill and decode have no connector in common."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.connectors import CONNECTOR, Connector, connectors, tells_options
from dashboard.rules.disaggregation.handshake import concluded
from dashboard.rules.domain import OFFLOADING, ImpactContext, tiers_of
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import told_of
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import Holders, PairSubject

PULL = {"NixlConnector": "NixlPullConnector"}  # two names of one thing
# They keep KV cache in the replica itself.
AT_HOME = frozenset(
    {"SimpleCPUOffloadConnector", "DecodeBenchConnector", "HiSparseConnector", "ExampleHiddenStatesConnector"}
)


@rule(
    id="PD-09",
    name="prefill-decode-connector-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(CONNECTOR,),
)
def connector_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have no connector in common.

    Those inside a MultiConnector count one by one. `NixlConnector` is the same as `NixlPullConnector`; pushing and
    pulling are two protocols.

    Why it matters:
        - disaggregated: Sides that speak different protocols never exchange KV cache: requests fail, or decode computes
          each prompt a second time.

    How to fix:
        Give both pools the same connector, and the router's sidecar the one that belongs to it.

    Exceptions:
        Connectors of your own are compared by their name.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (push and pull never complete a handshake)
        - vllm/distributed/kv_transfer/kv_connector/factory.py (the connectors there are)
        - vllm-project/vllm#33747

    Example:
        Decode was moved to `NixlPushConnector` for lower latency; prefill still runs `NixlConnector`, which pulls.
    """
    sides = [concluded(side, _named) for side in pair.sides]
    protocols = [[_protocols(told) for told in holders] for holders in sides]
    if pair.is_ignored(CONNECTOR) or not any(each for side in protocols for each in side):
        return
    if any(one.isdisjoint(other) for one in protocols[0] for other in protocols[1]):
        yield _draft(pair, sides)


def _named(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the names of a document's connectors that move KV cache to others; one as text, more as a list."""
    told = lookup_setting(settings, CONNECTOR)
    if told is None or not is_comparable(told.state):
        return None
    found = connectors(settings)
    if not found and told.state is State.REPORTED:
        return None  # a MultiConnector of which nobody tells what is in it
    if any(each.name == OFFLOADING for each in found) and not tells_options(settings):
        return None  # whether it has a tier that others read is not told
    names = sorted({each.name for each in found if _leaves(each)})
    return told_of((names[0] if len(names) == 1 else names) or None)


def _leaves(connector: Connector) -> bool:
    return connector.name not in AT_HOME and (connector.name != OFFLOADING or bool(tiers_of(connector)))


def _names(told: SettingValue) -> list[str]:
    names = json.loads(told.value) or []
    return [names] if isinstance(names, str) else names


def _protocols(told: SettingValue) -> frozenset[str]:
    return frozenset(PULL.get(name, name) for name in _names(told))


def _draft(pair: PairSubject, sides: list[Holders]) -> Draft:
    draft = unequal(pair, CONNECTOR, "connector", sides)
    wanted = next((name for told in sides[1] for name in _names(told)), None)
    sentence = "Give both pools a connector in common, and restart those that change."
    how = remedy.set_to([(CONNECTOR, told_of(wanted))], sentence)
    return replace(draft, sentence=f"{draft.sentence[:-1]}: they have none in common.", remedy=how)
