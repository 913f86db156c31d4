"""Rules on behaviour: hostile names, evidence, and remedies that can be pasted."""

from typing import Any

import pytest

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding
from tests.rules.case import built, inspected

NAMES = {"settings": {"served_model_names": ["chat"]}}
TURN_OFF, PROVIDER = "unset VLLM_SERVER_DEV_MODE", "python -m vllm_fleet_provider"


def findings_of(rule: str, *entries: dict[str, Any]) -> list[Finding]:
    return list(inspected(*built(entries), [BY_ID[rule]]).findings)


def finding_of(rule: str, *entries: dict[str, Any]) -> Finding:
    (finding,) = findings_of(rule, *entries)
    return finding


@pytest.mark.parametrize("rule", ["CO-02", "CO-09", "CO-13"])
def test_hostile_names_of_models_adapters_and_devices_are_cut_and_on_one_line(rule: str) -> None:
    name = "<script>\n\x07" + "x" * 5000
    odd = {"settings": {"served_model_names": ["chat", name]}, "adapters": [name], "devices": [{"name": name}]}
    found = findings_of(rule, odd, {**NAMES, "devices": [{"name": "NVIDIA H100"}]})

    assert found
    assert all(each.sentence.isprintable() and len(each.sentence) < 600 for each in found)


@pytest.mark.parametrize(
    ("versions", "snippets", "sentence"),
    [
        (["0.32.0", "0.26.0"], [PROVIDER, TURN_OFF], "that it prints. Where the mode"),
        (["0.32.0", "0.20.2"], [PROVIDER, TURN_OFF], "older ones may not load it. Where the mode"),
        (["0.20.2", "0.12.0"], [TURN_OFF], "these run an older version. Where the mode"),
        ([None, "dev"], [PROVIDER, TURN_OFF], "that it prints. Where the mode"),
    ],
)
def test_the_provider_replaces_development_mode_where_some_vllm_can_load_it(
    versions: list[str | None], snippets: list[str], sentence: str
) -> None:
    """Nothing is pasted that overwrites VLLM_PLUGINS or closes a different port."""
    pool = ({"settings": {"env.VLLM_SERVER_DEV_MODE": True, "version": each}} for each in versions)
    finding = finding_of("CO-14", *pool)

    assert [each.text for each in finding.remedy.snippets] == snippets
    assert sentence in finding.remedy.sentence
    assert "close the API port to everyone except known clients" in finding.remedy.sentence
    assert ("Install the provider" in finding.remedy.sentence) == (PROVIDER in snippets)


@pytest.mark.parametrize(
    ("rule", "entries", "sentence", "snippets"),
    [
        pytest.param(
            "CO-09",
            [{**NAMES, "adapters": ["$(reboot)"]}, NAMES],
            "Load it on each of these replicas",
            ["--lora-modules '$(reboot)=/path/to/it'"],
            id="a name that a shell would run is quoted",
        ),
        pytest.param(
            "CO-04",
            [{"settings": {"model_config.quantization": each}} for each in (None, None, None, "fp8")],
            "Remove `--quantization` from these replicas and restart them. "
            "Where no flag sets it, it is from the model's files: then use the same files.",
            [],
            id="quantization may be in the model's files",
        ),
        pytest.param(
            "CO-03",
            [{"settings": {"model_config.model": f"org/{name}"}} for name in ("a", "b")],
            "Choose one `model` for the pool and restart the other replicas.",
            [],
            id="two models without a majority",
        ),
        pytest.param(
            "CO-03",
            [{"settings": {"model_config.model": each}} for each in (3, 3, 3, "other")],
            "Set `model` as on the rest of the pool",
            [],
            id="a model that is no text",
        ),
    ],
)
def test_a_remedy_pastes_only_what_is_safe_and_known(
    rule: str, entries: list[dict[str, Any]], sentence: str, snippets: list[str]
) -> None:
    finding = finding_of(rule, *entries)

    assert finding.remedy.sentence.startswith(sentence)
    assert [each.text for each in finding.remedy.snippets] == snippets
