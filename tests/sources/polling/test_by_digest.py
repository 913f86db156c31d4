"""Of replicas with equal digests one is asked: the simulated fleet as a real Prometheus server scrapes it."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options, TrafficOptions
from dashboard.config.address import replica_id
from dashboard.demo import DemoServer, default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour, Speaks
from dashboard.fleet import FailureKind, Replica, ReplicaState, ScrapedMetrics, Snapshot, Source, Target
from dashboard.sources.discovery import DiscoveryResult, discover_once
from dashboard.sources.polling.by_digest import NOT_SCRAPED, DigestPoller
from dashboard.sources.polling.probes import INFERENCE_CONFIG
from tests.polled_fleets import build_fleet
from tests.sources.polling.hostile import HostileServer, answers
from tests.sources.polling.test_scraped_traffic import AT, LIMITS, PAGE, scrape
from tests.sources.prometheus_server import prometheus, wait_for_result
from vllm_fleet_provider.shared.digests import SCHEME

SPEAKING = [each for each in default_fleet() if each.behaviour is Behaviour.NORMAL]
REPLICAS = SPEAKING[:20]
PROVIDED = [each for each in REPLICAS if Speaks.PROVIDER in each.speaks]
SERIES = "group by (instance) (vllm:cache_config_info)"
DIGESTS = "group by (instance) (vllm_fleet_config_info)"


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with in_thread(REPLICAS) as server:
        yield server


@pytest.fixture(scope="module")
def url(demo: DemoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), targets(demo.fleet, demo.port)) as url:
        wait_for_result(url, SERIES, lambda found: len(found) == len(REPLICAS))
        wait_for_result(url, DIGESTS, bool)
        yield url


def discovered(url: str, direct: str) -> tuple[Options, DiscoveryResult]:
    options = Options.model_validate({"prometheus": [{"url": url, "direct": direct}]})
    return options, discover_once(options)


def polled(url: str, direct: str) -> Fleet:
    return service.poll_once(*discovered(url, direct))


def poll(
    found: Sequence[Target], poller: DigestPoller | None = None, times: Mapping[str, float] | None = None
) -> tuple[Snapshot, ...]:
    return asyncio.run((poller or DigestPoller(LIMITS)).poll(found, lambda: AT, scraped_at=times or {}))


def test_one_replica_of_each_configuration_is_asked_and_the_others_have_its_settings(url: str) -> None:
    whole, shared = polled(url, "always"), polled(url, "missing")
    documents = {each.id: each.document for each in whole.replicas}
    copies = [each for each in shared.replicas if each.same_digest_as]

    assert copies
    assert {each.id: each.document for each in shared.replicas} == documents
    assert {each.same_digest_as for each in copies}.isdisjoint(each.id for each in copies)
    for each in copies:
        other = next(one for one in whole.replicas if one.id == each.same_digest_as)
        assert documents[each.id] == other.document
        assert (each.devices, each.set_arguments, each.started_at) == ((), None, None)
        assert (each.kv_cache_groups, each.version, each.adapters) == (
            other.kv_cache_groups,
            other.version,
            other.adapters,
        )
        assert each.state is ReplicaState.UP


def test_no_finding_is_only_found_with_settings_of_others(url: str) -> None:
    def found(fleet: Fleet) -> set[str]:
        return {each.rule for each in fleet.inspection.findings}

    assert found(polled(url, "missing")) <= found(polled(url, "always"))


def test_never_asks_no_replica_without_digests(url: str) -> None:
    fleet = polled(url, "never")
    rest = [each for each in fleet.replicas if not each.same_digest_as and Source.VERSION not in each.sources]

    assert rest
    assert {each.sources for each in rest} == {(Source.METRICS,)}
    assert {each.state for each in rest} == {ReplicaState.UP}


def test_another_replica_is_asked_where_the_first_does_not_answer(url: str) -> None:
    found = discovered(url, "never")[1].targets
    group = [each.target for each in poll(found) if each.same_digest_as]
    lost = [replace(group[0], id=f"http://127.0.0.1:{number}/") for number in (1, 2)]
    poller = DigestPoller(LIMITS)
    snapshots = {each.target.id: each for each in poll([*lost, *group[1:]], poller)}

    answering = next(each.same_digest_as for each in snapshots.values() if each.same_digest_as)
    assert answering in {each.id for each in group[1:]}
    assert snapshots[lost[0].id].same_digest_as is None
    again = poll([*lost, *group[1:]], poller)
    assert [each.same_digest_as for each in again[:2]] == [answering, answering]


def test_a_replica_that_restarted_since_the_scrape_gives_no_settings(tmp_path: Path) -> None:
    one_of_each = {each.configuration: each for each in SPEAKING if Speaks.PROVIDER in each.speaks}
    replica = next(iter(one_of_each.values()))
    with ExitStack() as serving:
        server = serving.enter_context(in_thread([replica]))
        with prometheus(tmp_path, targets([replica], server.port)) as url:
            wait_for_result(url, DIGESTS, bool)
            (target,) = discovered(url, "missing")[1].targets
        copy = replace(target, id="http://127.0.0.1:1/")
        assert [each.same_digest_as for each in poll([target, copy])] == [None, target.id]
        server.restart(replica.address, ["--block-size", "64"])
        assert [each.same_digest_as for each in poll([target, copy])] == [None, None]


def series(**labels: Any) -> bytes:
    own = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return f'vllm:cache_config_info{{block_size="16",engine="0"}} 1\nvllm_fleet_config_info{{{own}}} 1'.encode()


COMPLETE = {"engine": 0, "document": "a", "block_hash": "b", "kv_layout": "c", "adapters": "d", "scheme": SCHEME}


@pytest.mark.parametrize(
    "lines",
    [
        series(**{**COMPLETE, "scheme": "0"}),
        series(**{**COMPLETE, "kv_layout": ""}),
        series(**{**COMPLETE, "engine": "x"}),
        series(**COMPLETE).partition(b"\n")[2],
        series(**COMPLETE) + b"\n" + series(**COMPLETE).partition(b"\n")[2],
    ],
)
def test_without_comparable_digests_prometheus_is_all_there_is(lines: bytes) -> None:
    found = [Target(f"http://127.0.0.1:{port}", scraped=ScrapedMetrics(lines, AT, falls_back=False)) for port in (1, 2)]

    for each in poll(found):
        assert [*each.probes] == ["/metrics"]
        assert each.same_digest_as is None
        assert each.observed_at == AT


class Liar(NamedTuple):
    """A group of replicas with equal digests of which one, as far as the server says, has other settings."""

    group: list[Target]
    liar: Target
    server: HostileServer
    honest: bytes  # answer

    def stops(self) -> None:
        """Answer as the others do."""
        self.server.routes["/liar/inference/v1/config"] = answers(self.honest)


@pytest.fixture
def lying(demo: DemoServer) -> Iterator[Liar]:
    by_configuration: dict[Any, list[Target]] = defaultdict(list)
    for each, target in zip(demo.fleet, targets(demo.fleet, demo.port), strict=True):
        if Speaks.PROVIDER in each.speaks:
            by_configuration[each.configuration].append(Target(replica_id(str(target["targets"][0]))))
    group, other = max(by_configuration.values(), key=len), min(by_configuration.values(), key=len)
    page, honest, wrong = (
        get(f"{target.id}{path}")
        for target, path in ((group[0], "/metrics"), (group[0], INFERENCE_CONFIG), (other[0], INFERENCE_CONFIG))
    )
    lines = asyncio.run(DigestPoller(LIMITS).poll(group[:1], lambda: AT))[0].probes["/metrics"].raw
    with HostileServer() as server:
        liar = server.replica("liar")
        server.routes["/liar/metrics"] = answers(page)
        server.routes["/liar/inference/v1/config"] = answers(wrong)
        scraped = ScrapedMetrics(lines, AT, falls_back=False)
        yield Liar([replace(each, scraped=scraped) for each in group], replace(liar, scraped=scraped), server, honest)


def get(url: str) -> bytes:
    with urlopen(url) as answer:
        return bytes(answer.read())


def liars(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    fleet = build_fleet("f", snapshots, polled_at=AT, interval=timedelta(seconds=15))
    return tuple(name for each in fleet.inspection.findings if each.rule == "ID-16" for name in each.replicas)


def documents(snapshots: Sequence[Snapshot]) -> list[str | None]:
    fleet = build_fleet("f", snapshots, polled_at=AT, interval=timedelta(seconds=15))
    by_id = {each.id: each.document for each in fleet.replicas}
    return [by_id[each.target.id] for each in snapshots]


def test_an_answer_without_the_digests_of_its_replica_counts_for_no_other(lying: Liar) -> None:
    now = 0.0
    poller = DigestPoller(LIMITS, lambda: now)
    for _ in range(2):
        snapshots = poll([lying.liar, *lying.group], poller)

        assert liars(snapshots) == (lying.liar.id,)
        assert {each.same_digest_as for each in snapshots} == {None}
        own, *others = documents(snapshots)
        assert len(set(others)) == 1
        assert own not in others

    lying.stops()
    now = LIMITS.full_poll_interval_seconds
    poll([lying.liar, *lying.group], poller)
    again = poll([lying.liar, *lying.group], poller)
    assert liars(again) == ()
    assert {each.same_digest_as for each in again[1:]} == {lying.liar.id}


def test_a_sample_of_each_group_is_asked_in_turn_at_each_full_poll(lying: Liar) -> None:
    now = 0.0
    poller = DigestPoller(LIMITS, lambda: now)
    group = [*lying.group[:4], lying.liar]
    first = poll(group, poller)  # asks the first three
    assert [each.same_digest_as for each in first] == [None, *[group[0].id] * 4]
    assert documents(first) == documents(first)[:1] * 5

    now = LIMITS.full_poll_interval_seconds - 1
    assert liars(poll(group, poller)) == ()
    now += 1
    found = poll(group, poller)
    assert liars(found) == (lying.liar.id,)
    assert {each.same_digest_as for each in found} == {None}


def test_a_replica_that_prometheus_cannot_reach_is_down_or_asked() -> None:
    never = Target("http://127.0.0.1:1", scraped=ScrapedMetrics(b"", AT, falls_back=False))
    missing = Target("http://127.0.0.1:2", scraped=ScrapedMetrics(b"", AT, falls_back=True))
    first, second = (each.probes["/metrics"].failure for each in poll([never, missing, never]))

    assert first is not None
    assert first.detail == NOT_SCRAPED
    assert second is not None
    assert second.kind is FailureKind.REFUSED
    assert second.detail != NOT_SCRAPED


@pytest.mark.parametrize("falls_back", [False, True])
def test_a_replica_that_goes_down_keeps_its_replies_but_not_those_of_another_pod(*, falls_back: bool) -> None:
    up = Target("http://127.0.0.1:1", {"pod": "a"}, scraped=ScrapedMetrics(PAGE, AT, falls_back=False))
    down = replace(up, scraped=ScrapedMetrics(b"", AT + timedelta(minutes=1), falls_back))
    poller = DigestPoller(LIMITS)
    reply = poll([up], poller)[0].probes["/metrics"].reply
    times = {up.id: AT.timestamp() + 30}
    after, later = (poll([down], poller, times)[0].probes["/metrics"] for _ in range(2))

    assert reply
    assert after.reply is later.reply is reply
    assert after.failure
    assert after.failure.kind is FailureKind.REFUSED
    assert after.observed_at == later.observed_at == AT + timedelta(seconds=30)
    assert poll([replace(down, labels={"pod": "b"})], poller)[0].probes["/metrics"].reply is None


def test_a_replica_that_goes_down_stays_in_its_pool(url: str) -> None:
    def replica_of(snapshots: Sequence[Snapshot]) -> Replica:
        fleet = build_fleet("f", snapshots, polled_at=AT, interval=timedelta(seconds=15))
        return next(each for each in fleet.replicas if each.id == name)

    found, poller = discovered(url, "never")[1].targets, DigestPoller(LIMITS)
    first = poll(found, poller)
    name = next(each.target.id for each in first if each.same_digest_as)
    down = [
        replace(each, scraped=ScrapedMetrics(b"", AT, falls_back=False)) if each.id == name else each for each in found
    ]
    before, after = replica_of(first), replica_of(poll(down, poller))

    assert before.state is ReplicaState.UP
    assert after.state is ReplicaState.DOWN
    assert before.pool is not None
    assert after.pool == before.pool
    assert after.document == before.document


def test_equal_lines_are_read_once_until_they_are_gone() -> None:
    poller = DigestPoller(LIMITS)
    target = Target("http://127.0.0.1:1", scraped=ScrapedMetrics(PAGE, AT, falls_back=False))
    first, second = (poll([target], poller)[0].probes["/metrics"].reply for _ in range(2))

    assert first is second
    poll([], poller)
    assert poll([target], poller)[0].probes["/metrics"].reply is not first


def test_a_copy_is_kept_until_its_scrape_or_settings_change_and_is_what_a_new_poller_makes(url: str) -> None:
    def scraped_later(target: Target) -> Target:
        assert target.scraped
        return replace(target, scraped=replace(target.scraped, at=target.scraped.at + timedelta(seconds=60)))

    def copies(found: Sequence[Target], poller: DigestPoller) -> dict[str, Snapshot]:
        return {each.target.id: each for each in poll(found, poller) if each.same_digest_as}

    found, poller = discovered(url, "missing")[1].targets, DigestPoller(LIMITS)
    first, again = copies(found, poller), copies(found, poller)
    later = copies([scraped_later(each) for each in found], poller)

    assert first
    assert all(again[name] is each for name, each in first.items())
    assert later == copies([scraped_later(each) for each in found], DigestPoller(LIMITS))
    assert all(
        now.reply is then.reply
        for name, each in first.items()
        for now, then in zip(later[name].probes.values(), each.probes.values(), strict=True)
    )


def test_a_replica_that_wants_a_key_has_the_settings_of_an_open_one_with_equal_digests() -> None:
    group = [each for each in PROVIDED if each.configuration == PROVIDED[0].configuration][:3]
    other = next(each for each in PROVIDED if each.configuration != PROVIDED[0].configuration)
    kept = [replace(group[0], api_key="k"), group[1], replace(other, api_key="k"), replace(group[2], api_key="k")]
    with in_thread(kept) as server:
        found = [Target(f"http://{each.address}:{server.port}", labels={"pool": "chat"}) for each in kept]
        poller = DigestPoller(LIMITS)
        first, again = poll(found, poller), poll(found, poller)
        alone = poll([found[0]], poller)
    fleet = build_fleet("f", first, polled_at=AT, interval=timedelta(seconds=15))
    replicas = {each.id: each for each in fleet.replicas}
    locked, whole, unlike, twin = (replicas[each.id] for each in found)

    assert (locked.document, locked.same_digest_as) == (whole.document, whole.id)
    assert (twin.document, twin.same_digest_as) == (whole.document, whole.id)
    assert (locked.state, locked.devices) == (ReplicaState.PARTIAL, ())
    assert locked.failure
    assert locked.failure.kind is FailureKind.UNAUTHORIZED
    assert unlike.same_digest_as is None
    assert unlike.document != whole.document
    reply = first[0].probes[INFERENCE_CONFIG].reply
    assert reply
    assert again[0].probes[INFERENCE_CONFIG].reply is reply
    assert alone[0].probes[INFERENCE_CONFIG].reply is None


def test_the_replica_that_answers_for_others_is_counted_as_they_are(lying: Liar) -> None:
    poller = DigestPoller(LIMITS, traffic=TrafficOptions(interval_seconds=1))
    for number in range(3):
        counts = {each.id: scrape(60 * number, 1000 * number) for each in lying.group}
        snapshots = asyncio.run(poller.poll(lying.group, lambda: AT, counts=counts))

    assert {each.is_scraped for each in snapshots} == {True, False}
    assert {each.traffic[0].queries for each in snapshots} == {2000}
    assert {each.counted[0].queries for each in snapshots} == {1000}
