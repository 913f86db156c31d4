"""Files that somebody drops become fleets, without their secrets."""

import json
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.sources.importing import File, imported
from dashboard.store import Snapshots
from dashboard.vllm.redaction import MARKER
from tests.builders import HOSTILE
from tests.captured import SERVER_INFO
from tests.saved_fleets import built_of_captures, saved
from tests.sources.importing.dropped import AT, LLAMA, drop, fleet_of


def test_an_exported_snapshot_comes_back_under_its_id(tmp_path: Path) -> None:
    """The same fleet is the same snapshot on every machine."""
    here = Snapshots(tmp_path / "here")
    key = here.freeze(built_of_captures(), "x", AT).id

    fleet = fleet_of(("prod-x.json.gz", here.export(key)))

    assert Snapshots(tmp_path / "there").freeze(fleet, "y", AT).id == key


def test_two_saved_fleets_are_two_each_with_the_name_of_its_file(demo_fleet: Fleet) -> None:
    found = drop(("monday.json", saved(demo_fleet)), ("tuesday.json", saved(built_of_captures())))

    assert [(each.file, each.fleet.name) for each in found.fleets] == [
        ("monday.json", "demo"),
        ("tuesday.json", "captures"),
    ]


def test_data_counts_as_of_the_import_for_a_file_tells_no_time() -> None:
    fleet = fleet_of(("chat-1.json", LLAMA.answers[SERVER_INFO]))

    assert fleet.polled_at == AT
    assert fleet.name == "brought"
    assert all(each.fresh for each in fleet.replicas)


def test_answers_are_judged_under_the_policy_that_is_given() -> None:
    policy = Policy(rules={"RT-01": RuleChange(severity=Severity.INFO)})
    found = imported([File("a.json", LLAMA.answers[SERVER_INFO])], AT, "x", policy=policy, ignore=("a.*",))

    assert found.fleets[0].fleet.policy == policy
    assert found.fleets[0].fleet.ignored == ("a.*",)


def test_secrets_of_answers_and_of_saved_fleets_are_gone() -> None:
    """Also from the raw answer, and from the names of files."""
    secret = "hf_" + "a" * 34
    told = json.loads(LLAMA.answers[SERVER_INFO])
    told["vllm_env"]["HF_TOKEN"] = secret
    told["vllm_config"]["model_config"]["hf_token"] = "short"
    fleet = fleet_of((f"{secret}.json", json.dumps(told).encode()))
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


def test_what_a_file_is_called_never_becomes_markup_or_a_path() -> None:
    """It is a name like any other: one line, cut, shown escaped; no file is ever written under it."""
    fleet = fleet_of((f"../../{HOSTILE}.json", LLAMA.answers[SERVER_INFO]))

    (replica,) = fleet.replicas
    assert replica.name.isprintable()
    assert len(replica.name) <= 80
