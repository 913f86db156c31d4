"""The program on a fleet with every bad answer: each is a failure, and every page opens."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import PollOptions
from dashboard.documents.fleet import fleet_json
from dashboard.fleet import Replica, ReplicaState
from dashboard.render.terminal import to_terminal
from dashboard.sources.polling.poller import Poller
from dashboard.views.command_line import poll_view
from tests.frozen import AT
from tests.page_runner import EVERY_PAGE, html, open_page
from tests.polled_fleets import build_fleet
from tests.sources.polling.hostile import BAD_ANSWERS, HostileServer, answers, changed_metrics, everywhere

PAYLOAD = '"><script>alert(1)</script>![x](http://127.0.0.1:1/x.png)[bold]\n\x1b[31m`$x^2$`'
GOOD = ("good-1", "good-2", "good-3")
ODD_SIZES = (("block_size", PAYLOAD), ("block_size", 0), ("num_gpu_blocks", 10**9))
CLOSING_TAG = re.compile(r"<script|<img|onerror=", re.IGNORECASE)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Yield three good replicas, one per bad answer, and some with hostile values."""
    with HostileServer() as server:
        listed = [server.replica(name) for name in GOOD]
        for number, (behaviour, _) in enumerate(BAD_ANSWERS.values()):
            listed.append(everywhere(server, f"bad-{number}", behaviour))
        for number, (label, value) in enumerate(ODD_SIZES):
            listed.append(server.replica(f"odd-{number}"))
            server.routes[f"/odd-{number}/metrics"] = answers(changed_metrics(**{label: value}))
        listed.append(server.replica("strange"))
        server.routes["/strange/metrics"] = answers(changed_metrics(cache_dtype=PAYLOAD))
        card = {"id": PAYLOAD, "root": PAYLOAD, "parent": None, "max_model_len": 2048}
        server.routes["/strange/v1/models"] = answers(json.dumps({"data": [card]}).encode())
        server.routes["/strange/version"] = answers(json.dumps({"version": PAYLOAD}).encode())
        labelled = [replace(each, labels={"name": each.id.rpartition("/")[2]}) for each in listed]
        limits = PollOptions(probe_timeout_seconds=3, replica_timeout_seconds=6)
        snapshots = asyncio.run(Poller(limits).poll(labelled, lambda: AT))
    yield build_fleet("hostile", snapshots, polled_at=AT, interval=timedelta(seconds=15))
    service.stop()


def replica(fleet: Fleet, name: str) -> Replica:
    return next(each for each in fleet.replicas if each.name == name)


def test_good_replicas_are_up(fleet: Fleet) -> None:
    assert [replica(fleet, name).state for name in GOOD] == [ReplicaState.UP] * 3


@pytest.mark.parametrize("number", range(len(BAD_ANSWERS)), ids=list(BAD_ANSWERS))
def test_each_bad_answer_is_a_failure_with_a_sentence(fleet: Fleet, number: int) -> None:
    bad = replica(fleet, f"bad-{number}")

    assert bad.state is ReplicaState.DOWN
    assert bad.failure is not None
    assert len(bad.failure.detail) > 20
    assert "Traceback" not in bad.failure.detail
    assert "\n" not in bad.failure.detail


def test_impossible_sizes_are_a_failure_and_large_ones_are_not(fleet: Fleet) -> None:
    assert replica(fleet, "odd-0").state is ReplicaState.PARTIAL
    assert replica(fleet, "odd-1").state is ReplicaState.PARTIAL
    assert replica(fleet, "odd-2").engines[0].num_gpu_blocks == 10**9


@pytest.mark.parametrize(
    ("page", "url"),
    [*((page, {}) for page in EVERY_PAGE if page != "replica"), ("compare", {"pool": PAYLOAD})],
    ids=[*(page for page in EVERY_PAGE if page != "replica"), "the pool with a hostile name"],
)
def test_every_page_opens_and_escapes_foreign_text(fleet: Fleet, page: str, url: dict[str, str]) -> None:
    shown = html(open_page(fleet, page, at=AT, **url))

    assert not CLOSING_TAG.search(shown)


@pytest.mark.long
def test_the_page_of_every_replica_opens(fleet: Fleet) -> None:
    for each in fleet.replicas:
        shown = html(open_page(fleet, "replica", at=AT, replica=each.id))
        assert not CLOSING_TAG.search(shown), each.name


def test_document_and_table_have_every_replica(fleet: Fleet) -> None:
    document = json.loads(fleet_json(fleet, AT, full=True))
    table = to_terminal(poll_view(fleet), width=200, colour=False)

    assert document["coverage"]["targets"] == len(fleet.replicas)
    assert "\x1b" not in table
