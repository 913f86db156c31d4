"""PD-13: KV cache lies in memory differently on prefill and decode."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.connectors import SECTION, connectors, value
from dashboard.rules.disaggregation.handshake import NIXL, concluded, is_mla
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Confidence, Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

LAYOUT = "cache_config.kv_cache_layout"
VARIABLE = "env.VLLM_KV_CACHE_LAYOUT"
PERMUTE = f"{SECTION}.enable_permute_local_kv"
ENVIRONMENT = "env.VLLM_"
# Every version takes these two names (vllm/envs.py); newer ones also say it with a letter for each dimension.
HND, NHD = SettingValue('"HND"', State.REPORTED), SettingValue('"NHD"', State.REPORTED)
ALSO_CALLED = {"LBHNC": HND, "LBNHC": NHD, "HND": HND, "NHD": NHD}


@rule(
    id="PD-13",
    name="prefill-decode-layout-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(LAYOUT, VARIABLE, "version"),
)
def layout_differs(pair: PairSubject) -> Iterator[Draft]:
    """KV cache lies in memory differently on prefill and decode.

    The layout in force counts, else the variable that asks for one. With NIXL and without the variable it is HND.

    Why it matters:
        - disaggregated: Heads and tokens stand in another order, so a block cannot be copied as it is: NIXL ends the
          handshake with an error, and no request gets its KV cache from prefill.

    How to fix:
        Unset `VLLM_KV_CACHE_LAYOUT` in both pools: NIXL then chooses HND, which also lets the sides have different
        numbers of ranks.

    Exceptions:
        Models with latent attention have one layout only. Decode may turn what it receives from HND into NHD, with
        `enable_permute_local_kv`.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (different layouts raise)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/connector.py (NIXL's own choice)
        - vllm-project/vllm#26556

    Example:
        Decode was started with `VLLM_KV_CACHE_LAYOUT=NHD` for an experiment with another backend.
    """
    if is_mla(pair):
        return
    resolved = [concluded(side, _resolved) for side in pair.sides]
    path, conclude = (LAYOUT, _resolved) if all(resolved) else (VARIABLE, _asked)
    sides = [concluded(side, conclude) for side in pair.sides]
    if pair.is_ignored(path) or not all(sides) or len(sides[0].keys() | sides[1].keys()) == 1:
        return
    permutes = [told.value == "true" for told in pair.decode.values(PERMUTE)]
    if set(sides[0]) == {HND} and set(sides[1]) <= {HND, NHD} and permutes and all(permutes):
        return
    draft = unequal(pair, path, "layout of the KV cache", sides)
    how = remedy.set_to([(VARIABLE, next(iter(sides[1])))], draft.remedy.sentence)
    yield replace(draft, remedy=how, confidence=Confidence.REPORTED if path == LAYOUT else Confidence.DERIVED)


def _resolved(settings: Mapping[str, Setting]) -> SettingValue | None:
    told = value(settings, LAYOUT)
    return _called(told) if isinstance(told, str) else None


def _asked(settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the layout that the variable asks for; where other variables are told and this one is not, the default."""
    told = value(settings, VARIABLE)
    if isinstance(told, str):
        return _called(told)
    is_nixl = any(each.name in NIXL for each in connectors(settings))
    is_told = any(path.startswith(ENVIRONMENT) for path in settings)
    return HND if is_nixl and is_told else None


def _called(layout: str) -> SettingValue | None:
    return ALSO_CALLED.get(layout)
