"""Hostile replicas write every listed secret in every place: none is in anything that the program writes.

Each plant is another text, so that one that leaks says which name, shape and place it is of.
"""

from __future__ import annotations

import base64
import io
import json
import signal
import sys
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
import yaml
from prometheus_client import generate_latest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.findings import findings_json
from dashboard.analysis.documents.fleet import fleet_json
from dashboard.cli import cli
from dashboard.config import Options
from dashboard.fleet.frames import replicas_frame
from dashboard.render.export import Format, written
from dashboard.render.terminal import to_terminal
from dashboard.sources.discovery import Discovery
from dashboard.sources.polling.probes import PROBES
from dashboard.store import Snapshots
from dashboard.store.packing import content_of, id_of, packed, unpacked
from dashboard.views.poll import poll_view
from dashboard.vllm.redaction import MARKER
from dashboard.web import server, share
from tests.builders import NOW
from tests.page_runner import EVERY_PAGE, drop, freeze, html, show_with_snapshots, visit
from tests.secrets_listed import ARGUMENTS, BROKEN, HEADERS, NESTED, listed
from tests.serving import free_port, started, wait_until_healthy
from tests.sources.polling.hostile import CAPTURE, DEV_MODE, Exchange, HostileServer, answers
from tests.web.test_server import get

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

KEY = "our/own+key=4Zq8"
INSIDE = {**ARGUMENTS, **{place: plant for place, plant in NESTED.items() if not place.startswith("long")}}
NO_JSON = {**HEADERS, **BROKEN}
TAKEN_AWAY = (Format.HTML, Format.MARKDOWN, Format.JSON, Format.CSV, Format.SVG)  # PDF is made of the HTML
PATHS = [probe.path.partition("?")[0] for probe in PROBES if probe.needs is None]


class Plants:
    """Secrets, and where each was planted."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def new(self, place: str) -> str:
        """Return a secret that is planted nowhere else."""
        secret = f"Sesame{len(self.places):04}Qx"
        self.places[secret] = place
        return secret

    def leaked(self, text: str) -> list[str]:
        """Return what of them is in a text: name or shape, and place."""
        return sorted({place for secret, place in self.places.items() if secret in text})


def echoes(status: int) -> Callable[[Exchange], Awaitable[None]]:
    """Answer with the headers that were sent, as a page of errors does, and in other forms."""

    async def behave(exchange: Exchange) -> None:
        sent = exchange.asked.headers.get("authorization", "")
        forms = (sent, KEY, quote(KEY, safe=""), base64.b64encode(f"user:{KEY}".encode()).decode())
        await exchange.reply(json.dumps({"note": list(forms), "version": f"0.32.0 {KEY}"}).encode(), status)

    return behave


def settings(plants: Plants) -> dict[str, Any]:
    """Return a setting for every name in every place, and for every shape."""
    told: dict[str, Any] = {}
    for name in listed("names"):
        for number, (place, plant) in enumerate(INSIDE.items()):
            told[f"part_{name.encode().hex()}_{number}"] = plant(name, plants.new(f"{name}: {place}"))
    for number, (shape, text) in enumerate(listed("shapes").items()):
        for place in ("value", "list", "name", "model"):
            value = text.replace("{}", plants.new(f"{shape}: {place}"))
            told[f"shape_{number}_{place}"] = {"list": [value], "name": {value: 1}}.get(place, value)
    return told


@pytest.fixture(scope="module")
def plants() -> Plants:
    return Plants()


@pytest.fixture(scope="module")
def body(plants: Plants) -> bytes:
    """What a replica answers under /server_info."""
    told = json.loads((CAPTURE / "server_info.json").read_bytes())
    told["vllm_config"].setdefault("additional_config", {}).update(settings(plants))
    told["vllm_config"]["cache_config"]["block_size"] = 32  # so that pages and reports have a difference to explain
    told["vllm_env"].update({f"VLLM_{name}": plants.new(f"{name}: variable") for name in listed("names")})
    return json.dumps(told).encode()


@pytest.fixture(scope="module")
def hosts() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture(scope="module")
def before(hosts: HostileServer) -> Fleet:
    """What two replicas told before one of them answered with secrets."""
    options = Options(targets=[hosts.replica(name, DEV_MODE).id for name in ("inside", "plain")])
    return service.poll_once(options, Discovery(options).discover())


@pytest.fixture(scope="module")
def hostile(hosts: HostileServer, before: Fleet, body: bytes, plants: Plants) -> list[str]:
    """The addresses of those two, and of replicas that answer with nothing but secrets."""
    addresses = [each.id for each in before.replicas]
    hosts.routes["/inside/server_info"] = answers(body)
    for name in listed("names"):
        folder = f"broken-{name.encode().hex()}"
        for number, (path, (place, plant)) in enumerate(zip(PATHS, NO_JSON.items(), strict=False)):
            text = plant(name, plants.new(f"{name}: {place}"))
            hosts.routes[f"/{folder}{path}"] = answers(text.encode(), (200, 500)[number % 2])
        addresses.append(f"{hosts.address}/{folder}")
    for status in (200, 500):
        for path in PATHS:
            hosts.routes[f"/echo-{status}{path}"] = echoes(status)
        addresses.append(f"{hosts.address}/echo-{status}")
    return addresses


@pytest.fixture(scope="module")
def fleet(hostile: list[str]) -> Iterator[Fleet]:
    options = Options.model_validate({"targets": hostile, "credentials": {"token_env": "OUR_KEY"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUR_KEY", KEY)
        yield service.poll_once(options, Discovery(options).discover())


def own_key(text: str) -> list[str]:
    """Return the forms of the dashboard's own key that are in a text."""
    inside = base64.b64encode(f"user:{KEY}".encode()).decode()[8:-4]
    return [form for form in (KEY, quote(KEY, safe=""), inside) if form in text]


