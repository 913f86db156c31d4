"""`diff`, `check --since` and `report --since` read the history: a database, or the API of a dashboard."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dashboard import service
from dashboard.access.gate import Gate
from dashboard.config import load_options
from dashboard.config.access import AccessOptions
from dashboard.demo import default_fleet, in_thread
from dashboard.fleet import Replica
from dashboard.render.export import CheckFormat
from dashboard.rules.catalogue import ALL_RULES, RULE_SET
from dashboard.service import utc_now
from dashboard.sources.discovery import discover_once
from dashboard.store.history.recording import Recorder
from dashboard.web import server
from tests.access.test_gate import PROXIED, TOKEN, entry
from tests.analysis.changes.sides import NEW, OLD, chat, fleet
from tests.builders import alike, down
from tests.commands import BLOCK_SIZE_FAILS, assert_wrong_usage, demo_targets, last_line, run
from tests.past_fleets import FIRST, LAST, ODD, fleet_at, recorded, show_with_history
from tests.saved_fleets import saved
from tests.serving import free_port, wait_for
from tests.store.history.recorded import Recorded, later

pytestmark = pytest.mark.few(3)
NINE, TEN, ELEVEN = (f"2026-03-02T{hour}:00Z" for hour in ("09", "10", "11"))
MINUTE = timedelta(minutes=1)
GAP = "No poll was recorded between 2026-03-02T10:42:05Z and 2026-03-02T11:42:05Z: the fleet may have changed."
FORMS = (
    "No such file or directory; name a file of `poll --format json --full` or an export, the id of a saved snapshot, "
    "a time (2026-11-22T14:00Z)"
)
FEW = 4  # the fourth cuts blocks of 32 tokens, the others of 16


@contextmanager
def serving(routes: list[Route], middleware: Sequence[Middleware] = ()) -> Iterator[str]:
    """Serve the routes of a dashboard from this process."""
    port, app = free_port(), Starlette(routes=routes, middleware=middleware)
    running = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: running.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()


@pytest.fixture(params=["database", "options", "api"])
def source(request: pytest.FixtureRequest, working_folder: Path) -> Iterator[list[str]]:
    """The arguments of a command that name the history: none where it is that of the options."""
    (working_folder / "fleet.yaml").write_text("name: prod-eu\n")
    if request.param == "api":
        show_with_history(working_folder)
        with serving(server.routes()) as url:
            yield ["--history", f"{url}/"]
        service.stop()
    elif request.param == "options":
        (working_folder / "data").mkdir()
        recorded(working_folder / "data")
        yield []
    else:
        recorded(working_folder)
        yield ["--history", "sqlite:///history.db"]


def test_a_dashboard_with_sign_in_answers_with_a_token(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (working_folder / "fleet.yaml").write_text("name: prod-eu\n")
    show_with_history(working_folder)
    access = AccessOptions.model_validate({**PROXIED, "tokens": [entry()]})
    monkeypatch.setenv("FLEET_TOKEN", TOKEN)
    monkeypatch.setenv("OTHER_TOKEN", "fleet_other")
    with serving(server.routes(), [Middleware(Gate, lambda: access, "0.0.0.0")]) as url:
        arguments = ["diff", NINE, TEN, "--history", url]
        with_token = run(*arguments, "--token-env", "FLEET_TOKEN")
        without, other = run(*arguments), run(*arguments, "--token-env", "OTHER_TOKEN")
    service.stop()

    assert with_token.exit_code == 1
    assert "block_size 16 -> 32" in last_line(with_token)
    assert last_line(without).endswith("with a token of access.tokens. Use --token-env.")
    assert f"{url}: Unauthorized: the token is unknown. Set another one " in last_line(other)
    assert (without.exit_code, other.exit_code) == (2, 2)


@pytest.mark.usefixtures("working_folder")
def test_a_token_needs_a_variable_that_has_one_and_a_dashboard_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    url = ["--history", "http://127.0.0.1:9"]

    assert_wrong_usage(run("diff", NINE, TEN, *url, "--token-env", "FLEET_TOKEN"), "the variable FLEET_TOKEN")
    monkeypatch.setenv("FLEET_TOKEN", TOKEN)
    assert_wrong_usage(run("diff", NINE, TEN, "--token-env", "FLEET_TOKEN"), "--token-env needs --history")


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ((NINE, TEN), ["block_size 16 -> 32"]),
        (("2026-03-02 10:00", "live"), ["1 finding fixed", "block_size 32 -> 16"]),  # live is the newest recorded poll
    ],
)
def test_diff_compares_times_of_the_history(source: list[str], sides: tuple[str, str], found: list[str]) -> None:
    """Nothing is polled: the options have no targets."""
    done = run("diff", *sides, *source)

    assert done.exit_code == 1
    assert [each for each in found if each not in last_line(done)] == []


@pytest.mark.parametrize("fixed", [["diff", NINE, ELEVEN], ["diff", ELEVEN, NINE], ["diff", NINE, "live"]])
def test_the_document_of_changes_has_what_changed_back(source: list[str], fixed: list[str]) -> None:
    """chat-04 has another block size at 10:00 only."""
    done = run(*fixed, "--format", "json", *source)
    found = json.loads(done.stdout)["between"]

    kinds = [each["kind"] for each in found["events"]]
    assert kinds == ["restarted", "finding began", "added", "restarted", "finding ended", "gap"]
    there, began, _, back, *_ = found["events"]
    assert (began["rule"], began["pools"], began["now"]) == ("RT-01", ["chat"], "critical")
    assert (began["at"], began["after"]) == ("2026-03-02T09:42:05Z", "2026-03-02T08:42:05Z")
    assert there["replicas"] == back["replicas"] == [{"replica": "http://chat-04:8000", "name": "chat-04"}]
    assert there["changes"][0]["before"] == back["changes"][0]["after"]


@pytest.mark.parametrize(
    ("command", "heading"),
    [
        (["diff", NINE, ELEVEN], "Events"),
        (["report", "--snapshot", ELEVEN, "--since", NINE, "--format", "markdown"], "Events"),
        (["report", "--snapshot", ELEVEN, "--since", "2h", "--format", "html"], "Events"),
    ],
)
def test_a_finding_that_began_and_ended_is_listed(source: list[str], command: list[str], heading: str) -> None:
    done = run(*command, *source)
    text = done.stdout.partition(heading)[2]

    assert "Finding began" in text
    assert "Finding ended" in text
    assert "in between" in (done.stderr if command[0] == "diff" else done.stdout)


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize(("arguments", "kinds"), [([], ["restarted"]), (["--pool", "chat"], [])])
def test_only_events_of_the_chosen_pool_are_listed(arguments: list[str], kinds: list[str]) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    history = Recorded(Path())
    for number in range(2):
        embed = alike("embed", 2, OLD, started_at=ODD + number * MINUTE)
        history.record(fleet(*chat(2), *embed, polled_at=ODD + number * MINUTE))
    history.writer.close()
    done = run(
        "diff", "2026-03-02T09:42:30Z", "live", *arguments, "--history", "sqlite:///history.db", "--format", "json"
    )

    found = json.loads(done.stdout)["between"]["events"]
    assert [each["kind"] for each in found if each["kind"] != "gap"] == kinds


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize("sides", [("before.json", "other.json"), ("other.json", "live"), (NINE, "other.json")])
def test_a_saved_fleet_of_another_name_has_no_list(sides: tuple[str, str]) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    recorded(Path())
    for file, time in (("before.json", FIRST), ("other.json", LAST)):
        Path(file).write_bytes(saved(replace(fleet_at(time), name="other")))
    done = run("diff", *sides, "--format", "json", "--history", "sqlite:///history.db")

    assert json.loads(done.stdout)["between"] is None


def test_a_time_in_a_gap_is_named(source: list[str]) -> None:
    assert GAP in run("diff", ELEVEN, "live", *source).stderr


def test_a_saved_fleet_is_compared_with_a_time(source: list[str]) -> None:
    Path("now.json").write_bytes(saved(fleet_at(LAST)))

    assert run("diff", ELEVEN, "now.json", *source).exit_code == 0
    assert run("diff", TEN, "now.json", *source).exit_code == 1


def test_what_came_within_the_period_fails_and_what_was_there_before_does_not(source: list[str]) -> None:
    new = run("check", "--snapshot", TEN, "--since", "30m", "--fail-on", "warning", *source)

    assert new.exit_code == 1
    assert last_line(new).startswith("exit 1: 1 critical finding (RT-01 in chat)")
    assert "CO-14" not in new.stdout
    assert "1 finding left out: there before 2026-03-02T09:12:05Z." in new.stderr


def test_what_is_left_out_is_in_every_format(source: list[str]) -> None:
    sentence = "1 finding left out: there before 2026-03-02T09:12:05Z."
    given = ["check", "--snapshot", TEN, "--since", "30m", *source]
    shown = {each: run(*given, "--format", each).stdout for each in get_args(CheckFormat)}

    assert json.loads(shown["json"])["left_out"] == sentence
    assert [each for each in shown if sentence not in " ".join(shown[each].split())] == []
    assert "left out" not in run("check", "--snapshot", TEN, *source).stdout


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([*chat(1, NEW, first=4), *chat(1, NEW, first=5)], 1),
        ([*chat(1, first=4), *chat(1, NEW, first=5)], 0),  # one was mended, another one has it
        ([*chat(1, NEW, first=4), *chat(2, first=5)], 0),  # the pool is larger
        ([*chat(1, NEW, first=4), *chat(1, NEW, first=5, version="0.32.1", started_at=ODD)], 0),  # a rollout
    ],
)
def test_a_known_finding_that_spread_since_fails(members: list[Replica], code: int) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    history = Recorded(Path())
    for number in range(3):
        history.record(later(fleet_at(ODD), number * MINUTE))
    history.writer.close()
    now = fleet(*chat(3), *members, polled_at=ODD + 3 * MINUTE)
    Path("now.json").write_bytes(saved(now))
    done = run("check", "--snapshot", "now.json", "--since", "2m", "--history", "sqlite:///history.db")

    assert done.exit_code == code, done.stderr
    assert ("RT-01 in chat" in last_line(done)) == (code == 1)
    spread = "1 finding is not new, but on more replicas than at 2026-03-02T09:43:05Z."
    assert (spread in " ".join(done.stdout.split())) == (code == 1)


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize(("coverage", "code"), [("100", 3), ("50", 0)])
def test_a_replica_that_was_down_before_still_counts_as_missing(coverage: str, code: int) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    known = fleet(*chat(3), down("gone"), polled_at=ODD)
    history = Recorded(Path())
    for number in range(3):
        history.record(later(known, number * MINUTE))
    history.writer.close()
    Path("now.json").write_bytes(saved(replace(known, polled_at=ODD + 3 * MINUTE)))
    options = ("--since", "2m", "--history", "sqlite:///history.db", "--min-coverage", coverage)
    done = run("check", "--snapshot", "now.json", *options)

    assert done.exit_code == code, done.stderr
    assert "left out: there before" in done.stderr


def test_a_period_without_new_findings_passes(source: list[str]) -> None:
    done = run("check", "--snapshot", ELEVEN, "--since", TEN, "--fail-on", "warning", *source)

    assert done.exit_code == 0, done.stderr
    assert last_line(done).startswith("exit 0: no new findings; 5 of 5 answered")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["diff", "2026-03-02T08:00Z", "live"], "exit 2: The history has no poll at 2026-03-02T08:00:00Z or before; "),
        (["diff", "2999-01-01", "live"], "exit 2: 2999-01-01T00:00Z is in the future."),
        (["check", "--snapshot", TEN, "--since", "7d"], "exit 2: The history has no poll at 2026-02-23T09:42:05Z or b"),
        (
            ["check", "--snapshot", ELEVEN, "--since", ELEVEN],
            "exit 2: The history has no poll since 2026-03-02T11:00:00Z.",
        ),
        (
            ["report", "--snapshot", TEN, "--since", "7d"],
            "exit 2: The history has no poll at 2026-02-23T09:42:05Z or b",
        ),
    ],
)
def test_a_range_that_the_history_does_not_cover_ends_with_2(source: list[str], arguments: list[str], why: str) -> None:
    done = run(*arguments, *source)

    assert done.exit_code == 2
    assert last_line(done).startswith(why)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["diff", "2026-99-01", "live"], "2026-99-01: not a time; write 2026-11-22T14:00Z."),
        (["check", "--snapshot", TEN, "--since", "yesterday"], "--since yesterday: not a period; write 24h"),
        (["check", "--snapshot", TEN, "--since", "2026-13-01"], "--since 2026-13-01: not a time; write"),
        (["check", "--since", "24h", "--baseline", "x.yaml"], "--since cannot be combined with --baseline"),
        (
            ["report", "--snapshot", TEN, "--since", "24x"],
            f"{FORMS} or a period (24h, 7d).",
        ),
        (
            ["diff", "yesterday", "live"],
            f"{FORMS} or live.",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(source: list[str], arguments: list[str], why: str) -> None:
    assert_wrong_usage(run(*arguments, *source), why)


@pytest.mark.parametrize("since", ["40m", NINE])
def test_a_report_has_what_changed_since(source: list[str], since: str) -> None:
    done = run("report", "--snapshot", TEN, "--since", since, "--format", "markdown", *source)

    assert done.exit_code == 0, done.stderr
    assert "New since 2026-03-02T09:0" in done.stdout
    assert "Compared with 2026-03-02T09:0" in done.stdout
    assert "block_size" in done.stdout.partition("New since")[2].partition("## Findings")[0]


@pytest.mark.usefixtures("working_folder")
def test_without_a_history_there_is_one_sentence() -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    for history, why in {
        "sqlite:///none.db": "There is no history none.db: a dashboard records it while it polls.",
        "sqlite:////nowhere/none.db": "while it polls. Its folder /nowhere does not exist.",
        "mysql://db/fleet": "The URL of the history",
        "foo": "write sqlite:///history.db or postgresql://host/name, for --history also http://host:8501 of a",
        "http://127.0.0.1:1": "127.0.0.1:1",
    }.items():
        done = run("diff", TEN, "live", "--history", history)
        assert done.exit_code == 2
        assert why in last_line(done)
    assert "There is no history history.db" in last_line(run("diff", TEN, "live"))


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize("body", ["<html>", '{"a": 1}', "[]", "null"])
def test_another_server_is_no_dashboard(body: str) -> None:
    Path("fleet.yaml").write_text("name: prod-eu\n")
    with serving([Route("/api/v1/{name}", lambda _: PlainTextResponse(body))]) as url:
        done = run("diff", TEN, "live", "--history", url)

    assert done.exit_code == 2
    assert "is no dashboard of this version" in last_line(done)


def test_a_check_of_polled_replicas_fails_on_the_new_finding_alone(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last replica came after the last recorded poll, with another block size."""
    off = {rule.id: {"enabled": False} for rule in ALL_RULES if rule.id != "RT-01"}
    with in_thread(default_fleet(FEW)) as demo:
        entries = demo_targets(demo)
        pools = {"*": {"router": "kv-events"}}
        written = {"name": "mine", "rules": off, "pools": pools, "history": {"enabled": True}, "targets": entries}
        file = working_folder / "fleet.yaml"
        file.write_text(yaml.safe_dump({**written, "targets": entries[:-1]}))
        before = service.poll_once(load_options(file), discover_once(load_options(file)))
        recorder = Recorder(load_options(file))
        for age in (timedelta(hours=2), timedelta(seconds=1)):
            polled_at = utc_now() - age
            recorder.record(replace(before, polled_at=polled_at), polled_at + timedelta(hours=3))
        recorder.close()
        file.write_text(yaml.safe_dump(written))

        new = run("check", "--since", "1h")
        monkeypatch.setattr("dashboard.cli.check.RULE_SET", RULE_SET + 1)
        first_evaluated = run("check", "--since", "1h")

    assert (new.exit_code, last_line(new)) == (1, BLOCK_SIZE_FAILS)
    assert first_evaluated.exit_code == 0, "a newer rule set makes no new problem"
    assert "1 finding left out: there before" in first_evaluated.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--since", "30m"],
        ["report", "--since", "1h", "--format", "markdown"],
        ["report", "--since", TEN, "--format", "markdown"],
    ],
)
def test_the_history_of_another_fleet_decides_nothing(
    working_folder: Path, source: list[str], command: list[str]
) -> None:
    (working_folder / "fleet.yaml").write_text("name: other\n")
    (working_folder / "now.json").write_bytes(saved(replace(fleet_at(LAST), name="other")))
    done = run(*command, "--snapshot", "now.json", *source)

    assert (done.exit_code, done.stdout) == (2, "")
    assert last_line(done) == "exit 2: The history is that of prod-eu, not of other; correct name or FLEET_NAME."
