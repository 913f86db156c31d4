"""`check`: the exit codes for CI, and the reason in the last line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.demo import DemoServer, default_fleet, in_thread
from dashboard.rules.catalogue import ALL_RULES
from tests.builders import story
from tests.commands import BLOCK_SIZE_FAILS, assert_wrong_usage, demo_targets, last_line, run
from tests.saved_fleets import saved
from tests.serving import free_port

pytestmark = pytest.mark.usefixtures("working_folder")

FEW = 4  # the fourth cuts blocks of 32 tokens, the others of 16
WHERE = {"rule": "RT-01", "pool": "chat-70b", "owner": "ann", "reason": "a trial"}
FUTURE, PAST = "2999-12-31", "2020-01-31"


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(FEW)) as server:
        yield server


def written(folder: Path, demo: DemoServer | None, **more: Any) -> str:
    """Write fleet.yaml with the demo's replicas and their router, and RT-01 as the only enabled rule."""
    off = {rule.id: {"enabled": False} for rule in ALL_RULES if rule.id != "RT-01"}
    options = {
        "name": "mine",
        "targets": demo_targets(demo) if demo else [],
        "pools": {"*": {"router": "kv-events"}},
        **more,
        "rules": {**off, **more.get("rules", {})},
    }
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(options))
    return str(file)


def test_a_finding_at_the_level_fails_with_1_and_is_in_the_last_line(tmp_path: Path, demo: DemoServer) -> None:
    done = run("check", "--config", written(tmp_path, demo))

    assert done.exit_code == 1
    assert last_line(done) == BLOCK_SIZE_FAILS
    assert "✖ critical  RT-01 block-size-differs in chat-70b  [B x1 (chat-70b-04)]" in done.stdout
    assert "--block-size 16" in done.stdout
    assert "exit" not in done.stdout


def test_the_table_ends_with_a_summary_and_brief_has_nothing_else(tmp_path: Path, demo: DemoServer) -> None:
    config = written(tmp_path, demo)
    whole, brief = run("check", "--config", config), run("check", "--config", config, "--brief")

    line = "    ✖ critical  RT-01 block-size-differs in chat-70b\n"
    assert f"Summary:\n{line}\n" in whole.stdout
    assert f"Summary:\n{line}\n" in brief.stdout
    assert "--block-size" not in brief.stdout
    assert (brief.exit_code, last_line(brief)) == (1, BLOCK_SIZE_FAILS)


def test_a_suppressed_finding_passes_and_is_counted(tmp_path: Path, demo: DemoServer) -> None:
    done = run("check", "--config", written(tmp_path, demo, suppress=[{**WHERE, "until": FUTURE}]))

    assert done.exit_code == 0
    assert last_line(done) == "exit 0: no findings; 4 of 4 answered; --fail-on critical."
    assert "suppressed until 2999-12-31 by ann: a trial" in done.stdout
    assert "4 of 4 answered · 1 suppressed." in done.stdout


def test_an_expired_suppression_fails_with_its_date(tmp_path: Path, demo: DemoServer) -> None:
    done = run("check", "--config", written(tmp_path, demo, suppress=[{**WHERE, "until": PAST}]))

    assert done.exit_code == 1
    assert "(RT-01 in chat-70b, suppression expired on 2020-01-31)" in last_line(done)
    assert "Suppression by ann expired on 2020-01-31 (a trial)." in done.stdout


def test_an_unreachable_replica_fails_with_3_above_min_coverage() -> None:
    missing = f"127.0.0.1:{free_port()}"
    done = run("check", missing)

    assert done.exit_code == 3
    assert last_line(done).startswith(
        f"exit 3: only 0 of 1 answered, below --min-coverage 100% (unreachable: {missing}); otherwise no findings"
    )
    assert run("check", missing, "--min-coverage", "0", "--fail-on", "never").exit_code == 0


def test_an_unreadable_list_of_targets_fails_with_3(tmp_path: Path, demo: DemoServer) -> None:
    (tmp_path / "lost.json").write_text("{")
    config = written(tmp_path, demo, file_sd=[{"files": ["lost.json"]}], rules={"RT-01": {"enabled": False}})
    done = run("check", "--config", config)

    assert done.exit_code == 3
    assert last_line(done).startswith("exit 3: 1 target list could not be read (")
    assert "lost.json" in last_line(done)


@pytest.mark.parametrize("command", ["check", "poll", "plan", "report", "baseline chat"])
def test_where_no_list_of_targets_can_be_read_the_last_line_has_the_reason_once(tmp_path: Path, command: str) -> None:
    """Options that match no pool are not reported: no pool is known."""
    config = written(tmp_path, None, http_sd=[{"url": f"http://127.0.0.1:{free_port()}/"}], pools={"chat": {}})
    done = run(*command.split(), "--config", config)

    assert done.exit_code == 3
    assert last_line(done).startswith("exit 3: no target list could be read (")
    assert done.stderr.count("refused the connection") == 1
    assert "no targets" not in done.stderr.lower()
    assert "matches no pool" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["check", "poll"])
