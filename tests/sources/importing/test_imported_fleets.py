"""Imported files are fleets, without their secrets."""

import json
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from dashboard.documents.load import read_snapshot
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.sources.importing import File, imported
from dashboard.store.snapshots import Snapshots
from tests.builders import HOSTILE
from tests.captured import SERVER_INFO
from tests.saved_fleets import built_of_captures, saved
from tests.sources.importing.dropped import AT, LLAMA, fleet_of
from vllm_fleet_provider.shared.redaction import MARKER


def test_an_exported_snapshot_keeps_its_id(tmp_path: Path) -> None:
    here = Snapshots(tmp_path / "here")
    key = here.save(built_of_captures(), "x", AT).id

    fleet = fleet_of(("prod-x.json.gz", here.export(key)))

    assert Snapshots(tmp_path / "there").save(fleet, "y", AT).id == key


def test_each_saved_fleet_has_the_name_of_its_file(demo_fleet: Fleet) -> None:
    files = [File("monday.json", saved(demo_fleet)), File("tuesday.json", saved(built_of_captures()))]
    fleets, _ = imported(files, AT, "x")

    assert [(each.file, read_snapshot(each.content).name) for each in fleets] == [
        ("monday.json", "demo"),
        ("tuesday.json", "captures"),
    ]


def test_answers_have_the_time_of_the_import() -> None:
    fleet = fleet_of(("chat-1.json", LLAMA.answers[SERVER_INFO]))

    assert fleet.polled_at == AT
    assert fleet.name == "brought"
    assert all(each.fresh for each in fleet.replicas)


def test_answers_are_evaluated_with_the_given_policy() -> None:
    policy = Policy(rules={"RT-01": RuleChange(severity=Severity.INFO)})
    fleet = fleet_of(("a.json", LLAMA.answers[SERVER_INFO]), policy=policy, ignore=("a.*",))

    assert fleet.policy == policy
    assert fleet.ignored == ("a.*",)


def test_secrets_in_answers_file_names_and_saved_fleets_are_redacted() -> None:
    secret = "hf_" + "a" * 34
    info = json.loads(LLAMA.answers[SERVER_INFO])
    info["vllm_env"]["HF_TOKEN"] = secret
    info["vllm_config"]["model_config"]["hf_token"] = "short"
    fleet = fleet_of((f"{secret}.json", json.dumps(info).encode()))
    assert MARKER in saved(fleet).decode()
    assert secret not in saved(fleet).decode()
    assert '"short"' not in saved(fleet).decode()
    assert secret not in repr(fleet.replicas)

    document = json.loads(saved(built_of_captures(LLAMA)))
    part = {"value": "short", "state": "reported", "source": "server_info"}
    next(iter(document["documents"].values()))["model_config.hf_token"] = part
    document["replicas"][0]["identity"]["kv_transfer_config.password"] = dict(part)
    document["fleet"] = f"https://user:{secret}@example.org"
    back = fleet_of(("x.json", json.dumps(document).encode()))
    assert "short" not in saved(back).decode()
    assert secret not in saved(back).decode()


def test_a_file_name_is_one_short_line() -> None:
    fleet = fleet_of((f"../../{HOSTILE}.json", LLAMA.answers[SERVER_INFO]))

    (replica,) = fleet.replicas
    assert replica.name.isprintable()
    assert len(replica.name) <= 80
