"""Routes, roles and methods, asked from a running server: what SECURITY.md's table promises."""

import re
import socket
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from dashboard.access.gate import REFUSED_HEADER
from dashboard.access.routes import OTHERS, TABLE, WEBSOCKET, needed
from dashboard.config.access import AccessRole
from tests.access.test_gate import TOKEN
from tests.serving import dashboard_on, upgrade

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
OPTIONS = """
targets: ["127.0.0.1:9"]
access:
  mode: proxy
  trusted_proxies: [127.0.0.1]
  roles: {admin: [admins], editor: [editors], viewer: [viewers]}
  tokens: [{name: ci, role: viewer, sha256: TOKEN_DIGEST}]
"""
# Paths of each kind; `*` of a pattern is replaced by these.
RESTS = {
    "/api/*": ("v1/fleet", "v1/findings", "v1/plan", "v1/events?since=1h", "nothing"),
    "/_stcore/upload_file/*": ("session/file",),
    "/*": (
        "",
        "compare",
        "no-such-page",
        "_stcore/health",
        "_stcore/host-config",
        "_stcore/metrics",
        "_stcore/script-health-check",
        "_stcore/allowed-message-origins",
        "_stcore/agent/openapi.json",
        "media/x.csv",
        "component/x/index.html",
        "static/js/x.js",
        "app/static/x",
        "auth/nothing",
        "../livez",
        "livez/",
        "%6civez/x",
    ),
}
NOBODY = "nobody"
STRANGER = "a user without a role"


class Caller(NamedTuple):
    """Somebody who asks: the headers that a trusted proxy sends, and the role by its groups."""

    headers: Mapping[str, str]
    role: AccessRole | None


CALLERS = {
    NOBODY: Caller({}, None),
    STRANGER: Caller({"X-Forwarded-User": "eve", "X-Forwarded-Groups": "guests"}, None),
    **{
        role.word: Caller({"X-Forwarded-User": "ann", "X-Forwarded-Groups": f"guests,{role.word}s"}, role)
        for role in AccessRole
    },
}


def paths() -> list[str]:
    """Every route of the table, and what only looks like one."""
    found = []
    for pattern in dict.fromkeys(each.pattern for each in TABLE):
        stem = pattern.removesuffix("*")
        found += [f"{stem}{rest}" for rest in RESTS.get(pattern, ("",))]
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    config = folder / "fleet.yaml"
    config.write_text(
        OPTIONS.replace("TOKEN_DIGEST", sha256(TOKEN.encode()).hexdigest()) + f"data_folder: {folder / 'data'}\n"
    )
    with dashboard_on(config) as found:
        yield found


@pytest.mark.parametrize("name", CALLERS)
def test_each_route_and_method_needs_the_role_of_the_table(url: str, name: str) -> None:
    caller, wrong = CALLERS[name], []
    with httpx2.Client(base_url=url, trust_env=False, timeout=30) as client:
        for path in paths():
            for method in METHODS:
                answer = client.request(method, path, headers={**caller.headers, "Origin": url})
                status, is_refused = answer.status_code, REFUSED_HEADER in answer.headers
                expected = expected_refusal(path, method, name)
                if status == 500 or expected != (status if is_refused or status == 401 else None):
                    wrong.append((method, path, status, expected))

    assert len(paths()) * len(METHODS) > 200
    assert wrong == []


def expected_refusal(path: str, method: str, name: str) -> int | None:
    """The status with which the gate refuses; None where it lets the request pass."""
    # httpx2 resolves dots, as browsers do
    role = needed({"/../livez": "/livez"}.get(path, path).partition("?")[0].replace("%6c", "l"), method)
    if path == "/auth/token" and method == "POST" and name != STRANGER:
        return 401  # a session of a token needs one
    if role is None:
        return None
    if name == NOBODY:
        return 401
    mine = CALLERS[name].role
    return None if mine is not None and mine >= role else 403


def handshake(url: str, path: str, headers: Mapping[str, str]) -> int:
    """The status of a websocket handshake."""
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(upgrade(port, path, {"Origin": url, **headers}))
        answer = client.recv(2**16).decode()
    return int(re.match(r"HTTP/1\.1 (\d+)", answer)[1])  # type: ignore[index]


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("path", ["/_stcore/stream", "/", "/api/v1/fleet", "/livez", "/auth/session", "/nothing"])
def test_websockets_need_the_role_of_the_table(url: str, path: str, name: str) -> None:
    status = handshake(url, path, CALLERS[name].headers)

    role = needed(path, WEBSOCKET)
    assert role is (AccessRole.VIEWER if path == "/_stcore/stream" else OTHERS)
    if name == NOBODY:
        assert status == 401
    elif (CALLERS[name].role or 0) < role:
        assert status == 403
    else:
        assert (status == 101) is (path == "/_stcore/stream")


def test_a_token_is_enough_without_the_headers_of_the_proxy(url: str) -> None:
    def ask(path: str, method: str = "GET", **headers: str) -> httpx2.Response:
        sent = {"authorization": f"Bearer {TOKEN}", **headers}
        return httpx2.request(method, f"{url}{path}", headers=sent, trust_env=False, timeout=30)

    assert ask("/api/v1/fleet").status_code == 200
    assert ask("/metrics").status_code == 200
    begun = ask("/auth/token", "POST")  # a program sends no Origin
    assert begun.status_code == 200
    assert begun.json()["role"] == "viewer"


@pytest.mark.parametrize("name", ["token", "access_token"])
def test_a_token_in_a_url_is_refused_and_not_repeated(url: str, name: str) -> None:
    answer = httpx2.get(f"{url}/api/v1/fleet?{name}={TOKEN}", trust_env=False, timeout=30)

    assert answer.status_code == 400
    assert "Authorization: Bearer" in answer.json()["detail"]
    assert TOKEN not in answer.text


def test_the_table_of_security_md_is_that_of_the_gate() -> None:
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()

    for entry in TABLE:
        assert f"| `{entry.pattern}` | {', '.join(sorted(entry.methods)).replace(WEBSOCKET, 'websocket')} |" in page