def test_every_place_is_read(fleet: Fleet, plants: Plants) -> None:
    """Else nothing would be proved."""
    (inside,) = (each for each in fleet.replicas if each.id.endswith("/inside"))
    document = fleet.documents[inside.document or ""]

    assert len(plants.places) > 1_500
    assert (document.settings["additional_config"].value or "").count(MARKER) > 1_000
    assert sum(bool(each.raw and each.failure) for other in fleet.replicas for each in other.probes) > 400


def test_no_secret_is_in_a_document_a_snapshot_an_export_the_table_or_the_metrics(
    fleet: Fleet, plants: Plants, tmp_path: Path
) -> None:
    store = Snapshots(tmp_path)
    key = store.freeze(fleet, "x", NOW).id
    service.put(fleet, at=NOW)
    told = {
        "memory": repr(fleet.replicas) + repr(fleet.documents) + repr(fleet.inspection),
        "fleet": fleet_json(fleet, NOW, full=True).decode(),
        "findings": findings_json(fleet, NOW).decode(),
        "snapshot": unpacked((tmp_path / f"{key}.json.gz").read_bytes()).decode(),
        "notes": (tmp_path / f"{key}.notes.json").read_text(),
        "export": unpacked(store.export(key)).decode(),
        "table": to_terminal(poll_view(fleet), width=1000, colour=False),
        "frame": replicas_frame(fleet.replicas, fleet.pools).to_csv(),
        "metrics": generate_latest(server._registry).decode(),
        **{path: get(path).text for path in ("/api/v1/fleet", "/api/v1/findings", "/metrics")},
    }
    service.stop()

    without_any(told, plants)


@pytest.fixture
def kept(fleet: Fleet, before: Fleet, tmp_path: Path) -> Iterator[str]:
    """The id of the snapshot of a day earlier; the fleet is the live one."""
    show_with_snapshots(fleet, tmp_path / "snapshots", NOW)
    assert before.polled_at
    yield freeze(replace(before, polled_at=before.polled_at - timedelta(days=1)))
    service.stop()


def told_by(app: AppTest) -> dict[str, str]:
    """Return what stands on a page, and what it can be taken away as."""
    offered = app.session_state[share.OFFERED]
    files = {each: written(offered.view(), each) for each in TAKEN_AWAY} if offered else {}
    return {"page": html(app) + repr(app), **{each: _text(content) for each, content in files.items()}}


def _text(content: bytes) -> str:
    """Return a file's text; of a zip file, that of all in it."""
    if not content.startswith(b"PK"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return "\n".join(name + archive.read(name).decode() for name in archive.namelist())


def without_any(told: dict[str, str], plants: Plants) -> None:
    """Fail where a secret or the dashboard's own key is in a text."""
    assert {where: plants.leaked(text) for where, text in told.items() if plants.leaked(text)} == {}
    assert {where: own_key(text) for where, text in told.items() if own_key(text)} == {}


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if page != "replica"])
def test_no_secret_is_on_a_page_or_in_what_is_taken_away_of_it(page: str, kept: str, plants: Plants) -> None:
    url = {"changes": {"from": kept}, "snapshots": {"manage": kept}}.get(page, {})
    told = told_by(visit(page, **url))

    assert set(told) == {"page", *(TAKEN_AWAY if page != "snapshots" else ())}
    without_any(told, plants)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("end", "tab"), [("/inside", "Settings"), ("/inside", "Probes"), ("/echo-500", "Probes")])
def test_no_secret_is_on_the_page_of_a_replica(end: str, tab: str, fleet: Fleet, plants: Plants) -> None:
    (replica,) = (each for each in fleet.replicas if each.id.endswith(end))

    without_any(told_by(visit("replica", replica=replica.id, tab=tab)), plants)


