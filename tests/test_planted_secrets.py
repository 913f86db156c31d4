"""Hostile replicas write every listed secret in every place: none is in anything that the program writes.

Each plant is another text, so that one that leaks says which name, shape and place it is of.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from prometheus_client import generate_latest

from dashboard import server, service
from dashboard.cli import cli
from dashboard.collect.probes import PROBES
from dashboard.discovery import Discovery
from dashboard.options import Options
from dashboard.redaction import MARKER
from dashboard.report.findings.document import findings_document
from dashboard.report.fleet.document import to_document, to_json
from dashboard.report.fleet.table import to_table
from dashboard.store import Snapshots
from dashboard.store.packing import unpacked
from tests.builders import NOW
from tests.collect.hostile import CAPTURE, DEV_MODE, Exchange, HostileServer, answers
from tests.page_runner import html, open_page
from tests.secrets_listed import ARGUMENTS, BROKEN, HEADERS, NESTED, listed
from tests.test_server import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from dashboard.fleet import Fleet

KEY = "our/own+key=4Zq8"
INSIDE = {**ARGUMENTS, **{place: plant for place, plant in NESTED.items() if not place.startswith("long")}}
NO_JSON = {**HEADERS, **BROKEN}
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


@pytest.fixture(scope="module")
def plants() -> Plants:
    return Plants()


@pytest.fixture(scope="module")
def hostile(plants: Plants) -> Iterator[list[str]]:
    """The addresses of replicas that answer with secrets."""
    with HostileServer() as hosts:
        addresses = [hosts.replica("inside", DEV_MODE).id]
        body = json.loads((CAPTURE / "server_info.json").read_bytes())
        told: dict[str, Any] = body["vllm_config"].setdefault("additional_config", {})
        for name in listed("names"):
            body["vllm_env"][f"VLLM_{name}"] = plants.new(f"{name}: variable")
            for number, (place, plant) in enumerate(INSIDE.items()):
                told[f"part_{name.encode().hex()}_{number}"] = plant(name, plants.new(f"{name}: {place}"))
        for number, (shape, text) in enumerate(listed("shapes").items()):
            for place in ("value", "list", "name", "model"):
                value = text.replace("{}", plants.new(f"{shape}: {place}"))
                told[f"shape_{number}_{place}"] = {"list": [value], "name": {value: 1}}.get(place, value)
        hosts.routes["/inside/server_info"] = answers(json.dumps(body).encode())
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
        yield addresses


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    monkeypatch.setenv("FLEET_CREDENTIALS__TOKEN_ENV", "OUR_KEY")


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
    client = Client()
    told = {
        "memory": repr(fleet.replicas) + repr(fleet.documents) + repr(fleet.inspection),
        "fleet": to_json(to_document(fleet, NOW, full=True)).decode(),
        "findings": to_json(findings_document(fleet, NOW)).decode(),
        "snapshot": unpacked((tmp_path / f"{key}.json.gz").read_bytes()).decode(),
        "notes": (tmp_path / f"{key}.notes.json").read_text(),
        "export": unpacked(store.export(key)).decode(),
        "table": to_table(fleet, width=1000, colour=False),
        "frames": "".join(frame.to_csv() for frame in fleet.frames),
        "metrics": generate_latest(server._registry).decode(),
        **{path: client.get(path).text for path in ("/api/v1/fleet", "/api/v1/findings", "/metrics")},
    }
    service.stop()

    assert {where: plants.leaked(text) for where, text in told.items() if plants.leaked(text)} == {}
    assert {where: own_key(text) for where, text in told.items() if own_key(text)} == {}


def test_no_secret_is_on_a_page(fleet: Fleet, plants: Plants) -> None:
    pages: dict[str, str] = {}
    for page in ("overview", "compare", "findings", "replicas"):
        pages[page] = _shown(fleet, page)
    for end, tab in (("/inside", "Settings"), ("/inside", "Probes"), ("/echo-500", "Probes")):
        (replica,) = (each for each in fleet.replicas if each.id.endswith(end))
        pages[f"{end} {tab}"] = _shown(fleet, "replica", replica=replica.id, tab=tab)

    assert {where: plants.leaked(text) for where, text in pages.items() if plants.leaked(text)} == {}
    assert {where: own_key(text) for where, text in pages.items() if own_key(text)} == {}


def _shown(fleet: Fleet, page: str, **url: str) -> str:
    app = open_page(fleet, page, at=fleet.polled_at, **url)
    service.stop()
    return html(app) + repr(app)


@pytest.mark.usefixtures("_key")
@pytest.mark.parametrize(
    "command",
    [
        ("poll",),
        ("poll", "--format", "json", "--full"),
        ("check", "--format", "json"),
        ("report", "--format", "html"),
        ("report", "--format", "markdown"),
    ],
    ids=" ".join,
)
def test_no_secret_is_in_what_a_command_writes(
    command: tuple[str, ...],
    hostile: list[str],
    plants: Plants,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    to_file = ("-o", str(tmp_path / "out")) if command[0] == "report" else ()
    with pytest.raises(SystemExit):
        cli([*command, *to_file, *hostile], prog_name="dashboard")
    printed = capfd.readouterr()
    written = (tmp_path / "out").read_text() if to_file else printed.out

    assert len(written) > 500
    for text in (written, printed.out, printed.err):
        assert plants.leaked(text) == []
        assert own_key(text) == []
