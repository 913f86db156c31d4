"""Counters that no engine can have, over HTTP: a sentence and no rate, and no other replica's rate changes."""

import asyncio
import itertools
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from html import unescape

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import dominant_of
from dashboard.config import Options, PollOptions, TrafficOptions
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import read_snapshot
from dashboard.fleet import Target
from dashboard.fleet.formatting import missing_rate
from dashboard.rules.findings import OutcomeKind, Severity
from dashboard.sources.polling.poller import Poller
from dashboard.vllm.traffic import METRICS
from dashboard.web.metrics import FleetMetrics
from tests.frozen import AT
from tests.page_runner import EVERY_PAGE, html, open_page
from tests.polled_fleets import build_fleet
from tests.serving import wait_for
from tests.sources.polling.hostile import CAPTURE, Exchange, HostileServer, answers

HONEST = ("honest-1", "honest-2", "honest-3")
MINUTE = timedelta(seconds=60)
BEFORE: Mapping[str, object] = {"queries": 1000, "hits": 500, "prompt_tokens": 1000, "requests": 10, "counted_from": 5}
AFTER: Mapping[str, object] = {
    "queries": 101_000,
    "hits": 60_500,
    "prompt_tokens": 101_000,
    "requests": 110,
    "counted_from": 5,
}
OWN = re.compile("|".join(rf"{re.escape(each)}\{{" for each in METRICS.values()))
POLLS = 6  # of a second each: two windows
PAYLOAD = "<script>alert(1)</script>"
HITS = METRICS["hits"]
EXPECTED = "expected 0 to 9,007,199,254,740,992"


def page(values: Mapping[str, object], *more: str) -> bytes:
    """The page of a captured server with these values of its counters, and more lines."""
    lines = [each for each in (CAPTURE / "metrics.txt").read_text().splitlines() if not OWN.match(each)]
    own = [f'{METRICS[name]}{{engine="0",model_name="m"}} {value}' for name, value in values.items()]
    return "\n".join([*lines, *own, *more, ""]).encode()


def series(metric: str, engines: int) -> list[str]:
    return [f'{metric}{{engine="{engine}",model_name="m"}} 7' for engine in range(engines)]


def many_reasons(number: int) -> list[str]:
    return [f'{METRICS["requests"]}{{engine="0",finished_reason="{each}"}} 1' for each in range(number)]


# What a replica answers to the second read, and what is said of it.
LIES: Mapping[str, tuple[bytes, str]] = {
    **{
        f"hits {value}": (page({**AFTER, "hits": value}), f"{HITS} is {value!r}, {EXPECTED}")
        for value in ("NaN", "+Inf", "-Inf", "-1", "1e308", "0x10", "1_000", "True", '""', PAYLOAD)
    },
    "everything NaN": (page(dict.fromkeys(METRICS, "NaN")), f"{METRICS['waiting']} is 'NaN', {EXPECTED}"),
    "queries NaN": (page({**AFTER, "queries": "NaN"}), f"{METRICS['queries']} is 'NaN', {EXPECTED}"),
    "requests negative": (page({**AFTER, "requests": -5}), f"{METRICS['requests']} is '-5', {EXPECTED}"),
    "hits above queries": (page({**AFTER, "hits": 500_000}), "hits rose by more than queries"),
    "queries decrease": (page({**AFTER, "queries": 999}), "queries decreased without a restart"),
    "hits decrease": (page({**AFTER, "hits": 499}), "hits decreased without a restart"),
    "2,000 engines": (page({}, *series(HITS, 2_000)), "/metrics has counters of more than 1,024 engines"),
    "10,000 engines": (page({}, *series(HITS, 10_000)), f"/metrics has more than 8,192 series of {HITS}"),
    "no rank": (page(AFTER, f'{HITS}{{engine="{PAYLOAD}"}} 7'), f"/metrics has {HITS} without a DP rank"),
    "100,000 lines": (
        page(AFTER, *many_reasons(100_000)),
        f"/metrics has more than 8,192 series of {METRICS['requests']}",
    ),
}


