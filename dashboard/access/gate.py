"""The gate before all pages and routes: who a request is from, and whether the role of that visitor is enough."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from ipaddress import ip_address
from math import ceil
from typing import NamedTuple

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from dashboard.access import audit, proxy, tokens
from dashboard.access.attempts import MOST_FAILURES, FailureCounts
from dashboard.access.auth import Auth
from dashboard.access.keys import configured_keys
from dashboard.access.page import NO_STORE, PageLink, page
from dashboard.access.routes import AUTH, OTHERS, READING, WEBSOCKET, needed, own_path
from dashboard.access.signing_in import NEEDS_EXTRA, SEE_OTHER, SOMEBODY_ELSE, login_path
from dashboard.access.visitor import VISITOR_HEADER, Means, NotSignedInError, Visitor, no_role
from dashboard.config.access import AccessOptions, AccessRole
from dashboard.errors import HistoryError, OptionsError
from dashboard.sources.http import credentials

log = logging.getLogger(__name__)

RECHECK_SECONDS = 15.0  # of an open websocket
PROXY_SECONDS = 900.0  # of one behind a proxy, which checks a sign-in only when a connection is opened
POLICY_VIOLATION = 1008  # code of a closed websocket
BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, TOO_MANY, UNAVAILABLE = 400, 401, 403, 429, 503
HOW_BY_PROGRAM = "send Authorization: Bearer with a token of access.tokens"
LOOPBACK_NAME = "localhost"
REFUSED_HEADER = "X-Fleet-Access"  # of the answers of the gate, not of a route


class Refusal(NamedTuple):
    """Why a request is refused, for its visitor: the log has details. 401: nobody is known; 403: the role is too low.

    `is_guess`: the token was wrong, which is limited for each client. `who` has sent it, for the log.
    """

    status: int
    detail: str
    is_guess: bool = False
    who: Visitor | Means = Means.BEARER
    retry_seconds: int = 0


def is_loopback(address: str) -> bool:
    """Return whether only programs of this machine reach an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == LOOPBACK_NAME


def address_mistake(access: AccessOptions, address: str) -> str:
    """Return why the dashboard must not be served at an address, and what to do; empty where it may."""
    if access.mode != "none" or access.allow_anonymous is not None or is_loopback(address):
        return ""
    return (
        f"{address} is not loopback, and everybody who reaches it would be admin: set access.mode in fleet.yaml, or "
        "access.allow_anonymous: viewer (FLEET_ACCESS__ALLOW_ANONYMOUS=viewer)."
    )


def start_mistake(access: AccessOptions, address: str) -> str:
    """Return why the dashboard cannot be served, and what to do; empty where it can."""
    try:
        configured_keys(access.session)
    except OptionsError as error:
        return f"{error}."
    if access.mode == "oidc" and find_spec("authlib") is None:
        return NEEDS_EXTRA
    secret = access.oidc.secret if access.mode == "oidc" and access.oidc is not None else None
    if secret is not None and (found := credentials.find(secret)).token is None:
        return f"access.oidc has no client secret: {found.missing}."
    return address_mistake(access, address)


