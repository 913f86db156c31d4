"""Hostile replicas send every listed secret in every place; no output of the program has one.

Each secret is a text of its own, so that a leak names its place.
"""

import base64
import io
import json
import re
import signal
import sys
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import yaml
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.cli import cli
from dashboard.config import Options
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from dashboard.fleet.frames import FRAMES
from dashboard.render.export import Format, written
from dashboard.render.terminal import to_terminal
from dashboard.sources.discovery import discover_once
from dashboard.sources.polling.probes import PROBES
from dashboard.store.packing import content_of, unpacked
from dashboard.store.snapshots import Snapshots
from dashboard.views.command_line import poll_view
from dashboard.web import share
from tests.builders import NOW
from tests.page_runner import EVERY_PAGE, drop, freeze, html, show_with_snapshots, visit
from tests.secrets_listed import ARGUMENTS, BROKEN, HEADERS, NESTED, listed
from tests.serving import free_port, started, wait_until_healthy
from tests.sources.polling.hostile import CAPTURE, DEV_MODE, Exchange, HostileServer, answers
from tests.web.test_server import get
from vllm_fleet_provider.shared.redaction import MARKER

KEY = "our/own+key=4Zq8"
INSIDE = {**ARGUMENTS, **{place: plant for place, plant in NESTED.items() if not place.startswith("long")}}
NO_JSON = {**HEADERS, **BROKEN}
EXPORTED = (Format.HTML, Format.MARKDOWN, Format.JSON, Format.CSV, Format.SVG)  # PDF is made of the HTML
PATHS = [probe.path.partition("?")[0] for probe in PROBES if probe.needs is None]


class Plants:
    """Secrets by place."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def new(self, place: str) -> str:
        """Return a new secret."""
        secret = f"Sesame{len(self.places):04}Qx"
        self.places[secret] = place
        return secret

    def leaked(self, text: str) -> list[str]:
        """Return the places of the secrets in a text."""
        return sorted({self.places[secret] for secret in re.findall(r"Sesame\d+Qx", text)})


def echoes(status: int) -> Callable[[Exchange], Awaitable[None]]:
    """Answer with the sent headers, and with the key in other forms."""

    async def behave(exchange: Exchange) -> None:
        sent = exchange.asked.headers.get("authorization", "")
        forms = (sent, KEY, quote(KEY, safe=""), base64.b64encode(f"user:{KEY}".encode()).decode())
        await exchange.reply(json.dumps({"note": list(forms), "version": f"0.32.0 {KEY}"}).encode(), status)

    return behave


def settings(plants: Plants) -> dict[str, Any]:
    """Return a setting for every name in every place, and for every shape."""
    planted: dict[str, Any] = {}
    for name in listed("names"):
        for number, (place, plant) in enumerate(INSIDE.items()):
            planted[f"part_{name.encode().hex()}_{number}"] = plant(name, plants.new(f"{name}: {place}"))
    for number, (shape, text) in enumerate(listed("shapes").items()):
        for place in ("value", "list", "name", "model"):
            value = text.replace("{}", plants.new(f"{shape}: {place}"))
            planted[f"shape_{number}_{place}"] = {"list": [value], "name": {value: 1}}.get(place, value)
    return planted


@pytest.fixture(scope="module")
def plants() -> Plants:
    return Plants()


@pytest.fixture(scope="module")
def body(plants: Plants) -> bytes:
    """Return an answer of /server_info."""
    info = json.loads((CAPTURE / "server_info.json").read_bytes())
    info["vllm_config"].setdefault("additional_config", {}).update(settings(plants))
    info["vllm_config"]["cache_config"]["block_size"] = 32
    info["vllm_env"].update({f"VLLM_{name}": plants.new(f"{name}: variable") for name in listed("names")})
    return json.dumps(info).encode()


@pytest.fixture(scope="module")
def hosts() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture(scope="module")
def before(hosts: HostileServer) -> Fleet:
    """Return the fleet before one replica sends secrets."""
    options = Options(targets=[hosts.replica(name, DEV_MODE).id for name in ("inside", "plain")])
    return service.poll_once(options, discover_once(options))


@pytest.fixture(scope="module")
def hostile(hosts: HostileServer, before: Fleet, body: bytes, plants: Plants) -> list[str]:
    """Return the addresses of both, and of replicas with broken answers."""
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
        yield service.poll_once(options, discover_once(options))


def own_key(text: str) -> list[str]:
    """Return the forms of the dashboard's own key in a text."""
    inside = base64.b64encode(f"user:{KEY}".encode()).decode()[8:-4]
    return [form for form in (KEY, quote(KEY, safe=""), inside) if form in text]


def test_every_place_is_read(fleet: Fleet, plants: Plants) -> None:
    (inside,) = (each for each in fleet.replicas if each.id.endswith("/inside"))
    document = fleet.documents[inside.document or ""]

    assert len(plants.places) > 1_500
    assert (document.settings["additional_config"].value or "").count(MARKER) > 1_000
    assert sum(bool(each.raw and each.failure) for other in fleet.replicas for each in other.probes) > 400


def test_no_secret_is_in_documents_snapshots_exports_or_metrics(fleet: Fleet, plants: Plants, tmp_path: Path) -> None:
    store = Snapshots(tmp_path)
    key = store.save(fleet, "x", NOW).id
    service.put(fleet, at=NOW)
    texts = {
        "memory": repr(fleet.replicas) + repr(fleet.documents) + repr(fleet.inspection),
        "fleet": fleet_json(fleet, NOW, full=True).decode(),
        "findings": findings_json(fleet, NOW).decode(),
        "snapshot": store._content(key).decode(),
        "notes": repr(store.get(key)),
        "database": b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode(errors="replace"),
        "export": unpacked(store.export(key)).decode(),
        "table": to_terminal(poll_view(fleet), width=1000, colour=False),
        **{f"frame {name}": getattr(fleet.frames, name).to_csv() for name in FRAMES},
        **{path: get(path).text for path in ("/api/v1/fleet", "/api/v1/findings", "/metrics")},
    }
    service.stop()

    without_any(texts, plants)


