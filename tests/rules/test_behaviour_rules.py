"""Rules on behaviour: hostile values, remedies that can be pasted, and equal servers without a finding."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from dashboard.analysis.assembly import build_fleet
from dashboard.fleet import Source
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Family, Finding, Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from tests import builders
from tests.captured import AT, METRICS, MODELS, VERSION, Capture, captures, snapshot

BEHAVIOUR = tuple(each for each in ALL_RULES if each.family is Family.BEHAVIOUR)

Entry = tuple[dict[str, Any], dict[str, Any]]  # settings of a replica, and its other fields

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
STOCK = (METRICS, VERSION, MODELS)  # the endpoints of a vLLM without development mode or plugins
NAMES = {"served_model_names": ["chat"]}
DEV_MODE = {"env.VLLM_SERVER_DEV_MODE": True}
TURN_OFF, PROVIDER = "unset VLLM_SERVER_DEV_MODE", "python -m dashboard.provider"


def inspected(*entries: Entry, rules: Sequence[str] = ()) -> Inspection:
    """Inspect a pool with a replica per entry, by some behaviour rules or all."""
    documents = [builders.document({"version": "0.32.0", **settings}, base={}) for settings, _ in entries]
    replicas = [
        builders.replica(f"chat-{number}", document=document, **more)
        for number, (document, (_, more)) in enumerate(zip(documents, entries, strict=True))
    ]
    fleet = builders.fleet(replicas, documents)
    used = [BY_ID[each] for each in rules] or BEHAVIOUR
    return inspect_fleet(used, fleet.pools, fleet.replicas, fleet.documents, Policy(), builders.NOW)


def finding_of(rule: str, *entries: Entry) -> Finding:
    (finding,) = inspected(*entries, rules=[rule]).findings
    return finding


@pytest.mark.no_cover
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_no_value_of_any_setting_makes_a_rule_raise(value: Any) -> None:
    usual: Entry = (dict.fromkeys(PATHS, 16), {})
    odd: Entry = (dict.fromkeys(PATHS, value), {})

    for entries in ([usual, odd], [usual, usual, usual, odd], [odd, odd, odd, usual]):
        inspection = inspected(*entries)

        assert [each for each in inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
        assert all(each.remedy.sentence for each in inspection.findings)


@pytest.mark.no_cover
@pytest.mark.parametrize("path", PATHS)
def test_sentences_on_hostile_values_are_short_and_on_one_line(path: str) -> None:
    for finding in inspected(*(({path: value}, {}) for value in HOSTILE)).findings:
        assert finding.sentence.isprintable()
        assert len(finding.sentence) < 600


def test_hostile_names_of_models_adapters_and_devices_are_cut_and_on_one_line() -> None:
    name = "<script>\n\x07" + "x" * 5000
    more = {"adapters": {name: None}, "devices": builders.devices(1, name)}
    found = inspected(({"served_model_names": ["chat", name]}, more), (NAMES, {})).findings

    assert {"CO-02", "CO-09", "CO-13"} <= {each.rule for each in found}
    assert all(each.sentence.isprintable() and len(each.sentence) < 600 for each in found)


@pytest.mark.parametrize(
    ("versions", "snippets", "sentence"),
    [
        (["0.32.0", "0.26.0"], [TURN_OFF, PROVIDER], "adds it to VLLM_PLUGINS. Where the mode"),
        (["0.32.0", "0.20.2"], [TURN_OFF, PROVIDER], "older ones may not load it. Where the mode"),
        (["0.20.2", "0.12.0"], [TURN_OFF], "these run an older version. Where the mode"),
        ([None, "dev"], [TURN_OFF, PROVIDER], "adds it to VLLM_PLUGINS. Where the mode"),
    ],
)
def test_the_provider_replaces_development_mode_where_some_vllm_can_load_it(
    versions: list[str | None], snippets: list[str], sentence: str
) -> None:
    """Nothing is pasted that overwrites VLLM_PLUGINS or closes another port."""
    finding = finding_of("CO-14", *((DEV_MODE, {"version": version}) for version in versions))

    assert [each.text for each in finding.remedy.snippets] == snippets
    assert sentence in finding.remedy.sentence
    assert "close the API port to everyone except known clients" in finding.remedy.sentence
    assert ("install the provider" in finding.remedy.sentence) == (PROVIDER in snippets)


@pytest.mark.parametrize(
    ("rule", "entries", "sentence", "snippets"),
    [
        pytest.param(
            "CO-09",
            [(NAMES, {"adapters": {"$(reboot)": None}}), (NAMES, {})],
            "Load it on each of these replicas",
            ["--lora-modules '$(reboot)=/path/to/it'"],
            id="a name that a shell would run is quoted",
        ),
        pytest.param(
            "CO-04",
            [*[({"model_config.quantization": None}, {})] * 3, ({"model_config.quantization": "fp8"}, {})],
            "Remove `--quantization` from these replicas and restart them. "
            "Where no flag sets it, it is from the model's files: then use the same files.",
            [],
            id="quantization may be in the model's files",
        ),
        pytest.param(
            "CO-03",
            [({"model_config.model": f"org/{name}"}, {}) for name in ("a", "b")],
            "Choose one `model` for the pool and restart the other replicas.",
            [],
            id="two models without a majority",
        ),
        pytest.param(
            "CO-03",
            [*[({"model_config.model": 3}, {})] * 3, ({"model_config.model": "other"}, {})],
            "Set `model` as on the rest of the pool",
            [],
            id="a model that is no text",
        ),
    ],
)
def test_a_remedy_pastes_only_what_is_safe_and_known(
    rule: str, entries: list[Entry], sentence: str, snippets: list[str]
) -> None:
    finding = finding_of(rule, *entries)

    assert finding.remedy.sentence.startswith(sentence)
    assert [each.text for each in finding.remedy.snippets] == snippets


def test_evidence_of_adapters_has_every_loaded_set_and_unknown_replicas_are_counted() -> None:
    unknown: Entry = ({}, {"sources": (Source.METRICS,), "adapters": {}})
    loaded = ((NAMES, {"adapters": dict.fromkeys(names)}) for names in ("ab", "ba", ""))
    finding = finding_of("CO-09", *loaded, unknown, unknown)

    assert [(each.value, len(each.replicas), each.is_reference) for each in finding.evidence] == [
        ("[]", 1, False),
        ('["a","b"]', 2, True),
    ]
    assert (finding.unknown, finding.total) == (2, 5)


def test_evidence_of_queue_limits_has_reported_values_and_no_computed_ones() -> None:
    path, size = "scheduler_config.max_num_queued_reqs", "parallel_config.data_parallel_size"
    finding = finding_of("CO-11", *(({path: 512, size: ranks}, {}) for ranks in (1, 1, 1, 2)))

    assert [(each.path, each.value) for each in finding.evidence] == [(path, "512"), (size, "1"), (size, "2")]


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("endpoints", "number"), [([None], 1), ([None] * 2, 2), ([None] * 4, 4), ([None, None, None, STOCK], 3)]
)
@pytest.mark.parametrize("captured", captures())
def test_equal_servers_differ_in_nothing_however_much_they_report(
    captured: Capture, endpoints: list[Sequence[str] | None], number: int
) -> None:
    """Development mode alone is a finding: it is open where /server_info answers. None: all endpoints answer."""
    polled = [
        snapshot(captured.answers, paths, target=f"http://10.0.0.{place}:8000") for place, paths in enumerate(endpoints)
    ]
    fleet = build_fleet("real", polled, polled_at=AT, interval=timedelta(seconds=15))
    found = inspect_fleet(BEHAVIOUR, fleet.pools, fleet.replicas, fleet.documents, Policy(), AT).findings

    assert [(each.rule, len(each.replicas)) for each in found] == [("CO-14", number)]
