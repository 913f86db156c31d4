"""Probes, metrics and the API: the age of the data, the documents, and 404 for unknown paths."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.config import Options
from dashboard.documents.load import read_snapshot
from dashboard.fleet.formatting import iso
from dashboard.store.packing import content_of
from dashboard.web import server
from tests import past_fleets
from tests.frozen import AT
from tests.serving import ask

API = ["/api/v1/fleet", "/api/v1/findings"]


pytestmark = pytest.mark.usefixtures("service_folder")


def get(path: str, method: str = "GET") -> httpx2.Response:
    return ask(Starlette(routes=server.routes()), path, method)


def test_before_the_first_poll_only_liveness_is_200() -> None:
    service.put(empty_fleet("young"))

    assert [get(path).status_code for path in ("/livez", "/readyz", "/healthz", *API)] == [200, 503, 503, 503, 503]
    assert [get(path).json() for path in ("/readyz", "/healthz")] == [{"status": "starting"}] * 2
    assert "vllm_fleet_rules" not in get("/metrics").text


@pytest.mark.parametrize(("age", "status"), [(0, 200), (89, 200), (90, 503), (3600, 503)])
def test_healthz_is_200_within_two_intervals_and_the_poll_limit(demo_fleet: Fleet, age: float, status: int) -> None:
    """2 x 15 s + 60 s; replicas that are down do not count."""
    service.put(demo_fleet, AT + timedelta(seconds=age))

    answer = get("/healthz")
    assert answer.status_code == status
    assert answer.json() == {"status": "ok" if status == 200 else "stale"}, "no detail: it is open to everybody"
    assert get("/readyz").status_code == 200


def test_the_api_has_the_fleet_and_its_findings(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)
    fleet, findings = (get(path) for path in API)

    assert fleet.headers["content-type"] == findings.headers["content-type"] == "application/json"
    assert fleet.json()["coverage"]["targets"] == len(demo_fleet.replicas)
    assert "documents" not in fleet.json()
    assert [each["id"] for each in findings.json()["findings"]] == [each.id for each in demo_fleet.inspection.findings]
    assert findings.json()["findings"] == fleet.json()["findings"]


def test_a_document_that_was_sent_is_not_sent_again_until_the_next_poll(demo_fleet: Fleet) -> None:
    app = Starlette(routes=server.routes())
    service.put(demo_fleet, AT)
    first = get("/api/v1/fleet?full=true")
    etag = first.headers["etag"]
    known = {"If-None-Match": f'"other", {etag}'}
    second = ask(app, "/api/v1/fleet?full=true", headers=known)
    service.put(replace(demo_fleet, polled_at=AT + timedelta(seconds=15)), AT)
    third = ask(app, "/api/v1/fleet?full=true", headers=known)

    assert (second.status_code, second.content) == (304, b"")
    assert (third.status_code, third.headers["etag"] == etag) == (200, False)
    assert "etag" not in get("/api/v1/fleet?at=1h").headers


def test_a_document_is_sent_with_gzip_to_who_accepts_it(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)
    packed = ask(Starlette(routes=server.routes()), "/api/v1/fleet", headers={"Accept-Encoding": "gzip"})
    plain = ask(Starlette(routes=server.routes()), "/api/v1/fleet", headers={"Accept-Encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert packed.headers["vary"] == "Accept-Encoding"


def test_few_threads_make_the_documents_of_the_api(demo_fleet: Fleet) -> None:
    """500 requests at once delayed /healthz: each thread takes turns with the event loop."""
    service.put(demo_fleet, AT)

    async def ask_at_once() -> tuple[list[int], list[str]]:
        transport = httpx2.ASGITransport(Starlette(routes=server.routes()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://dashboard") as client:
            answers = await asyncio.gather(*(client.get(API[0]) for _ in range(20)))
        return [each.status_code for each in answers], [each.name for each in threading.enumerate()]

    codes, names = asyncio.run(ask_at_once())
    assert codes == [200] * 20
    assert len([name for name in names if name.startswith("api")]) == server.API_THREADS
    assert [name for name in names if name.startswith("asyncio")] == []


@pytest.mark.parametrize("path", [*API, "/api/v1/plan"])
def test_ten_digits_of_its_id_open_a_snapshot(demo_fleet: Fleet, tmp_path: Path, path: str) -> None:
    service.put(demo_fleet, AT, tmp_path)
    earlier = replace(demo_fleet, polled_at=AT - timedelta(days=1))
    key = service.snapshots().save(earlier, "yesterday", AT).id

    assert get(f"{path}?snapshot={key[:10]}").json()["data_as_of"] == "2026-11-19T11:42:05Z"
    assert get(f"{path}?snapshot={key}").status_code == 200
    missing = get(f"{path}?snapshot=0123456789")
    assert (missing.status_code, list(missing.json())) == (404, ["detail"])
    both = get(f"{path}?snapshot={key}&at=2026-11-19")
    assert (both.status_code, both.json()) == (400, {"detail": "parameters snapshot and at: write one of them"})


@pytest.mark.parametrize("path", API)
def test_the_api_answers_with_the_fleet_of_a_past_time(tmp_path: Path, path: str) -> None:
    past_fleets.show_with_history(tmp_path)
    then = get(f"{path}?at=2026-03-02T10:00Z").json()

    assert (then["data_as_of"], then["coverage"]["targets"]) == ("2026-03-02T09:42:05Z", 4)
    assert "RT-01" in {each["rule"] for each in then["findings"]}
    assert get(path).json()["coverage"]["targets"] == 5


def test_the_findings_of_a_past_time_name_the_gap_that_it_is_in(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    gap = dict(zip(("since", "until"), past_fleets.GAP_ENDS, strict=True))

    assert get("/api/v1/findings?at=2026-03-02T11:00Z").json()["past"] == {"at": "2026-03-02T11:00:00Z", "gap": gap}
    assert get("/api/v1/findings").json()["past"] is None


def test_the_whole_fleet_can_be_asked_for_and_read_back(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    whole = read_snapshot(get("/api/v1/fleet?full=true&at=2026-03-02T10:00Z").content)

    assert content_of(whole) == content_of(service.past(past_fleets.ODD))
    assert "documents" not in get("/api/v1/fleet?full=false").json()


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("at=yesterday", 400, "parameter at: not a time; write 2026-11-22T14:00Z"),
        ("at=", 400, "parameter at: not a time; write 2026-11-22T14:00Z"),
        ("at=2020-01-01", 404, "The history has no poll at 2020-01-01T00:00:00Z or before"),
        ("at=2999-01-01", 404, "2999-01-01T00:00Z is in the future"),
        ("full=yes", 400, "parameter full: write true or false"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(tmp_path: Path, query: str, status: int, detail: str) -> None:
    past_fleets.show_with_history(tmp_path)
    answer = get(f"/api/v1/fleet?{query}")

    assert answer.status_code == status
    assert answer.json()["detail"].startswith(detail)


def test_the_api_lists_what_happened_between_two_times(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    found = get("/api/v1/events?since=2026-03-02T09:00Z&until=2026-03-02T10:00Z").json()
    later = get("/api/v1/events?since=2026-03-02T10:00Z").json()

    assert (found["fleet"], found["since"], found["until"]) == (
        "prod-eu",
        "2026-03-02T09:00:00Z",
        "2026-03-02T10:00:00Z",
    )
    assert [each["kind"] for each in found["events"]] == ["restarted", "finding began"]
    assert [each["kind"] for each in later["events"]] == ["added", "restarted", "finding ended", "gap"]
    assert get("/api/v1/events?since=2h").json()["events"] == later["events"]


def test_without_since_the_api_lists_what_happened_from_the_first_poll_on(tmp_path: Path) -> None:
    past_fleets.show_with_history(tmp_path)
    found = get("/api/v1/events").json()

    assert found["since"] == iso(past_fleets.FIRST)
    assert found["events"] == get(f"/api/v1/events?since={found['since']}").json()["events"] != []


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("since=now", 400, "parameter since: not a period; write 24h, 7d or 90m, or a time such as 2026-11-22T14:00Z"),
        ("since=24h", 404, "The history has no poll at 2026-03-01T11:42:"),
        ("since=2026-03-02T10:00Z&until=now", 400, "parameter until: not a period; write 24h, 7d or 90m, or a time"),
        ("since=2026-03-02T10:00Z&until=2026-03-02T09:00Z", 400, "parameter until: earlier than since"),
        ("since=2020-01-01", 404, "The history has no poll at 2020-01-01T00:00:00Z or before"),
        ("since=2026-03-02T10:00Z&until=2999-01-01", 404, "2999-01-01T00:00Z is in the future"),
    ],
)
def test_a_range_that_the_history_does_not_cover_has_no_events(
    tmp_path: Path, query: str, status: int, detail: str
) -> None:
    past_fleets.show_with_history(tmp_path)
    answer = get(f"/api/v1/events?{query}")

    assert answer.status_code == status
    assert answer.json()["detail"].startswith(detail)


def test_without_a_history_a_past_time_is_404(demo_fleet: Fleet) -> None:
    service.put(demo_fleet, AT)

    assert get("/api/v1/fleet?at=2026-03-02").status_code == 404
    assert "keeps no history" in get("/api/v1/findings?at=2026-03-02").json()["detail"]
    assert "keeps no history" in get("/api/v1/events?since=2026-03-02").json()["detail"]


@pytest.mark.parametrize("path", ["/api/v1/flete", "/api/v2/fleet", "/api/"])
def test_an_unknown_path_of_the_api_is_404(path: str) -> None:
    assert get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_no_route_accepts_a_change(method: str) -> None:
    assert {get(path, method).status_code for path in ("/healthz", "/metrics", *API)} == {405}


def test_the_server_polls_while_it_runs() -> None:
    options = Options.model_validate({"name": "lively", "poll": {"interval_seconds": 3600}})

    async def name() -> str:
        async with server.lifespan(options)(None):
            return service.current().name

    assert asyncio.run(name()) == "lively"


def test_invalid_options_end_the_program_with_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text("nmae: x\ntargets: 3\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        server.options_or_exit()

    assert ended.value.code == 2
    assert [line.split(":")[1] for line in capsys.readouterr().err.splitlines()] == ["1", "2"]


@pytest.mark.parametrize("content", ["[{", None], ids=["broken", "missing"])
def test_an_unreadable_file_of_targets_is_in_the_api_and_the_metrics_and_its_targets_stay_stale(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "targets.json"
    file.write_text('[{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]')
    collector = service.Collector(Options.model_validate({"file_sd": [{"files": [str(file)]}]}))
    asyncio.run(collector._refresh(0.0))
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)
    document, metrics = get("/api/v1/fleet").json(), get("/metrics").text

    (error,) = document["discovery_errors"]
    assert error.startswith(str(file))
    assert [each["target_stale"] for each in document["replicas"]] == [True, True]
    assert "vllm_fleet_discovery_errors 1.0" in metrics
    assert "vllm_fleet_stale_targets 2.0" in metrics