def test_each_router_that_cannot_be_read_is_one_line_on_standard_error(
    tmp_path: Path, demo: DemoServer, command: str
) -> None:
    lost = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    routers = [{"kind": "production-stack", "url": url, "pools": ["chat-70b"]} for url in lost]
    routers.append({"kind": "llm-d", "config_file": "lost.yaml", "pools": ["chat-70b"]})
    lines = run(command, "--config", written(tmp_path, demo, routers=routers)).stderr.splitlines()
    found = [line for line in lines if line.startswith("Router ")]

    assert len(found) == 3
    for url, line in zip(lost, found, strict=False):
        assert line.startswith(f"Router {url}: ")
        assert line.count("refused the connection") == 1
    assert found[2].count("lost.yaml") == 2, "its name, and the file in the reason"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--fail-on", "fatal"], "'fatal' is not one of"),
        (["--min-coverage", "101"], "--min-coverage"),
        (["--format", "xml"], "'xml' is not one of"),
        (["not a url"], "not a url"),
        (["--snapshot", "nowhere.json"], "--snapshot nowhere.json: No such file or directory; name a file of `poll "),
        (["ftp://gpu-7"], "a scheme other than http and https; write http://host:port."),
        (["--snapshot", "fleet.json", "host:8000"], "cannot be combined with addresses"),
        (["--snapshot"], "'--snapshot' requires an argument"),
        (["--min-coverage", "high"], "--min-coverage: expected a number such as 100."),
        (["--history", "sqlite:///history.db"], "--history needs --since, or a --snapshot of the history"),
        (["--brief", "--format", "json"], "--brief cannot be combined with --format json"),
        (["--zzz"], "no such option: --zzz. See `root check --help`."),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], why: str) -> None:
    done = run("check", *arguments)

    assert_wrong_usage(done, why)
    assert "Value error" not in done.stderr


def test_sentences_about_the_options_name_their_file(tmp_path: Path) -> None:
    entry = {**WHERE, "pool": "nowhere", "until": FUTURE}
    (tmp_path / "n.yaml").write_text(yaml.safe_dump({"suppress": [entry], "pools": {"lost": {"router": "none"}}}))
    done = run("check", "--config", "n.yaml")

    assert "suppress[0] in n.yaml (RT-01, ann) matches no finding; remove it." in done.stdout
    assert "pools.lost in n.yaml matches no pool; correct or remove it." in done.stdout
    assert "No targets: name addresses, list them in n.yaml, or use --config FILE" in done.stderr
    assert "fleet.yaml" not in done.stdout + done.stderr


def test_another_file_in_place_of_a_snapshot_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_bytes(b"PK\x03\x04")

    assert_wrong_usage(
        run("check", "--snapshot", "saved.json"), "--snapshot saved.json: It is a ZIP archive; unpack it "
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_saved_poll_is_read_in_the_encodings_that_windows_writes(tmp_path: Path, encoding: str) -> None:
    """PowerShell's > writes UTF-16, and editors a byte order mark before UTF-8."""
    text = saved(story()).decode()
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "plain.json").write_text(text)
    (tmp_path / "saved.json").write_bytes(f"{mark}{text}".encode(encoding))
    done, plain = (run("check", "--snapshot", file) for file in ("saved.json", "plain.json"))

    assert (done.exit_code, done.output) == (plain.exit_code, plain.output)
    assert plain.exit_code != 2


def test_a_saved_poll_has_the_same_findings_without_polling(tmp_path: Path) -> None:
    """The simulated fleet has stopped when the file is checked."""
    with in_thread(default_fleet(FEW)) as server:
        config = written(tmp_path, server)
        polled = json.loads(run("check", "--config", config, "--format", "json").stdout)
        (tmp_path / "saved.json").write_text(run("poll", "--config", config, "--format", "json", "--full").stdout)
    saved = run("check", "--config", config, "--snapshot", "saved.json", "--format", "json")
    piped = run("check", "--config", config, "--snapshot", "-", stdin=(tmp_path / "saved.json").read_bytes())
    again = json.loads(saved.stdout)

    assert saved.exit_code == piped.exit_code == 1
    assert last_line(piped) == BLOCK_SIZE_FAILS
    assert polled["findings"]
    for part in ("fleet", "coverage", "findings", "suppressed", "outcomes", "pools", "notes"):
        assert again[part] == polled[part]


def test_where_no_options_say_otherwise_a_saved_poll_is_judged_by_those_it_was_saved_with(
    tmp_path: Path, demo: DemoServer
) -> None:
    config = written(tmp_path, demo, suppress=[{**WHERE, "until": FUTURE}])
    (tmp_path / "saved.json").write_text(run("poll", "--config", config, "--format", "json", "--full").stdout)
    (tmp_path / "fleet.yaml").unlink()
    own = run("check", "--snapshot", "saved.json")
    other = run("check", "--config", written(tmp_path, None), "--snapshot", "saved.json")

    assert "Evaluated with the options saved in the snapshot." in own.stderr
    assert own.exit_code == 0
    assert "not with the options saved in the snapshot." in other.stderr
    assert last_line(other) == BLOCK_SIZE_FAILS


def test_sarif_names_the_options_file_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(*arguments: str) -> str:
        run_of = json.loads(run("check", "--snapshot", str(saved), "--format", "sarif", *arguments).stdout)["runs"][0]
        return str(run_of["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])

    saved = tmp_path / "saved.json"
    with in_thread(default_fleet(FEW)) as server:
        saved.write_text(run("poll", "--config", written(tmp_path, server), "--format", "json", "--full").stdout)
    (tmp_path / "ci").mkdir()
    mine = written(tmp_path / "ci", None)

    assert named("--config", mine) == "ci/fleet.yaml"
    monkeypatch.setenv("FLEET_CONFIG", mine)
    assert named() == "ci/fleet.yaml"
    monkeypatch.chdir(tmp_path / "ci")
    assert named("--config", str(tmp_path / "fleet.yaml")) == "fleet.yaml"