def polled(lie: bytes | None, names: tuple[str, ...] = HONEST) -> Fleet:
    """Poll honest replicas twice, a minute apart, and one that answers the second time with a lie; None: without it."""
    with HostileServer() as server:
        targets = [server.replica(name) for name in (*names, *(["liar"] if lie is not None else []))]
        labelled = [Target(each.id, {"name": each.id.rpartition("/")[2], "pool": "chat"}) for each in targets]
        seconds = [0.0]
        limits = PollOptions(probe_timeout_seconds=10, replica_timeout_seconds=20, interval_seconds=1)
        poller = Poller(limits, lambda: seconds[0], TrafficOptions(interval_seconds=60))
        for each in labelled:
            server.routes[f"/{each.labels['name']}/metrics"] = answers(page(BEFORE))
        asyncio.run(poller.poll(labelled, lambda: AT - MINUTE))
        for each in labelled:
            server.routes[f"/{each.labels['name']}/metrics"] = answers(page(AFTER))
        if lie is not None:
            server.routes["/liar/metrics"] = answers(lie)
        seconds[0] = 60.0
        snapshots = asyncio.run(poller.poll(labelled, lambda: AT))
    return build_fleet("hostile", snapshots, polled_at=AT, interval=MINUTE)


def ids(fleet: Fleet, *names: str) -> list[str]:
    return [each.id for each in fleet.replicas if each.name in names]


def of_settings(fleet: Fleet) -> list[tuple[str, str, tuple[str, ...]]]:
    """The findings that traffic never changes."""
    found = (each for each in fleet.inspection.findings if each.rule[:2] != "EF")
    return [(each.rule, each.severity, tuple(fleet.names[key] for key in each.replicas)) for each in found]


@pytest.fixture(scope="module")
def truth() -> Fleet:
    """The honest replicas alone."""
    return polled(None)


@pytest.fixture(scope="module")
def honest() -> Fleet:
    """Four that tell the truth."""
    return polled(page(AFTER))


@pytest.fixture(scope="module", params=list(LIES))
def lied(request: pytest.FixtureRequest) -> tuple[Fleet, str]:
    body, sentence = LIES[request.param]
    return polled(body), sentence


def test_the_lie_is_a_sentence_and_no_rate(lied: tuple[Fleet, str]) -> None:
    fleet, sentence = lied
    found = fleet.traffic_of(ids(fleet, "liar"))

    assert found.hit_rate is None
    assert sentence in found.refused
    assert missing_rate(found).startswith("Not counted: ")
    assert sentence in missing_rate(found)


def test_no_rate_of_another_replica_changes(lied: tuple[Fleet, str], truth: Fleet) -> None:
    fleet, _ = lied
    for name in HONEST:
        found = fleet.traffic_of(ids(fleet, name))
        assert found == truth.traffic_of(ids(truth, name))
        assert found.hit_rate == 0.6


def test_the_rate_of_the_pool_is_that_of_the_others(lied: tuple[Fleet, str]) -> None:
    fleet, _ = lied
    found = fleet.traffic_of(ids(fleet, *HONEST, "liar"))

    assert found.hit_rate == 0.6
    assert found.queries == 300_000 + (fleet.traffic_of(ids(fleet, "liar")).queries or 0)


def test_no_finding_on_settings_and_no_verdict_changes(lied: tuple[Fleet, str], honest: Fleet) -> None:
    fleet, _ = lied

    assert of_settings(fleet) == of_settings(honest)
    assert fleet.sharing["chat"].share == honest.sharing["chat"].share


@pytest.mark.parametrize("share", [9e15, 310_000])
def test_a_replica_whose_tokens_decide_the_rate_of_its_pool_is_named(share: float) -> None:
    fleet = polled(page({**AFTER, "queries": share, "hits": 500, "prompt_tokens": share}))
    (liar,) = ids(fleet, "liar")
    most = dominant_of(fleet, ids(fleet, *HONEST, "liar"))

    assert most is not None
    assert most[0] == liar
    assert most[1] == pytest.approx((share - 1000) / (share - 1000 + 300_000))
    assert dominant_of(fleet, ids(fleet, *HONEST)) is None
    assert dominant_of(fleet, ids(fleet, HONEST[0], "liar")) is None


@pytest.fixture(scope="module")
def hostile() -> Fleet:
    """Honest replicas, and one with foreign text as a value."""
    return polled(LIES[f"hits {PAYLOAD}"][0])


