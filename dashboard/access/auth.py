"""The session of a browser: its cookie, and the routes below /auth/ that begin, renew and end it."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dashboard import service
from dashboard.access import audit, proxy, tokens
from dashboard.access.keys import SessionKeys
from dashboard.access.page import FONT, NO_STORE, page
from dashboard.access.routes import AUTH, WEBSOCKET
from dashboard.access.sessions import COOKIE, PURPOSE, SessionStore
from dashboard.access.signing_in import OidcRoutes
from dashboard.access.visitor import UNKNOWN, VISITOR_HEADER, Means, NotSignedInError, Visitor
from dashboard.config.access import AccessOptions
from dashboard.errors import HistoryError
from dashboard.fleet.formatting import iso
from dashboard.store.sign_ins import MemorySignIns, SignIn, SignIns

log = logging.getLogger(__name__)

START = "../"  # where a browser is sent after it signed out, also under server.baseUrlPath
SEE_OTHER, BAD_REQUEST, NOT_FOUND, UNAVAILABLE = 303, 400, 404, 503


class Auth:
    """Sign-ins of browsers. One for each gate."""

    def __init__(
        self,
        options: Callable[[], AccessOptions],
        rows: SignIns | None = None,
        folder: Path | None = None,
        font: Path | None = None,
    ) -> None:
        """Read nothing yet. `options` returns those in force. Without `rows` sign-ins are kept in memory.

        `folder` is private, for a key that signs cookies; None: nothing is written. `font` is that of pages.
        """
        self._font_file = font
        self._options = options
        self.sessions = SessionStore(rows or MemorySignIns(), lambda: options().session)
        self.keys = SessionKeys(lambda: options().session, folder)
        self.oidc = OidcRoutes(options, self)

    def routes(self) -> list[Route]:
        return [
            Route(f"{AUTH}session", self._session, methods=["GET"]),
            Route(f"{AUTH}token", self._token, methods=["POST"]),
            Route(f"{AUTH}logout", self._logout, methods=["POST"]),
            Route(f"{AUTH}revoke", self._revoke, methods=["POST"]),
            Route(FONT, self._font),
            *self.oidc.routes(),
        ]

    async def visitor(self, request: HTTPConnection, client: str) -> Visitor | None:
        """Return whom the cookie of a request is of; None without a session. Raise HistoryError."""
        sign_in = await self.sign_in(request)
        if sign_in is None:
            return None
        if sign_in.means == Means.BEARER:
            known = (each for each in self._options().tokens if each.sha256 == sign_in.token)
            entry = next(filter(tokens.is_valid, known), None)
            return Visitor(entry.name, Means.BEARER, frozenset(), sign_in.id, entry.role, client) if entry else None
        if sign_in.means != self._options().mode:
            return None
        if self._options().mode == "oidc" and (sign_in := await self.oidc.current(sign_in)) is None:
            return None
        return Visitor(sign_in.name, Means(sign_in.means), sign_in.groups, sign_in.id, None, client)

    async def sign_in(self, request: HTTPConnection) -> SignIn | None:
        """Return the sign-in of the cookie of a request, which counts as activity; None without one."""
        signed = request.cookies.get(self.cookie_name(COOKIE, request))
        key = self.keys.verify(signed, PURPOSE) if signed else None
        if key is None:
            if signed:
                self.note_refused(request, "session", Means.NOBODY, "No key signed the cookie.")
            return None
        return await run_in_threadpool(self.sessions.find, key)

    async def begin(self, request: HTTPConnection, name: str, means: Means, **more: Any) -> SignIn:
        """Begin a session in place of that of the request, if any; `more` as of SessionStore. Raise HistoryError."""
        before = await self.sign_in(request)
        if before is not None:
            await run_in_threadpool(self.sessions.end, before.id)
        return await run_in_threadpool(partial(self.sessions.begin, name, means, **more))

    def give(self, response: Response, sign_in: SignIn, request: HTTPConnection) -> None:
        """Give a browser the cookie of its sign-in, signed with the newest key."""
        left = max(0, int((sign_in.ends_at - service.utc_now()).total_seconds()))
        self.set_cookie(response, COOKIE, self.keys.sign(sign_in.id, PURPOSE), left, request)

    async def _font(self, _request: Request) -> Response:
        if self._font_file is None:
            return Response(status_code=NOT_FOUND)
        return FileResponse(self._font_file, media_type="font/woff2", headers={"Cache-Control": "max-age=86400"})

    async def _token(self, request: Request) -> Response:
        """Begin a session with the role of the token of the request, which the gate has checked."""
        visitor = Visitor.from_header(request.headers[VISITOR_HEADER])
        text = tokens.bearer(request.headers.getlist("authorization")) or ""
        try:
            entry = tokens.find_token(text, self._options().tokens)
            last = None if entry.expires is None else datetime.combine(entry.expires, time(), UTC) + timedelta(days=1)
            sign_in = await self.begin(request, entry.name, Means.BEARER, token=entry.sha256, ends_at=last)
        except NotSignedInError:
            return JSONResponse({"detail": "Unauthorized: send Authorization: Bearer with a token."}, 401)
        except HistoryError as error:
            return JSONResponse({"detail": str(error)}, UNAVAILABLE)
        audit.noted("sign_in", visitor)
        response = JSONResponse({"name": entry.name, "role": entry.role.word, "ends_at": iso(sign_in.ends_at)})
        self.give(response, sign_in, request)
        return response

    async def _logout(self, request: Request) -> Response:
        """End the session; the browser goes on at the provider or proxy, which signs it out too, else at START."""
        goes_to, access = START, self._options()
        try:
            sign_in = await self.sign_in(request)
            if sign_in is not None:
                await run_in_threadpool(self.sessions.end, sign_in.id)
        except HistoryError as error:
            log.warning("a session does not end: %s", error)
            return page("Not signed out", "Sessions cannot be read. Try again later.", UNAVAILABLE)
        if sign_in is not None:
            by = Visitor(sign_in.name, Means(sign_in.means), sign_in.groups, client=self.client(request))
            audit.noted("sign_out", by)
            goes_to = await self.oidc.sign_out_url(sign_in, request) if by.means is Means.OIDC else START
        elif access.mode == "proxy":
            goes_to = access.proxy.sign_out_url or START
        response: Response = RedirectResponse(START, SEE_OTHER)
        if "application/json" in request.headers.get("accept", ""):
            response = JSONResponse({"next": goes_to})
        elif goes_to != START:  # no redirect: `form-action` of our policy counts for those after a form
            response = page("Signed out", "The provider signs out, too.", 200, go_to=goes_to)
        self.set_cookie(response, COOKIE, "", 0, request)
        return response

    def _revoke(self, request: Request) -> Response:
        """End all sessions of a name; only admins pass the gate. It runs in a thread."""
        visitor, name = Visitor.from_header(request.headers[VISITOR_HEADER]), request.query_params.get("name", "")
        if not name:
            return JSONResponse({"detail": "Bad request: whose sessions? ?name=ann@example.com"}, BAD_REQUEST)
        try:
            with audit.performed("revoke", visitor, name=name) as details:
                details["ended"] = self.sessions.end_all(name)
        except HistoryError as error:
            return JSONResponse({"detail": str(error)}, UNAVAILABLE)
        if not details["ended"]:
            return JSONResponse({"detail": f"Not found: no session of {name}, spelled so."}, NOT_FOUND)
        return JSONResponse({"ended": details["ended"]})

    async def _session(self, request: Request) -> Response:
        """Answer who the visitor is, and renew the cookie; pages ask regularly."""
        visitor = Visitor.from_header(request.headers[VISITOR_HEADER])
        role = visitor.role(self._options())
        sign_in = await self.sign_in(request) if visitor.session else None
        end = iso(sign_in.ends_at) if sign_in else None
        body = {"name": visitor.name, "means": visitor.means, "role": role.word if role else None, "ends_at": end}
        response = JSONResponse(body, headers=NO_STORE)
        if sign_in is not None:
            self.give(response, sign_in, request)
        return response

    def is_secure(self, request: HTTPConnection) -> bool:
        """Return whether the browser speaks https."""
        access = self._options()
        is_https_url = access.oidc is not None and (access.oidc.url or "").startswith("https:")
        return is_https_url or proxy.is_https(request.scope, access)

    def cookie_name(self, name: str, request: HTTPConnection) -> str:
        """Return the name of a cookie; over https one that no other host can set."""
        return f"__Host-{name}" if self.is_secure(request) else name

    def set_cookie(self, response: Response, name: str, value: str, seconds: int, request: HTTPConnection) -> None:
        """Give a browser a cookie that no script reads, for some seconds; 0: it forgets the cookie."""
        response.set_cookie(
            self.cookie_name(name, request),
            value,
            max_age=seconds,
            secure=self.is_secure(request),
            httponly=True,
            samesite="lax",
        )
        response.headers["Cache-Control"] = "no-store"

    def client(self, request: HTTPConnection) -> str:
        """Return the address of the client; behind trusted proxies the forwarded one."""
        return proxy.client_of(proxy.peer_of(request.scope), request.headers, self._options())

    def note_refused(self, request: HTTPConnection, event: str, who: Visitor | Means, reason: str) -> None:
        """Log why a request is refused, which its visitor does not read; `who` is a means where nobody is known."""
        visitor = who if isinstance(who, Visitor) else Visitor(UNKNOWN, who, client=self.client(request))
        asked = tokens.OUR_TOKEN.sub("TOKEN", f"{request.scope.get('method', WEBSOCKET)} {request.scope['path']}")
        audit.noted(event, visitor, audit.REFUSED, reason, request=asked)
