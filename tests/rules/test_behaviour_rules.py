"""Rules on behaviour hold against hostile values, and say nothing of servers that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import build_fleet
from dashboard.fleet import Replica, Source
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from dashboard.rules.registry import Rule
from tests import builders
from tests.captured import AT, METRICS, MODELS, VERSION, Capture, captures, snapshot

BEHAVIOUR = tuple(each for each in ALL_RULES if each.family is Family.BEHAVIOUR)

SettingValue = tuple[dict[str, Any], dict[str, Any]]  # settings of a replica, and what else it is given

HOSTILE: list[Any] = [
    "16",
    "",
    "<b>\x00\u202e\n| `x`",
    "x" * 10_000,
    2**63,
    -1,
    0.5,
    True,
    [],
    [None, 3, ["a"], "b"],
    {"a": [1]},
    None,
]
PATHS = sorted(
    {need for rule in BEHAVIOUR for need in rule.needs if "." in need or "_" in need}
    | {
        "env.VLLM_PLUGINS",
        "env.VLLM_SERVER_DEV_MODE",
        "env.VLLM_BATCH_INVARIANT",
        "parallel_config.data_parallel_size",
        "lora_config.target_modules",
    }
)
STOCK = (METRICS, VERSION, MODELS)  # what a vLLM that nobody changed answers


def inspected(told: Sequence[SettingValue], rules: Sequence[Rule] = BEHAVIOUR) -> Inspection:
    """Judge a pool of replicas, each by its settings and by what else it is given."""
    replicas: list[Replica] = []
    documents = []
    for number, (settings, more) in enumerate(told):
        document = builders.document({"version": "0.32.0", **settings}, base={})
        documents.append(document)
        replicas.append(builders.replica(f"chat-{number}", document=document, **more))
    fleet = builders.fleet(replicas, documents)
    return inspect_fleet(rules, fleet.pools, fleet.replicas, fleet.documents, Policy(), builders.NOW)


@pytest.mark.no_cover
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_no_value_of_any_setting_makes_a_rule_raise(value: Any) -> None:
    usual = dict.fromkeys(PATHS, 16)
    odd = dict.fromkeys(PATHS, value)

    for fleet in ([usual, odd], [usual, usual, usual, odd], [odd, odd, odd, usual]):
        inspection = inspected([(settings, {}) for settings in fleet])

        assert [each for each in inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
        assert all(each.remedy.sentence for each in inspection.findings)


@pytest.mark.no_cover
@pytest.mark.parametrize("path", PATHS)
def test_sentences_stay_short_and_on_one_line_whatever_the_values(path: str) -> None:
    fleet: list[SettingValue] = [({path: value}, {}) for value in HOSTILE]

    for finding in inspected(fleet).findings:
        assert finding.sentence.isprintable()
        assert len(finding.sentence) < 600


def test_hostile_names_of_models_adapters_and_devices_are_cut_and_stay_on_one_line() -> None:
    name = "<script>\n\x07" + "x" * 5000
    more = {"adapters": {name: None}, "devices": builders.devices(1, name)}
    fleet = [({"served_model_names": ["chat", name]}, more), ({"served_model_names": ["chat"]}, {})]

    found = {each.rule: each for each in inspected(fleet).findings}

    assert {"CO-02", "CO-09", "CO-13"} <= found.keys()
    assert all(each.sentence.isprintable() and len(each.sentence) < 600 for each in found.values())


def test_a_name_that_a_shell_would_run_is_quoted_in_what_is_pasted() -> None:
    fleet = [
        ({"served_model_names": ["chat"]}, {"adapters": {"$(reboot)": None}}),
        ({"served_model_names": ["chat"]}, {}),
    ]

    (finding,) = inspected(fleet, [BY_ID["CO-09"]]).findings

    assert [each.text for each in finding.remedy.snippets] == ["--lora-modules '$(reboot)=/path/to/it'"]


def test_what_is_pasted_against_the_development_mode_touches_no_other_port() -> None:
    """A network policy would close KV transfer, KV events and metrics too: that is the operator's to write."""
    (finding,) = inspected([({"env.VLLM_SERVER_DEV_MODE": True}, {})], [BY_ID["CO-14"]]).findings

    assert [each.text for each in finding.remedy.snippets] == [
        "unset VLLM_SERVER_DEV_MODE",
        "python -m dashboard.provider",
    ]
    assert "close the API port to everyone except known clients" in finding.remedy.sentence


@pytest.mark.parametrize(
    ("versions", "installs", "says"),
    [
        (["0.32.0", "0.26.0"], True, "adds it to VLLM_PLUGINS. Where the mode"),
        (["0.32.0", "0.20.2"], True, "older ones may not load it. Where the mode"),
        (["0.20.2", "0.12.0"], False, "these run an older version. Where the mode"),
        ([None, "dev"], True, "adds it to VLLM_PLUGINS. Where the mode"),
    ],
)
def test_the_provider_is_not_offered_where_vllm_is_too_old_for_it(
    versions: list[str | None], *, installs: bool, says: str
) -> None:
    """0.20.2 loads no endpoint plugins; where the version is not known, it may."""
    fleet: list[SettingValue] = [({"env.VLLM_SERVER_DEV_MODE": True}, {"version": version}) for version in versions]
    (finding,) = inspected(fleet, [BY_ID["CO-14"]]).findings

    assert ("install the provider" in finding.remedy.sentence) is installs
    assert ("python -m dashboard.provider" in [each.text for each in finding.remedy.snippets]) is installs
    assert says in finding.remedy.sentence


