"""What is before Streamlit: the checks of Host and Origin, the gate, security headers, index.html with our styles."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from dashboard import mcp, service
from dashboard.access import tokens
from dashboard.access.auth import Auth
from dashboard.access.gate import Gate
from dashboard.access.routes import PROBES, READING
from dashboard.access.visitor import Means
from dashboard.config import Options
from dashboard.config.access import AccessOptions
from dashboard.render.html import BLOCK_STYLES
from dashboard.store.sign_ins import configured_sign_ins
from dashboard.views.pages import CAPACITY, KNOWN

# What Streamlit 1.67 needs: components v2 are modules from blob: addresses, scripts write styles, Plotly and the grids
# draw data: and blob: images. The rest is 'self': the browser contacts this server only.
POLICY = (
    "default-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'self'",
)
_INLINE_SCRIPT = re.compile("<script>(.*?)</script>", re.DOTALL)
_AUTHORITY = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]{1,253}))(?::(?P<port>\d{1,5}))?", re.ASCII
)  # 253: RFC 1035
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_HERE = Path(__file__).parent
# blocks.css is shared with exports, look.css is the base of pages, a look_*.css is for a part of a page.
LOOK = BLOCK_STYLES + "".join(file.read_text(encoding="utf-8") for file in sorted(_HERE.glob("look*.css")))
BODY = "<body>"
FOREIGN = "This host name or origin is not allowed. Ask an administrator.\n"
FIRST_SCRIPT = (_HERE / "first.js").read_text(encoding="utf-8").replace("PAGES", json.dumps(sorted(KNOWN)))
DROPPED = frozenset({b"if-none-match", b"if-modified-since", b"range", b"accept-encoding"})
# Those that Streamlit loads on demand: what every page needs, with what that imports, and the controls of most pages.
SCRIPTS = (
    *("Html.", "purify.es.", "BidiComponent.", "serialization.", "recordbatch."),
    *("TextInput.", "Selectbox.", "ButtonGroup.", "useMenuTrigger.", "useSyncComboBoxEnterTargetFocus."),
)
FONT = "SourceSansVF-Upright.*.woff2"  # that of pages
CHARTS = "PlotlyChart."  # of Capacity; too large for every page


class Site(NamedTuple):
    """Host and port of a Host header, whose port is empty where it is the default, or of an Origin with its scheme."""

    host: str
    port: str
    scheme: str = ""

    @property
    def authority(self) -> str:
        """Return host and port of an Origin; without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class AllowedHosts(NamedTuple):
    """The entries of `allowed_hosts`, names or globs with an optional port, and the host the server is bound to."""

    entries: Sequence[str] = ()
    bound: str = ""

    def has_host(self, host: str) -> bool:
        """Return whether a Host is allowed: any IP address (DNS rebinding needs a name), localhost, a listed name."""
        try:
            ip_address(host)
        except ValueError:
            names = (entry.partition(":")[0] for entry in self.entries)
            return host in {"localhost", self.bound} or any(fnmatchcase(host, name) for name in names)
        return True

    def has_origin(self, origin: Site, site: Site | None) -> bool:
        """Return whether an entry allows an Origin: with its port; without one, the default port and that of `site`."""
        usual = {_DEFAULT_PORTS[origin.scheme], *([site.port] if site else [])}
        for name, _, port in (entry.partition(":") for entry in self.entries):
            if fnmatchcase(origin.host, name) and origin.port in ({port} if port else usual):
                return True
        return False


