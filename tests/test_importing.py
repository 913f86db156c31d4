"""Files that somebody drops become fleets; each one that cannot be used says why, and the others are used."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import build_fleet
from dashboard.importing import File, Imported, imported
from dashboard.importing import files as limits
from dashboard.importing.answers import KINDS, answer_of
from dashboard.models import ReplicaState
from dashboard.redaction import MARKER
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy, RuleChange
from dashboard.store import Snapshots
from tests.builders import HOSTILE
from tests.captured import FILES, INFERENCE_CONFIG, METRICS, MODELS, SERVER_INFO, VERSION, capture, captures, snapshot
from tests.polled_fleets import INTERVAL
from tests.provider_answers import provider_body
from tests.report.saved_fleets import built_of_captures, saved

if TYPE_CHECKING:
    from pathlib import Path

    from dashboard.fleet import Fleet
    from tests.captured import Capture

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
LLAMA = capture("llama")
NAMES = {
    METRICS: "metrics.txt",
    VERSION: "version.json",
    MODELS: "models.json",
    SERVER_INFO: "server_info.json",
    INFERENCE_CONFIG: "inference_config.json",
}


def drop(*files: tuple[str, bytes]) -> Imported:
    return imported([File(name, content) for name, content in files], AT, "brought")


def fleet_of(*files: tuple[str, bytes]) -> Fleet:
    """The one fleet that these files make, none of them refused."""
    found = drop(*files)
    assert found.refused == ()
    ((_, fleet),) = found.fleets
    return fleet


def why(content: bytes, name: str = "chat-1.json") -> str:
    """What is said of one file that is refused."""
    found = drop((name, content))
    assert found.fleets == ()
    (refused,) = found.refused
    return refused.why


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.json", bytes(2**22))
    return out.getvalue()


def test_an_exported_snapshot_comes_back_under_its_id(tmp_path: Path) -> None:
    """The same fleet is the same snapshot on every machine."""
    here = Snapshots(tmp_path / "here")
    key = here.freeze(built_of_captures(), "x", AT).id

    fleet = fleet_of(("prod-x.json.gz", here.export(key)))

    assert Snapshots(tmp_path / "there").freeze(fleet, "y", AT).id == key


def test_what_poll_full_printed_is_that_fleet(demo_fleet: Fleet) -> None:
    fleet = fleet_of(("last-night.json", saved(demo_fleet, indent=2)))

    assert (fleet.name, fleet.polled_at) == (demo_fleet.name, demo_fleet.polled_at)
    assert fleet.inspection == demo_fleet.inspection


def test_two_saved_fleets_are_two_each_with_the_name_of_its_file(demo_fleet: Fleet) -> None:
    found = drop(("monday.json", saved(demo_fleet)), ("tuesday.json", saved(built_of_captures())))

    assert [(name, fleet.name) for name, fleet in found.fleets] == [
        ("monday.json", "demo"),
        ("tuesday.json", "captures"),
    ]


@pytest.mark.parametrize("server", captures())
def test_the_answers_of_a_real_server_say_what_a_poll_of_it_says(server: Capture) -> None:
    """Its files, named by replica and path, lose nothing that the same answers over a network say."""
    files = [
        (f"chat-1.{'plugin' + FILES[path][3:] if 'plg' in FILES[path] else FILES[path]}", body)
        for path, body in server.answers.items()
    ]
    polled = build_fleet(
        "brought",
        [snapshot(server.answers, target="file://chat-1", labels={"name": "chat-1"}, observed_at=AT)],
        polled_at=AT,
        interval=INTERVAL,
    )

    fleet = fleet_of(*files)

    assert fleet.documents == polled.documents
    assert fleet.inspection == polled.inspection
    assert fleet.replicas[0].engines == polled.replicas[0].engines
    assert fleet.replicas[0].kv_cache_groups == polled.replicas[0].kv_cache_groups
    assert fleet.replicas[0].state == ReplicaState.UP


@pytest.mark.parametrize("server", captures())
def test_every_answer_is_recognised_by_what_it_says(server: Capture) -> None:
    """No path in the name: the content tells which one it is, and reading it gives the same settings."""
    for path, body in server.answers.items():
        if body.strip() == b"{}":
            continue  # says nothing, so nothing can be recognised
        fleet = fleet_of(("one.json", body))
        (probe,) = fleet.replicas[0].probes
        assert probe.path == path


def test_replicas_that_are_dropped_one_file_each_are_compared() -> None:
    other = LLAMA.answers[SERVER_INFO].replace(b'"block_size":16', b'"block_size":32')
    fleet = fleet_of(
        ("chat-1.json", LLAMA.answers[SERVER_INFO]),
        ("chat-2.json", LLAMA.answers[SERVER_INFO]),
        ("chat-3.json", capture("llama_noprefix").answers[SERVER_INFO]),
        ("chat-4.json", other),
    )

    assert [each.name for each in fleet.replicas] == ["chat-1", "chat-2", "chat-3", "chat-4"]
    (pool,) = fleet.pools
    assert len(pool.replicas) == 4
    assert "cache_config.enable_prefix_caching" in {each.path for each in pool.differences}


def test_data_counts_as_of_the_import_for_a_file_tells_no_time() -> None:
    fleet = fleet_of(("chat-1.json", LLAMA.answers[SERVER_INFO]))

    assert fleet.polled_at == AT
    assert fleet.name == "brought"
    assert all(each.fresh for each in fleet.replicas)


def test_answers_are_judged_under_the_policy_that_is_given() -> None:
    policy = Policy(rules={"RT-01": RuleChange(severity=Severity.INFO)})
    found = imported([File("a.json", LLAMA.answers[SERVER_INFO])], AT, "x", policy=policy, ignore=("a.*",))

    assert found.fleets[0][1].policy == policy
    assert found.fleets[0][1].ignored == ("a.*",)


@pytest.mark.parametrize("name", ["server_info.json", "SERVER_INFO.JSON", "server_info"])
def test_a_file_that_is_called_after_its_path_only_belongs_to_one_replica(name: str) -> None:
    fleet = fleet_of((name, LLAMA.answers[SERVER_INFO]), ("metrics.txt", LLAMA.answers[METRICS]))

    assert [(each.name, len(each.probes)) for each in fleet.replicas] == [("replica", 2)]


@pytest.mark.parametrize(
    ("name", "replica", "path"),
    [
        ("chat-1.inference.v1.config.json", "chat-1", INFERENCE_CONFIG),
        ("chat-1.inference_v1_config.json", "chat-1", INFERENCE_CONFIG),
        ("chat-1.v1.models.json", "chat-1", MODELS),
        ("chat-1.v1.config.json", "chat-1", "/v1/config"),
        ("chat-1.config.json", "chat-1", "/v1/config"),
        ("chat-1.server.config.json", "chat-1", "/v1/server/config"),
        ("chat-1.v1.server.kv-cache.json", "chat-1", "/v1/server/kv-cache"),
        ("chat-1.kv-cache.json", "chat-1", "/v1/server/kv-cache"),
        ("chat-1.server-info.json", "chat-1", SERVER_INFO),
        ("chat-1.kv_event_sources.json", "chat-1", "/kv_event_sources"),
        ("chat-1.plugins.vllm-server-introspection.config.json", "chat-1", "/plugins/vllm-server-introspection/config"),
        ("host1.example.com.metrics.txt", "host1.example.com", METRICS),
        ("10.0.0.5.metrics.txt.gz", "10.0.0.5", METRICS),
        ("v1.models.json", "replica", MODELS),
    ],
)
def test_a_name_is_the_replica_and_then_the_path_with_dots_for_slashes(name: str, replica: str, path: str) -> None:
    assert answer_of(name, b"") == (replica, path)


def test_answers_of_one_replica_stay_together_whichever_way_their_paths_are_written() -> None:
    """As two they would be reported as replicas that share one address."""
    fleet = fleet_of(
        ("chat-1.inference.v1.config.json", provider_body(LLAMA)),
        ("chat-1.server_info.json", LLAMA.answers[SERVER_INFO]),
        ("chat-1.metrics.txt", LLAMA.answers[METRICS]),
        ("chat-1.v1.models.json", LLAMA.answers[MODELS]),
    )

    assert [(each.name, len(each.probes)) for each in fleet.replicas] == [("chat-1", 4)]
    assert not {each.rule for each in fleet.inspection.findings} & {"ID-03", "ID-07"}


def test_a_name_without_a_path_goes_with_the_replica_that_it_continues() -> None:
    """Whatever the order of the files; where no other file names one, the whole name is the replica."""
    fleet = fleet_of(
        ("chat-1.monday.json", LLAMA.answers[SERVER_INFO]),
        ("chat-1.metrics.txt", LLAMA.answers[METRICS]),
        ("chat-10.monday.json", LLAMA.answers[SERVER_INFO]),
        ("10.0.0.5.json", LLAMA.answers[SERVER_INFO]),
    )

    assert {each.name: len(each.probes) for each in fleet.replicas} == {
        "chat-1": 2,
        "chat-10.monday": 1,
        "10.0.0.5": 1,
    }


def test_one_process_under_two_names_is_told_as_one_and_never_as_a_shared_address() -> None:
    """The id that it made for itself at start is in both answers."""
    told = json.loads(LLAMA.answers[SERVER_INFO])
    told["vllm_config"]["kv_events_config"] = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "topic": "kv@10.20.0.11@./llama",
    }
    one = json.dumps(told).encode()
    told["vllm_config"]["instance_id"] = "another"
    apart = json.dumps(told).encode()

    same = fleet_of(("chat-1.json", one), ("also-chat-1.json", one))
    two = fleet_of(("chat-1.json", one), ("chat-2.json", apart))

    assert "ID-07" in {each.rule for each in same.inspection.findings}
    assert not [each for each in same.inspection.findings if each.severity is Severity.CRITICAL]
    assert "ID-03" in {each.rule for each in two.inspection.findings}, "else the topic of the one would prove nothing"


def test_a_compressed_answer_is_read() -> None:
    fleet = fleet_of(("chat-1.server_info.json.gz", gzip.compress(LLAMA.answers[SERVER_INFO])))

    assert fleet.replicas[0].name == "chat-1"


def test_our_providers_answer_is_taken_for_it() -> None:
    fleet = fleet_of(("chat-1.json", provider_body(LLAMA)))

    assert fleet.replicas[0].sources[0] == "provider"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "It is empty"),
        (b" \n", "It is empty"),
        (b"<!doctype html><title>502</title>", "web page or XML"),
        (zipped(), "ZIP archive; unpack it"),
        (gzip.compress(gzip.compress(b"{}")), "compressed twice"),
        (gzip.compress(b"{}")[:-9], "ends in the middle"),
        (b"\x1f\x8bnonsense", "no whole gzip file"),
        (b"hello", "neither JSON nor a page of /metrics"),
        (b"\xff\xfe{\x00}\x00", "neither JSON nor a page of /metrics"),
        (b'{"vllm_config": "\xff"}', "no complete UTF-8 JSON"),
        (b'{"vllm_config": ', "no complete UTF-8 JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[]", "neither a saved fleet nor an answer"),
        (b"{}", "neither a saved fleet nor an answer"),
        (b'{"hello": "world"}', "chat-1.server_info.json"),
        (b'{"vllm_config": "model=llama"}', "save that of /server_info?config_format=json"),
        (b'{"vllm_config": 3}', "another shape"),
        (b'{"vllm_config": {"cache_config": NaN}}', "NaN"),
        (b'{"schema_version": 2, "replicas": []}', "--full"),
        (b'{"schema_version": 1, "replicas": []}', "schema version 1"),
        (b'{"data": 3}', "another shape"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_it_is_and_what_to_do(content: bytes, words: str) -> None:
    said = why(content)

    assert words in said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_bomb_is_unpacked_no_further_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 2**20)

    assert "holds more than the 1 MiB" in why(gzip.compress(bytes(2**27)))
    assert "holds more than the 1 MiB" in why(b" " * (2**20 + 1))


def test_the_good_files_are_used_beside_the_bad_ones() -> None:
    found = drop(
        ("a.json", b"nonsense"), ("chat-1.json", LLAMA.answers[SERVER_INFO]), ("b.json", b"<html>"), ("c.json", b"{}")
    )

    assert [refused.name for refused in found.refused] == ["a.json", "b.json", "c.json"]
    assert [each.name for each in found.fleets[0][1].replicas] == ["chat-1"]


def test_an_answer_that_cannot_be_read_makes_its_replica_read_in_part() -> None:
    """The other answers stand, and the page says why one is missing."""
    found = drop(("chat-1.server_info.json", LLAMA.answers[SERVER_INFO]), ("chat-1.metrics.txt", b"no metrics"))

    (replica,) = found.fleets[0][1].replicas
    assert replica.state == ReplicaState.PARTIAL
    assert replica.failure is not None
    assert "vllm:" in replica.failure.detail
    assert found.refused[0].name == "chat-1.metrics.txt"


def test_the_same_answer_twice_is_used_once_and_says_how_to_name_files() -> None:
    found = drop(("server_info.json", LLAMA.answers[SERVER_INFO]), ("server_info.json", b"{}"))

    assert len(found.fleets[0][1].replicas) == 1
    assert "chat-1.server_info.json" in found.refused[0].why


def test_no_more_files_and_bytes_than_the_limits_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from dashboard.importing import fleets

    monkeypatch.setattr(fleets, "MAX_FILES", 3)
    found = drop(*[(f"chat-{number}.json", LLAMA.answers[SERVER_INFO]) for number in range(9)])
    assert len(found.fleets[0][1].replicas) == 3
    assert "Only 3 files" in found.refused[0].why

    monkeypatch.setattr(fleets, "MAX_TOTAL_BYTES", 3 * len(LLAMA.answers[SERVER_INFO]) // 2)
    found = drop(*[(f"chat-{number}.json", LLAMA.answers[SERVER_INFO]) for number in range(2)])
    assert len(found.fleets[0][1].replicas) == 1
    assert "import it by itself" in found.refused[0].why


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


def test_nothing_dropped_makes_nothing() -> None:
    assert drop() == Imported((), ())


@given(st.binary(max_size=200), st.text(max_size=20))
def test_no_bytes_under_any_name_raise(content: bytes, name: str) -> None:
    found = drop((name, content))

    assert len(found.fleets) + len(found.refused) == 1


@given(st.sampled_from(sorted(KINDS)), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_no_json_under_the_name_of_any_path_raises(kind: str, content: object) -> None:
    found = drop((f"chat-1.{kind}.json", json.dumps(content).encode()))

    assert len(found.fleets) + len(found.refused) >= 1


@given(st.data())
def test_a_saved_fleet_with_anything_in_it_raises_nothing(data: st.DataObject) -> None:
    """One value anywhere in the file is something else."""
    document = json.loads(SAVED)
    place, key = document, ""
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(st.none() | st.integers() | st.text(max_size=5) | st.just({}) | st.just([]))

    found = drop(("x.json", json.dumps(document).encode()))

    assert len(found.fleets) + len(found.refused) == 1


SAVED = saved(built_of_captures(LLAMA))