def test_what_is_pasted_for_the_provider_unloads_no_other_plugin() -> None:
    """Where VLLM_PLUGINS is not set, a line that only appends to it would leave the provider alone in it."""
    (finding,) = inspected([({"env.VLLM_SERVER_DEV_MODE": True}, {})], [BY_ID["CO-14"]]).findings

    assert not any("VLLM_PLUGINS=" in each.text for each in finding.remedy.snippets)
    assert "adds it to VLLM_PLUGINS" in finding.remedy.sentence


def test_a_quantization_that_no_flag_sets_is_of_the_models_files() -> None:
    fleet: list[SettingValue] = [({"model_config.quantization": None}, {})] * 3
    fleet.append(({"model_config.quantization": "fp8"}, {}))

    (finding,) = inspected(fleet, [BY_ID["CO-04"]]).findings

    assert finding.remedy.sentence == (
        "Remove `--quantization` from these replicas and restart them. "
        "Where no flag sets it, it is from the model's files: then use the same files."
    )


def test_two_models_without_a_majority_leave_the_choice_to_the_operator() -> None:
    fleet: list[SettingValue] = [({"model_config.model": f"org/{name}"}, {}) for name in ("a", "b")]

    (finding,) = inspected(fleet, [BY_ID["CO-03"]]).findings

    assert finding.remedy.snippets == ()
    assert finding.remedy.sentence == "Choose one `model` for the pool and restart the other replicas."


def test_a_model_whose_whole_name_is_no_text_is_not_pasted() -> None:
    fleet: list[SettingValue] = [({"model_config.model": 3}, {})] * 3
    fleet.append(({"model_config.model": "other"}, {}))

    (finding,) = inspected(fleet, [BY_ID["CO-03"]]).findings

    assert finding.remedy.snippets == ()


def test_evidence_of_adapters_holds_every_set_that_is_loaded_and_marks_the_others_as_reference() -> None:
    names = {"served_model_names": ["chat"]}
    fleet = [(names, {"adapters": {"a": None, "b": None}}), (names, {"adapters": {"b": None, "a": None}}), (names, {})]

    (finding,) = inspected(fleet, [BY_ID["CO-09"]]).findings

    assert [(each.value, len(each.replicas), each.is_reference) for each in finding.evidence] == [
        ("[]", 1, False),
        ('["a","b"]', 2, True),
    ]


def test_replicas_without_an_answer_on_their_models_count_as_unknown_for_adapters() -> None:
    names = {"served_model_names": ["chat"]}
    silent: dict[str, Any] = {"sources": (Source.METRICS,), "adapters": {}}
    fleet = [(names, {"adapters": {"a": None}}), (names, {}), ({}, silent), ({}, silent)]

    (finding,) = inspected(fleet, [BY_ID["CO-09"]]).findings

    assert (finding.unknown, finding.total) == (2, 4)


def test_evidence_of_queue_limits_is_what_replicas_tell_not_what_was_computed() -> None:
    path = "scheduler_config.max_num_queued_reqs"
    fleet: list[SettingValue] = [({path: 512, "parallel_config.data_parallel_size": size}, {}) for size in (1, 1, 1, 2)]

    (finding,) = inspected(fleet, [BY_ID["CO-11"]]).findings

    assert [(each.path, each.value) for each in finding.evidence] == [
        (path, "512"),
        ("parallel_config.data_parallel_size", "1"),
        ("parallel_config.data_parallel_size", "2"),
    ]


@pytest.mark.no_cover
@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("captured", captures())
def test_servers_of_one_version_and_command_line_have_no_finding_but_that_of_development_mode(
    captured: Capture, number: int
) -> None:
    inspection = inspected_captures(captured, [None] * number)

    assert [(each.rule, len(each.replicas)) for each in inspection.findings] == [("CO-14", number)]


@pytest.mark.no_cover
@pytest.mark.parametrize("captured", captures())
def test_a_server_that_tells_less_differs_in_nothing_from_one_that_tells_all(captured: Capture) -> None:
    inspection = inspected_captures(captured, [None, None, None, STOCK])

    assert [(each.rule, len(each.replicas)) for each in inspection.findings] == [("CO-14", 3)]


def inspected_captures(captured: Capture, answered: Sequence[Sequence[str] | None]) -> Inspection:
    """Judge a pool of equal servers, each by the paths that it answers on; None: all."""
    polled = [
        snapshot(captured.answers, paths, target=f"http://10.0.0.{number}:8000")
        for number, paths in enumerate(answered)
    ]
    fleet = build_fleet("real", polled, polled_at=AT, interval=timedelta(seconds=15))
    return inspect_fleet(BEHAVIOUR, fleet.pools, fleet.replicas, fleet.documents, Policy(), AT)