def test_no_secret_is_in_what_an_import_makes_or_refuses(
    fleet: Fleet, body: bytes, plants: Plants, tmp_path: Path
) -> None:
    show_with_snapshots(fleet, tmp_path, NOW)
    refused = [
        (f"refused-{number}.json", plant("api_key", plants.new(f"refused: {place}")).encode())
        for number, (place, plant) in enumerate(NO_JSON.items())
    ]
    app = drop(visit("snapshots"), ("chat-1.json", body), *refused)
    (stored,) = service.snapshots().all()
    told = {
        "imported": html(app) + repr(app),
        "snapshot": unpacked(service.snapshots().export(stored.id)).decode(),
        "listed": html(visit("snapshots")),
        **told_by(visit("compare", snapshot=stored.id)),
    }
    service.stop()

    assert "refused-0.json" in told["imported"]
    assert told["snapshot"].count(MARKER) > 1_000
    without_any(told, plants)


@pytest.fixture
def folder(fleet: Fleet, before: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the fleet of a day earlier in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUR_KEY", KEY)
    monkeypatch.setenv("FLEET_CREDENTIALS__TOKEN_ENV", "OUR_KEY")
    (tmp_path / "before.json").write_bytes(content_of(before))
    (tmp_path / "now.json").write_bytes(content_of(fleet))
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """Run a command; return what it printed."""
    with pytest.raises(SystemExit):
        cli(list(arguments), prog_name="dashboard")
    printed = capfd.readouterr()
    return {"out": printed.out, "err": printed.err}


@pytest.mark.parametrize(
    "command",
    [
        "poll",
        "poll --format json --full",
        *(f"check --format {each}" for each in ("table", "json", "markdown", "junit", "sarif", "github")),
        *(f"report --since before.json -o out --format {each}" for each in ("html", "markdown", "json")),
        *(f"baseline ./llama --of {cohort}" for cohort in "AB"),
    ],
)
def test_no_secret_is_in_what_a_command_writes(
    command: str, hostile: list[str], plants: Plants, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = run(capfd, *command.split(), *hostile)
    written_to = folder / "out"
    told["file"] = written_to.read_text() if written_to.exists() else ""

    assert len(told["out"] + told["file"]) > 500
    without_any(told, plants)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("output", ["table", "json", "markdown"])
def test_no_secret_is_in_a_diff(output: str, plants: Plants, capfd: pytest.CaptureFixture[str]) -> None:
    told = run(capfd, "diff", "before.json", "now.json", "--format", output)

    assert "additional_config" in told["out"]
    without_any(told, plants)


def test_no_secret_of_an_earlier_version_is_printed_or_left_by_redact(
    before: Fleet, plants: Plants, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved, store = json.loads(content_of(before)), Snapshots(folder / "snapshots")
    for document in saved["documents"].values():
        document["additional_config"] = {"value": settings(plants), "state": "reported", "source": "server_info"}
    content = json.dumps(saved).encode()
    key, name = id_of(content), store.freeze(before, "x", NOW).id
    (store.folder / f"{key}.json.gz").write_bytes(packed(content))
    beside = json.loads((store.folder / f"{name}.notes.json").read_bytes())
    texts = [text.replace("{}", plants.new(f"{shape}: note")) for shape, text in listed("shapes").items()]
    beside["notes"] = {f"note-{number}": {"text": text, "owner": "x"} for number, text in enumerate(texts)}
    (store.folder / f"{key}.notes.json").write_text(json.dumps(beside))
    told = run(capfd, "snapshots", "redact")
    told |= {path.name: unpacked(path.read_bytes()).decode() for path in store.folder.iterdir() if path.is_file()}

    assert "Secrets removed from 1 of 2 snapshots" in told["err"]
    without_any(told, plants)


def test_no_secret_is_in_what_a_server_logs_or_answers(
    hostile: list[str], plants: Plants, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "fleet.yaml").write_text(yaml.safe_dump({"targets": hostile, "poll": {"interval_seconds": 1}}))
    config = ("--config", str(folder / "fleet.yaml"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started([sys.executable, "-m", "dashboard", "serve", "--port", str(port), *config]) as process:
        wait_until_healthy(url)
        paths = ("/api/v1/fleet", "/api/v1/findings", "/metrics", "/healthz", "/")
        told = {path: httpx.get(url + path, trust_env=False, timeout=30).text for path in paths}
        process.send_signal(signal.SIGINT)
        _, told["log"] = process.communicate(timeout=60)
    told["out"] = capfd.readouterr().out

    assert json.loads(told["/api/v1/fleet"])["coverage"]["targets"] == len(hostile)
    without_any(told, plants)