class Gate:
    """ASGI middleware: lets a request pass to `app` in the name of a visitor, or refuses it."""

    def __init__(
        self, app: ASGIApp, options: Callable[[], AccessOptions], address: str, auth: Auth | None = None
    ) -> None:
        """Wrap `app`. `options` returns those in force, `address` is that of the server, `auth` has the sessions."""
        self._app = app
        self._options = options
        self._is_local = is_loopback(address)
        self._auth = auth or Auth(options)
        self._auth_routes = Router(self._auth.routes())
        self._attempts = FailureCounts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without the role that its route needs; pass others on with the header of their visitor."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        role = needed(scope["path"], scope.get("method", WEBSOCKET))
        found: Visitor | Refusal | None = None
        if tokens.is_in_url(scope):
            found = Refusal(BAD_REQUEST, f"Bad request: a URL must have no token. Instead {HOW_BY_PROGRAM}.")
            self._auth.note_refused(request, "token_in_url", Means.BEARER, found.detail)
        elif role is not None:
            found = await self._admitted(request, role)
        if isinstance(found, Refusal):
            await self._refuse(self._limited(found, request), scope, receive, send)
            return
        passed = _with_visitor(scope, found)
        if (path := own_path(scope["path"])).startswith(AUTH):
            # Without the app around it the router itself answers 404 and 405.
            passed = {name: value for name, value in passed.items() if name != "app"} | {"path": path}
            await self._auth_routes(passed, receive, send)
        elif scope["type"] == "websocket" and isinstance(found, Visitor):
            await self._watched(found, passed, receive, send)
        else:
            await self._app(passed, receive, send)

    async def _visitor(self, request: HTTPConnection) -> Visitor | Refusal:
        """Return who a request is from: by its token, its session, the headers of a proxy, else anonymous."""
        access, client = self._options(), self._auth.client(request)
        token = tokens.bearer(request.headers.getlist("authorization"))
        if token is not None:
            try:
                found = tokens.find_token(token, access.tokens)
                return Visitor(found.name, Means.BEARER, fixed=found.role, client=client)
            except NotSignedInError as error:
                who = replace(error.who, client=client) if error.who else Means.BEARER
                return Refusal(UNAUTHORIZED, f"Unauthorized: {error}", is_guess=True, who=who)
        try:
            visitor = await self._auth.visitor(request, client)
            if visitor is None and access.mode == "proxy":
                visitor = await proxy.visitor_of(proxy.peer_of(request.scope), request.headers, access)
        except HistoryError as error:
            log.warning("sessions cannot be read: %s", error)
            return Refusal(UNAVAILABLE, "Unavailable: sessions cannot be read. Try again later.")
        except NotSignedInError as error:
            self._auth.note_refused(request, "sign_in", Means.PROXY, str(error))
            return Refusal(UNAUTHORIZED, "Unauthorized: sign in at the proxy.")
        everybody = access.allow_anonymous or (AccessRole.ADMIN if self._is_local else None)
        if visitor is None and access.mode == "none" and everybody is not None:
            return Visitor("anonymous", Means.NOBODY, fixed=everybody, client=client)
        return visitor or Refusal(UNAUTHORIZED, "Unauthorized: sign in.")

    async def _admitted(self, request: HTTPConnection, role: AccessRole) -> Visitor | Refusal:
        """Return who a request is from, where that role is enough; what programs do is in the audit log."""
        visitor = await self._visitor(request)
        if isinstance(visitor, Refusal):
            return visitor
        mine = visitor.role(self._options())
        if mine is None or mine < role:
            why = f"this needs role {role.word}; yours is {mine.word}." if mine else no_role(visitor.name)
            self._auth.note_refused(request, "access", visitor, why)
            return Refusal(FORBIDDEN, f"Forbidden: {why}")
        if visitor.means is Means.BEARER and not visitor.session:
            audit.noted("token", visitor)
        return visitor

    def _limited(self, refused: Refusal, request: HTTPConnection) -> Refusal:
        """Count a wrong token; return another refusal where its client sent too many.

        A right token always passes: who shares the address of somebody that guesses must not be shut out.
        """
        if not refused.is_guess:
            return refused
        self._auth.note_refused(request, "token", refused.who, refused.detail)
        if not (seconds := ceil(self._attempts.add(self._auth.client(request)))):
            return refused
        detail = f"Too many requests: {MOST_FAILURES} wrong tokens in a minute; try again in {seconds} s."
        return refused._replace(status=TOO_MANY, detail=detail, retry_seconds=seconds)

    async def _refuse(self, refused: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        response = _response(refused, HTTPConnection(scope), self._options())
        if scope["type"] == "http":
            await response(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(response)

    async def _watched(self, visitor: Visitor, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a websocket until its visitor is another one or may no longer have it: browsers connect again."""
        last = time.monotonic() + (PROXY_SECONDS if visitor.means is Means.PROXY else float("inf"))
        request, role = HTTPConnection(scope), needed(scope["path"], WEBSOCKET) or OTHERS

        async def watch() -> None:
            try:
                while time.monotonic() < last:
                    await asyncio.sleep(RECHECK_SECONDS)
                    if await self._admitted(request, role) != visitor:
                        break
            except Exception:
                log.exception("a websocket is closed: its visitor cannot be checked again")

        async def receive_until_ended() -> Message:
            if not watching.done():
                message = asyncio.ensure_future(receive())
                await asyncio.wait({message, watching}, return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    return message.result()
                message.cancel()
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "sign-in ended"})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}

        async def send_until_ended(message: Message) -> None:
            if not watching.done():
                await send(message)

        watching = asyncio.create_task(watch())
        try:
            await self._app(scope, receive_until_ended, send_until_ended)
        finally:
            watching.cancel()


def _with_visitor(scope: Scope, visitor: Visitor | None) -> Scope:
    """Return a request with the header of its visitor; what the client sent under that name is dropped."""
    name = VISITOR_HEADER.lower().encode()
    headers = [each for each in proxy.without_underscores(scope["headers"]) if each[0] != name]
    if visitor is not None:
        headers.append((name, visitor.to_header().encode("ascii")))
    return {**scope, "headers": headers}


def _response(refused: Refusal, request: HTTPConnection, access: AccessOptions) -> Response:
    """Return the answer to a refused request: a page for a browser that asks for one, else JSON."""
    is_signed_out = access.mode == "oidc" and refused.status == UNAUTHORIZED and not refused.is_guess
    extra = {**NO_STORE, REFUSED_HEADER: "signed-out" if is_signed_out else "refused"}
    if refused.status == UNAUTHORIZED:
        extra["WWW-Authenticate"] = "Bearer"
    if refused.retry_seconds:
        extra["Retry-After"] = str(refused.retry_seconds)
    if request.scope.get("method") in READING and "text/html" in request.headers.get("accept", ""):
        if is_signed_out:
            return RedirectResponse(login_path(request), SEE_OTHER, NO_STORE)
        title, _, rest = refused.detail.partition(": ")
        out = access.proxy.sign_out_url if access.mode == "proxy" else None
        link = SOMEBODY_ELSE if access.mode == "oidc" else PageLink("Sign out", out) if out else None
        shown = link if refused.status == FORBIDDEN else None
        return page(title, f"{rest[:1].upper()}{rest[1:]}", refused.status, shown, headers=extra)
    is_new = refused.status == UNAUTHORIZED and not refused.is_guess
    hint = f" Programs {HOW_BY_PROGRAM}." if is_new else ""
    return JSONResponse({"detail": f"{refused.detail}{hint}"}, refused.status, extra)