@pytest.fixture(scope="module")
def kept(fleet: Fleet, before: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the id of a snapshot of the day before; the fleet is live."""
    show_with_snapshots(fleet, tmp_path_factory.mktemp("snapshots"), NOW)
    assert before.polled_at
    yield freeze(replace(before, polled_at=before.polled_at - timedelta(days=1)))
    service.stop()


def texts_of(app: AppTest) -> dict[str, str]:
    """Return a page and its exports as text."""
    offered = app.session_state[share.OFFERED]
    files = {each: written(offered(), each) for each in EXPORTED} if offered else {}
    return {"page": html(app) + repr(app), **{each: _text(content) for each, content in files.items()}}


def _text(content: bytes) -> str:
    """Return the text of a file, or of all files of a zip."""
    if not content.startswith(b"PK"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return "\n".join(name + archive.read(name).decode() for name in archive.namelist())


def without_any(texts: dict[str, str], plants: Plants) -> None:
    """Fail for a secret or the dashboard's own key in a text."""
    assert {where: plants.leaked(text) for where, text in texts.items() if plants.leaked(text)} == {}
    assert {where: own_key(text) for where, text in texts.items() if own_key(text)} == {}


@pytest.mark.few(4)
@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if page != "replica"])
def test_no_secret_is_on_a_page_or_in_its_exports(page: str, kept: str, plants: Plants) -> None:
    url = {"changes": {"from": kept}, "snapshots": {"manage": kept}}.get(page, {})
    texts = texts_of(visit(page, **url))

    assert set(texts) == {"page", *(EXPORTED if page != "snapshots" else ())}
    without_any(texts, plants)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("end", "tab"), [("/inside", "Settings"), ("/inside", "Probes"), ("/echo-500", "Probes")])
def test_no_secret_is_on_the_page_of_a_replica(end: str, tab: str, fleet: Fleet, plants: Plants) -> None:
    (replica,) = (each for each in fleet.replicas if each.id.endswith(end))

    without_any(texts_of(visit("replica", replica=replica.id, tab=tab)), plants)


def test_no_secret_is_in_an_import(fleet: Fleet, body: bytes, plants: Plants, tmp_path: Path) -> None:
    show_with_snapshots(fleet, tmp_path, NOW)
    refused = [
        (f"refused-{number}.json", plant("api_key", plants.new(f"refused: {place}")).encode())
        for number, (place, plant) in enumerate(NO_JSON.items())
    ]
    app = drop(visit("snapshots"), ("chat-1.json", body), *refused)
    (stored,) = service.snapshots().all()
    texts = {
        "imported": html(app) + repr(app),
        "snapshot": unpacked(service.snapshots().export(stored.id)).decode(),
        "listed": html(visit("snapshots")),
        **texts_of(visit("compare", snapshot=stored.id)),
    }
    service.stop()

    assert "refused-0.json" in texts["imported"]
    assert texts["snapshot"].count(MARKER) > 1_000
    without_any(texts, plants)


@pytest.fixture
def folder(fleet: Fleet, before: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with both fleets in files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUR_KEY", KEY)
    monkeypatch.setenv("FLEET_CREDENTIALS__TOKEN_ENV", "OUR_KEY")
    (tmp_path / "before.json").write_bytes(content_of(before))
    (tmp_path / "now.json").write_bytes(content_of(fleet))
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """Run a command; return its output."""
    with pytest.raises(SystemExit):
        cli(list(arguments), prog_name="dashboard")
    printed = capfd.readouterr()
    return {"out": printed.out, "err": printed.err}


@pytest.mark.few(3)
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
def test_no_secret_is_in_the_output_of_a_command(
    command: str, hostile: list[str], plants: Plants, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = run(capfd, *command.split(), *hostile)
    output = folder / "out"
    texts["file"] = output.read_text() if output.exists() else ""

    assert len(texts["out"] + texts["file"]) > 500
    without_any(texts, plants)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("output", ["table", "json", "markdown"])
def test_no_secret_is_in_a_diff(output: str, plants: Plants, capfd: pytest.CaptureFixture[str]) -> None:
    texts = run(capfd, "diff", "before.json", "now.json", "--format", output)

    assert "additional_config" in texts["out"]
    without_any(texts, plants)


@pytest.mark.long
def test_no_secret_is_in_logs_or_routes_of_the_server(
    hostile: list[str], plants: Plants, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "fleet.yaml").write_text(yaml.safe_dump({"targets": hostile, "poll": {"interval_seconds": 1}}))
    config = ("--config", str(folder / "fleet.yaml"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started([sys.executable, "-m", "dashboard", "serve", "--port", str(port), *config]) as process:
        wait_until_healthy(url)
        paths = ("/api/v1/fleet", "/api/v1/findings", "/metrics", "/healthz", "/")
        texts = {path: httpx2.get(url + path, trust_env=False, timeout=30).text for path in paths}
        process.send_signal(signal.SIGINT)
        _, texts["log"] = process.communicate(timeout=60)
    texts["out"] = capfd.readouterr().out

    assert json.loads(texts["/api/v1/fleet"])["coverage"]["targets"] == len(hostile)
    without_any(texts, plants)