@pytest.mark.few(3)
@pytest.mark.parametrize("page", [each for each in EVERY_PAGE if each != "replica"])
def test_every_page_opens_and_escapes_the_value(hostile: Fleet, page: str) -> None:
    assert PAYLOAD not in html(open_page(hostile, page, at=AT))
    service.stop()


def test_the_page_of_the_replica_has_the_sentence(hostile: Fleet) -> None:
    shown = html(open_page(hostile, "replica", at=AT, replica=ids(hostile, "liar")[0]))
    service.stop()

    assert PAYLOAD not in shown
    assert LIES[f"hits {PAYLOAD}"][1] in unescape(shown)


@pytest.mark.parametrize("name", LIES)
def test_a_saved_poll_has_only_numbers_and_keeps_the_sentence(name: str) -> None:
    fleet = polled(LIES[name][0])
    text = fleet_json(fleet, AT, full=True)

    def refuse(constant: str) -> None:
        pytest.fail(f"JSON has {constant}")

    document = json.loads(text, parse_constant=refuse)
    (liar,) = ids(fleet, "liar")
    own = next(each for each in document["replicas"] if each["replica"] == liar)
    assert LIES[name][1] in own["traffic"]["refused"]
    assert own["traffic"]["prefix_hit_rate"] is None
    assert read_snapshot(text).traffic == fleet.traffic


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A dashboard with a history that polls every second one pool: the honest, and liars who lie every other time."""
    with HostileServer() as server:
        targets = []
        for number, name in enumerate(LIES):
            target = server.replica(f"liar-{number}")
            server.routes[f"/liar-{number}/metrics"] = in_turn(page(AFTER), LIES[name][0])
            targets.append({"url": target.id, "labels": {"name": name, "pool": "chat"}})
        for name in HONEST:
            target = server.replica(name)
            server.routes[f"/{name}/metrics"] = rising()
            targets.append({"url": target.id, "labels": {"name": name, "pool": "chat"}})
        service.start(
            Options.model_validate(
                {
                    "targets": targets,
                    "poll": {"interval_seconds": 1},
                    "traffic": {"interval_seconds": 1, "window_seconds": 3},
                    "data_folder": tmp_path_factory.mktemp("data"),
                }
            )
        )
        wait_for(lambda: service.progress().polls >= POLLS)
        yield service.current()
        service.stop()


def in_turn(*pages: bytes) -> Callable[[Exchange], Awaitable[None]]:
    """Answer with these pages, over and over."""
    behaviours = itertools.cycle([answers(each) for each in pages])

    def behave(exchange: Exchange) -> Awaitable[None]:
        return next(behaviours)(exchange)

    return behave


def rising() -> Callable[[Exchange], Awaitable[None]]:
    """A page whose counters rise at every request, with a hit rate of 60%."""
    turn = itertools.count(1)

    def behave(exchange: Exchange) -> Awaitable[None]:
        number = next(turn)
        values = {"queries": 100_000, "hits": 60_000, "prompt_tokens": 100_000, "requests": 100}
        return answers(page({"counted_from": 5} | {name: number * each for name, each in values.items()}))(exchange)

    return behave


def test_liars_end_no_poll_and_the_history_goes_on(recorded: Fleet) -> None:
    status = service.history_status()

    assert service.progress().failures == 0
    assert status is not None
    assert (status.problem, status.failures) == (None, 0)
    assert {each.name for each in recorded.replicas} == {*LIES, *HONEST}


def test_beside_liars_the_rates_of_the_others_stay(recorded: Fleet) -> None:
    for name in HONEST:
        assert recorded.traffic_of(ids(recorded, name)).hit_rate == 0.6


def test_no_rule_ends_with_an_error_and_no_effect_is_critical(recorded: Fleet) -> None:
    assert [each for each in recorded.inspection.outcomes if each.kind is OutcomeKind.ERROR] == []
    effects = [each for each in recorded.inspection.findings if each.rule[:2] == "EF"]
    assert {each.severity for each in effects} <= {Severity.WARNING, Severity.INFO}


def test_the_metrics_of_the_dashboard_are_finite(recorded: Fleet) -> None:
    assert recorded.traffic
    samples = [each for family in FleetMetrics().collect() for each in family.samples]
    assert samples
    assert all(math.isfinite(each.value) for each in samples)
