"""`check` and `poll` with --traffic: two reads, and the rates of the time between them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard import poll_fleet
from dashboard.errors import OptionsError
from tests.commands import assert_wrong_usage, last_line, run
from tests.docs_pages import code_blocks, docs_page
from tests.sources.polling.hostile import Exchange, HostileServer
from tests.test_api import printed_by

PAGE = (Path(__file__).parent / "traffic" / "0.33.0" / "llama" / "first.txt").read_text()
A_READ = {"prefix_cache_queries": 20_000, "prefix_cache_hits": 15_000, "prompt_tokens": 20_000, "request_success": 50}

pytestmark = pytest.mark.usefixtures("working_folder")


def page_after(reads: int) -> bytes:
    """The page of a server that serves 50 requests between two reads, and finds 75% of their tokens."""
    page = PAGE
    for name, more in A_READ.items():
        sample = re.search(rf"^(vllm:{name}_total{{.*}}) ([\d.e+]+)$", page, re.MULTILINE)
        assert sample
        page = page.replace(sample[0], f"{sample[1]} {float(sample[2]) + reads * more}")
    return page.encode()


def without_hits(reads: int) -> bytes:
    """The page of a server with the same requests that finds none of their tokens."""
    return page_after(reads).replace(f"{float(1536 + reads * A_READ['prefix_cache_hits'])}".encode(), b"1536.0")


@pytest.fixture
def busy() -> Iterator[HostileServer]:
    with HostileServer() as server:
        server.replica("a")

        async def counted(exchange: Exchange) -> None:
            await exchange.reply(page_after(server.paths("a").count("/metrics")))

        server.routes["/a/metrics"] = counted
        yield server


def test_with_traffic_every_replica_is_read_twice_and_has_the_rates_of_the_time_between(busy: HostileServer) -> None:
    done = run("poll", f"{busy.address}/a", "--traffic", "1s", "--format", "json")
    (engine,) = json.loads(done.stdout)["traffic"]

    assert busy.paths("a").count("/metrics") == 2
    assert (engine["queries"], engine["requests"], engine["prefix_hit_rate"]) == (20_000, 50, 0.75)
    assert 1 <= engine["window_seconds"] < 5
    assert "Polling again in 1s." in done.stderr.splitlines(), "a log shows why nothing moves"


def test_without_it_a_replica_is_read_once_and_has_no_rates(busy: HostileServer) -> None:
    done = run("poll", f"{busy.address}/a", "--format", "json")

    assert busy.paths("a").count("/metrics") == 1
    assert json.loads(done.stdout)["traffic"] == []
    assert "Polling again" not in done.stderr


def test_poll_prints_the_hit_rate_of_each_replica_pool_and_cohort(busy: HostileServer) -> None:
    addresses = [f"{busy.address}/a", "127.0.0.1:1"]
    twice, once = (run("poll", *addresses, *more).stdout for more in (("--traffic", "1s"), ()))
    replicas = twice.partition("Replicas:")[2].partition("Prefix hit rate")[0]

    assert replicas.count("75%") == 1
    assert "not read twice" not in replicas, "that one refused the connection"
    assert "Prefix hit rate 75% (15.0 k of 20.0 k prompt tokens in 1 s)." in twice
    assert "rate" not in once


def test_check_keeps_its_exit_codes(busy: HostileServer) -> None:
    done = run("check", f"{busy.address}/a", "--traffic", "1s")

    assert done.exit_code == 0
    assert last_line(done) == "exit 0: no findings; 1 of 1 answered; --fail-on critical."


def test_check_evaluates_the_rules_on_traffic_with_it_and_skips_them_with_a_reason_without(busy: HostileServer) -> None:
    busy.replica("b")
    busy.replica("c")
    for name, page in (("b", page_after), ("c", without_hits)):

        async def counted(exchange: Exchange, name: str = name, page: Callable[[int], bytes] = page) -> None:
            await exchange.reply(page(busy.paths(name).count("/metrics")))

        busy.routes[f"/{name}/metrics"] = counted
    addresses = [f"{busy.address}/{each}" for each in "abc"]
    twice, once = (
        json.loads(run("check", *addresses, *more, "--format", "json").stdout) for more in (("--traffic", "1s"), ())
    )

    (low,) = (each for each in twice["findings"] if each["rule"] == "EF-01")
    assert [each["replica"] for each in low["replicas"]] == [f"{busy.address}/c"]
    assert low["effect"][0]["rest"]["prefix_hit_rate"] == 0.75
    assert {each["rule"] for each in once["findings"]} == {each["rule"] for each in twice["findings"]} - {"EF-01"}
    (skipped,) = (each for each in once["outcomes"] if each["rule"] == "EF-01")
    assert skipped["kind"] == "skipped"
    assert skipped["reason"].startswith("No counters were read twice.")


def test_all_replicas_have_about_the_same_window(busy: HostileServer) -> None:
    """A poll of the dashboard is spread over seconds: of a short time these would be a large part."""
    for number in range(20):
        busy.replica(f"r{number}")
    done = run("poll", *(f"{busy.address}/r{each}" for each in range(20)), "--traffic", "1s", "--format", "json")
    windows = [each["window_seconds"] for each in json.loads(done.stdout)["traffic"]]

    assert len(windows) == 20
    assert max(windows) - min(windows) < 1


@pytest.mark.parametrize(
    ("command", "shown"), [("plan", "No findings: nothing to fix"), ("report --format markdown", "Prefix hit rate")]
)
def test_plan_and_report_read_twice_too(busy: HostileServer, command: str, shown: str) -> None:
    done = run(*command.split(), f"{busy.address}/a", "--traffic", "1s")

    assert (done.exit_code, busy.paths("a").count("/metrics")) == (0, 2)
    assert shown in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--traffic", "60"], "--traffic 60: not a period; write 60s or 5m."),
        (["--traffic", "0s"], "--traffic 0s: shorter than 1s."),
        (["--traffic", ""], "--traffic : not a period; write 60s or 5m."),
        (["--traffic", "2d"], "--traffic 2d: longer than a day; write 60s or 5m."),
        (["--traffic", "60s", "--snapshot", "fleet.json"], "--snapshot cannot be combined with --traffic."),
    ],
)
def test_a_wrong_period_is_one_sentence(arguments: list[str], why: str) -> None:
    assert_wrong_usage(run("check", *arguments), why)


def test_counters_that_the_operator_does_not_read_are_not_read_by_a_command_either(busy: HostileServer) -> None:
    off = Path("fleet.yaml")
    off.write_text("traffic: {enabled: false}")
    refused = "traffic is off; set traffic.enabled to true in the options"

    assert_wrong_usage(run("poll", f"{busy.address}/a", "--traffic", "1s"), f"--traffic: {refused}.")
    with pytest.raises(OptionsError, match=f"traffic_seconds: {refused}"):
        poll_fleet([f"{busy.address}/a"], config=off, traffic_seconds=1)
    assert busy.paths("a") == []


@pytest.mark.parametrize("seconds", [0, 0.5, -1, float("nan"), float("inf"), 1e9])
def test_the_api_refuses_a_wait_that_is_none(seconds: float) -> None:
    with pytest.raises(OptionsError, match="traffic_seconds: expected 1 to 86,400"):
        poll_fleet(["http://127.0.0.1:1"], traffic_seconds=seconds)


def test_the_documented_example_of_hit_rates_runs(busy: HostileServer) -> None:
    (example,) = (each for each in code_blocks(docs_page("dataframes"), "python") if "traffic_seconds" in each)
    example = example.replace('"http://h1:8000", "http://h2:8000"', f'"{busy.address}/a"').replace("60", "1")
    printed = printed_by(example)

    assert "A         0.75\n" in printed