def site_of(authority: str) -> Site | None:
    """Return host and port of a Host header; None where it is malformed."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    port = match["port"] or ""  # 80 of a proxy may be 443 in the browser
    return Site((match["v6"] or match["name"]).lower().rstrip("."), "" if port in _DEFAULT_PORTS.values() else port)


def origin_of(text: str) -> Site | None:
    """Return an Origin; None where it is no HTTP origin, such as `null` of a sandboxed frame."""
    scheme, _, authority = text.partition("://")
    match = _AUTHORITY.fullmatch(authority)
    if match is None or scheme not in _DEFAULT_PORTS:
        return None
    host = (match["v6"] or match["name"]).lower().rstrip(".")
    return Site(host, match["port"] or _DEFAULT_PORTS[scheme], scheme)


def refusal(method: str, path: str, headers: Headers, allowed: AllowedHosts, *, is_https: bool) -> str:
    """Return why a request is refused, and what to do; empty where it is not.

    The method of a websocket is empty. `is_https`: the browser speaks https, here or with a trusted proxy.
    Browsers send an Origin with every websocket and every method but GET and HEAD: it is required there, except with a
    bearer token, which no other site can send, and of agents, whose route changes nothing. Over plain http its scheme
    may be https: a proxy that speaks TLS hides it.
    """
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    site = site_of(hosts[0]) if len(hosts) == 1 else None
    if path not in PROBES:
        if site is None:
            return "The Host header is missing or malformed."
        if not allowed.has_host(site.host):
            return f"Host {site.host} is not allowed. {_how_to_allow(site.host)}"
    if not origins:
        is_program = path == mcp.PATH or tokens.bearer(headers.getlist("authorization")) is not None
        return "" if method in READING or is_program else "An Origin header is required."
    origin = origin_of(origins[0]) if len(origins) == 1 else None
    if origin is None:
        return "The Origin header is malformed."
    usual = _DEFAULT_PORTS[origin.scheme]
    is_same_site = site is not None and (origin.host, origin.port) == (site.host, site.port or usual)
    is_plain = is_https and origin.scheme != "https"
    if (is_same_site or allowed.has_origin(origin, site)) and not is_plain:
        return ""
    name = f"{origin.scheme}://{origin.authority}"
    why = f"Origin {name} differs from the Host of this request: a proxy must forward Host."
    if is_plain:
        why = f"Origin {name} is not https, as this dashboard is."
    # An entry has no IPv6 address.
    return why if is_plain or ":" in origin.host else f"{why} {_how_to_allow(origin.authority)}"


def _how_to_allow(entry: str) -> str:
    option = f"set allowed_hosts: [{entry}] in fleet.yaml (FLEET_ALLOWED_HOSTS={entry}) and restart"
    return f"If {entry} is a name of this dashboard, {option}."


def security_headers(frame_ancestors: Sequence[str] = (), page: str = "") -> dict[str, str]:
    """Return the headers of every answer; `frame_ancestors` may embed pages, inline scripts of `page` may run."""
    sites = " ".join(frame_ancestors) or "'none'"
    hashes = (hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(page))
    scripts = " ".join(("script-src 'self' blob:", *(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)))
    return {
        "Content-Security-Policy": "; ".join((*POLICY, scripts, f"frame-ancestors {sites}")),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        **({} if frame_ancestors else {"X-Frame-Options": "DENY"}),  # has no list of sites
    }


def middleware(options: Options, address: Callable[[], str], page: Path) -> Middleware:
    """Return the middleware for a server of Streamlit's `page`; `address` is called once the server starts."""
    html = page.read_text(encoding="utf-8")
    headers = security_headers(options.frame_ancestors, with_look(html))
    font = next(page.parent.glob(f"static/media/{FONT}"), None)
    scripts = tuple(each.name for each in page.parent.glob("static/js/*.js"))

    def in_force() -> AccessOptions:
        return (service.options() or options).access

    def edge(app: ASGIApp) -> ASGIApp:
        bound = address().lower()
        folder = None if options.read_only else options.data_folder
        auth = Auth(in_force, configured_sign_ins(options), folder, font)
        gate = Gate(with_first_paint(app, html, scripts), in_force, bound, auth)
        return guarded(gate, AllowedHosts(options.allowed_hosts, bound), headers, auth)

    return Middleware(edge)


def guarded(app: ASGIApp, allowed: AllowedHosts, headers: Mapping[str, str], auth: Auth) -> ASGIApp:
    """Return an app that answers 403 to a foreign Host or Origin; every answer gets `headers`, and `auth` logs why.

    Streamlit gets no Origin, because it would look up its own name to check it.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] in {"http.response.start", "websocket.http.response.start"}:
                MutableHeaders(scope=message).update(headers)
            await send(message)

        request = HTTPConnection(scope)
        is_https = "origin" in request.headers and auth.is_secure(request)  # it is compared with an Origin only
        refused = refusal(scope.get("method", ""), scope["path"], request.headers, allowed, is_https=is_https)
        if not refused:
            passed = [(name, value) for name, value in scope["headers"] if name != b"origin"]
            await app({**scope, "headers": passed}, receive, send_secured)
            return
        auth.note_refused(request, "host", Means.NOBODY, refused)
        response = PlainTextResponse(FOREIGN, status_code=403)
        if scope["type"] == "http":
            await response(scope, receive, send_secured)
        else:
            await WebSocket(scope, receive, send_secured).send_denial_response(response)

    return answer


def with_look(page: str, preloads: tuple[str, ...] = ()) -> str:
    """Return the page with the styles, the first script, and preloads of scripts, by their file names.

    The styles are in the body: Streamlit's own, which come later, are in the head.
    """
    links = "".join(f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in preloads)
    return page.replace(BODY, f"{BODY}<script>{FIRST_SCRIPT}</script>{links}<style>{LOOK}</style>", 1)


def with_first_paint(app: ASGIApp, page: str, scripts: tuple[str, ...] = ()) -> ASGIApp:
    """Return an app that, where `app` answers with `page`, answers with the page and its look.

    `scripts` are the file names of Streamlit's scripts. A browser that asks for a page gets no 304: Streamlit's
    validators do not change when the styles do. The app gets no Accept-Encoding: its own page has to be recognized.
    """
    plain = page.encode()

    def looked(wanted: tuple[str, ...]) -> dict[bool, bytes]:
        """Return the page that preloads these scripts, by whether it is packed."""
        whole = with_look(page, tuple(each for each in scripts if each.startswith(wanted))).encode()
        return {False: whole, True: gzip.compress(whole)}

    usual, charted = looked(SCRIPTS), looked((*SCRIPTS, CHARTS))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await app(scope, receive, send)
            return
        is_packed = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        whole = (charted if scope["path"].rstrip("/").endswith(f"/{CAPACITY}") else usual)[is_packed]
        start: Message | None = None

        async def send_looked(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:  # the first part of the body shows whether it is the page
                if message.get("body") == plain:
                    headers = MutableHeaders(scope=start)
                    for name in ("etag", "last-modified", "accept-ranges"):
                        del headers[name]
                    headers.add_vary_header("Accept-Encoding")
                    if is_packed:
                        headers["content-encoding"] = "gzip"
                    headers["content-length"] = str(len(whole))
                    message = {**message, "body": whole}
                await send(start)
                start = None
            await send(message)

        headers = [(name, value) for name, value in scope["headers"] if name not in DROPPED]
        await app({**scope, "headers": headers}, receive, send_looked)

    return answer
