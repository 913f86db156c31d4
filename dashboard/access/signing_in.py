"""Mode oidc in the gate: the routes to the provider and back, and the groups of its sessions."""

import hmac
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dashboard.access import audit
from dashboard.access.attempts import FailureCounts
from dashboard.access.page import NO_STORE, SIGN_IN, PageLink, page
from dashboard.access.routes import AUTH
from dashboard.access.visitor import (
    ForbiddenError,
    Identity,
    Means,
    NotSignedInError,
    PendingSignIn,
    UnavailableError,
    Visitor,
    no_role,
)
from dashboard.config.access import AccessOptions
from dashboard.errors import DashboardError, HistoryError
from dashboard.store.sign_ins import SignIn

if TYPE_CHECKING:
    from dashboard.access.auth import Auth
    from dashboard.access.oidc import OpenIdProvider

log = logging.getLogger(__name__)

LOGIN, CALLBACK, SIGNED_OUT = f"{AUTH}login", f"{AUTH}callback", f"{AUTH}signed-out"
NEXT, AGAIN, AWAY = "next", "again", "away"  # parameters; AWAY: the provider did not answer
START = "/"
SEE_OTHER, BAD_REQUEST, FORBIDDEN, NOT_FOUND, TOO_MANY, UNAVAILABLE = 303, 400, 403, 404, 429, 503
COOKIE, PURPOSE, REFUSED = "fleet_sign_in_", "sign-in", "refused"
COOKIE_CHARACTERS = 8  # of the state, in the name: several tabs may sign in at once
MOST_COOKIES = 10
PENDING_SECONDS = 600
MOST_STARTS = 60  # of a client in a minute
RETRY_SECONDS = 60.0  # between two attempts to refresh groups while something is down
NEEDS_EXTRA = "access.mode oidc needs Authlib: pip install -r requirements-auth.txt."
SOMEBODY_ELSE = PageLink("Sign in as somebody else", f"{LOGIN}?{AGAIN}=1")


class OidcRoutes:
    """Sign-in at the provider of the options in force, for the sessions of `auth`."""

    def __init__(self, options: Callable[[], AccessOptions], auth: "Auth") -> None:
        self._options = options
        self._auth = auth
        self._known: OpenIdProvider | None = None
        self._starts = FailureCounts(MOST_STARTS)
        self._paused_until = 0.0  # while a request refreshes groups, and a minute after a failure

    def routes(self) -> list[Route]:
        return [Route(LOGIN, self._login), Route(CALLBACK, self._callback), Route(SIGNED_OUT, self._signed_out)]

    def _provider(self) -> "OpenIdProvider":
        """Return the provider; raise UnavailableError where the options name none."""
        try:
            from dashboard.access.oidc import OpenIdProvider  # noqa: PLC0415  the extra `auth`
        except ImportError:  # a reload may have named the provider
            raise UnavailableError(NEEDS_EXTRA) from None
        access = self._options()
        if access.mode != "oidc" or access.oidc is None:
            raise UnavailableError("access.mode is not oidc.")
        if self._known is None or self._known.options != access.oidc:
            self._known = OpenIdProvider(access.oidc)
        return self._known

    async def _login(self, request: Request) -> Response:
        """Send the browser to the provider; a signed cookie keeps what only this browser may end."""
        if self._options().mode != "oidc":
            return page("Not found", "This dashboard has no page for signing in.", NOT_FOUND)
        if seconds := math.ceil(self._starts.add(self._auth.client(request))):
            detail = f"More than {MOST_STARTS} sign-ins in a minute; try again in {seconds} s."
            return page("Too many requests", detail, TOO_MANY, headers={"Retry-After": str(seconds)})
        try:
            provider = self._provider()
            begun = PendingSignIn.begin(request.query_params.get(NEXT, START))
            url = await provider.authorization_url(
                begun, self._url(request, CALLBACK), again=AGAIN in request.query_params
            )
        except UnavailableError as error:
            return _unavailable(error)
        response = RedirectResponse(url, SEE_OTHER, NO_STORE)
        pending = [name for name in request.cookies if COOKIE in name]
        for name in pending if len(pending) >= MOST_COOKIES else ():
            self._auth.set_cookie(response, name.removeprefix("__Host-"), "", 0, request)
        signed = self._auth.keys.sign([int(time.time()), *begun], PURPOSE)
        self._auth.set_cookie(response, _cookie(begun.state), signed, PENDING_SECONDS, request)
        return response

    async def _callback(self, request: Request) -> Response:
        """End a sign-in: begin a session under a new id, whatever cookie the browser had before."""
        answer = dict(request.query_params)
        fields = self._kept(request, answer.get("state", ""), PURPOSE)
        begun = PendingSignIn(*fields) if fields else None
        if begun is None or len(answer) != len(request.query_params.multi_items()):
            try:
                if await self._auth.sign_in(request) is not None:  # the button back
                    return RedirectResponse(START, SEE_OTHER, NO_STORE)
            except HistoryError as error:
                return _unavailable(error)
            if refused := self._kept(request, answer.get("state", ""), REFUSED):  # the page is loaded again
                return page("Forbidden", refused[1], FORBIDDEN, SOMEBODY_ELSE)
            detail = "It began in another browser, more than 10 minutes ago, or has ended already."
            self._auth.note_refused(request, "sign_in", Means.OIDC, detail)
            return page("Sign-in failed", detail, BAD_REQUEST, SIGN_IN)
        cookie = "", 0
        try:
            response = await self._ended(request, begun, answer)
        except ForbiddenError as error:
            response = page("Forbidden", str(error), FORBIDDEN, SOMEBODY_ELSE)
            kept = [int(time.time()), begun.state, str(error)]
            cookie = self._auth.keys.sign(kept, REFUSED), PENDING_SECONDS
        self._auth.set_cookie(response, _cookie(begun.state), *cookie, request)
        return response

    async def _ended(self, request: Request, begun: PendingSignIn, answer: Mapping[str, str]) -> Response:
        """Redeem the answer of the provider. Raise ForbiddenError for somebody without a role."""
        try:
            found = await self._provider().redeem(answer, begun, self._url(request, CALLBACK))
        except NotSignedInError as error:
            self._auth.note_refused(request, "sign_in", Means.OIDC, str(error))
            return page("Sign-in failed", str(error), FORBIDDEN, SIGN_IN)
        except UnavailableError as error:
            return _unavailable(error)
        visitor = Visitor(found.name, Means.OIDC, found.groups, client=self._auth.client(request))
        if visitor.role(self._options()) is None:
            groups = ", ".join(sorted(found.groups)) or "none: the provider sent none"
            self._auth.note_refused(request, "sign_in", visitor, f"No role. Groups: {groups}.")
            raise ForbiddenError(no_role(found.name))
        response = RedirectResponse(begun.next, SEE_OTHER, NO_STORE)
        try:
            more = {"groups": found.groups, "sealed": self._sealed(found)}
            sign_in = await self._auth.begin(request, found.name, Means.OIDC, **more)
        except HistoryError as error:
            return _unavailable(error)
        self._auth.give(response, sign_in, request)
        audit.noted("sign_in", visitor)
        return response

    async def _signed_out(self, request: Request) -> Response:
        """Answer where browsers go after sign-out; an open page that has no session anymore sends its own path."""
        link = SIGN_IN._replace(path=f"{LOGIN}?{urlencode({NEXT: request.query_params.get(NEXT, START)})}")
        here = "The provider did not answer: you may be signed in there. " if AWAY in request.query_params else ""
        return page("Signed out", f"{here}Close the browser if others use it.", 200, link)

    async def current(self, sign_in: SignIn) -> SignIn | None:
        """Return a sign-in with the groups of today; None where the provider has ended it.

        One request refreshes them, others go on with what is known. While the provider or the database is gone,
        sign-ins go on as they are, and one request a minute tries again.
        """
        options, sessions = self._options().oidc, self._auth.sessions
        if options is None or time.monotonic() < self._paused_until:
            return sign_in
        if sessions.age(sign_in).total_seconds() < options.refresh_seconds:
            return sign_in
        self._paused_until = time.monotonic() + RETRY_SECONDS
        found: SignIn | None = sign_in
        try:
            age = timedelta(seconds=options.refresh_seconds - RETRY_SECONDS)
            if await run_in_threadpool(sessions.claim, sign_in, age):
                found = await self._refreshed(sign_in)
            self._paused_until = 0.0
        except (UnavailableError, HistoryError) as error:
            log.warning("the groups of %s are not refreshed: %s", sign_in.name, error)
        return found

    async def _refreshed(self, sign_in: SignIn) -> SignIn | None:
        """Return a sign-in with new groups; None, and end it, where the provider has. Raise as its parts do."""
        known, sessions = self._unsealed(sign_in), self._auth.sessions
        if known is None or not known.refresh_token:
            return await run_in_threadpool(sessions.refresh, sign_in, sign_in.groups, sign_in.sealed)
        try:
            found = await self._provider().refresh(known)
        except NotSignedInError as error:
            await run_in_threadpool(sessions.end, sign_in.id)
            audit.noted("sign_out", Visitor(sign_in.name, Means.OIDC, sign_in.groups), reason=str(error))
            return None
        return await run_in_threadpool(sessions.refresh, sign_in, found.groups, self._sealed(found))

    async def sign_out_url(self, sign_in: SignIn, request: Request) -> str:
        """Return where a browser goes on that signed out: the provider, or a page where that offers none."""
        known = self._unsealed(sign_in)
        try:
            back = self._url(request, SIGNED_OUT)
            return await self._provider().sign_out_url(known.id_token if known else "", back) or SIGNED_OUT
        except UnavailableError:
            return f"{SIGNED_OUT}?{AWAY}=1"

    def _sealed(self, found: Identity) -> bytes:
        return self._auth.keys.seal(json.dumps([found.issuer, found.subject, found.refresh_token, found.id_token]))

    def _unsealed(self, sign_in: SignIn) -> Identity | None:
        """Return whom the tokens of a sign-in are of; None where there are none, or its key is gone."""
        text = self._auth.keys.unseal(sign_in.sealed) if sign_in.sealed else None
        if text is None:
            return None
        issuer, subject, refresh_token, id_token = json.loads(text)
        return Identity(issuer, subject, sign_in.name, sign_in.groups, refresh_token, id_token)

    def _kept(self, request: Request, state: str, purpose: str) -> list[str] | None:
        """Return what this browser keeps of its sign-in with a state, which is first; None for another, or an old one.

        It is a PendingSignIn, or after a refusal its sentence.
        """
        cookie = self._auth.cookie_name(_cookie(state), request)
        signed = self._auth.keys.verify(request.cookies.get(cookie, ""), purpose)
        if signed is None:
            return None
        began, *fields = signed
        is_own = hmac.compare_digest(fields[0].encode(), state.encode(errors="replace"))
        return fields if is_own and time.time() - began < PENDING_SECONDS else None

    def _url(self, request: Request, path: str) -> str:
        """Return the URL of a path for the provider: of `access.oidc.url`, else under the name of the request."""
        options = self._options().oidc
        scheme = "https" if self._auth.is_secure(request) else "http"
        return f"{options.url if options and options.url else f'{scheme}://{request.url.netloc}'}{path}"


def _cookie(state: str) -> str:
    return f"{COOKIE}{state[:COOKIE_CHARACTERS]}"


def login_path(request: HTTPConnection) -> str:
    """Return where a browser signs in, to go on at the page of a request."""
    path, query = quote(request.scope["path"]), request.scope["query_string"].decode("latin-1")
    return f"{LOGIN}?{urlencode({NEXT: f'{path}?{query}' if query else path})}"


def _unavailable(error: DashboardError) -> Response:
    log.warning("sign-in is not available: %s", error)
    return page("Sign-in is not available", "Try again later, or ask an administrator.", UNAVAILABLE, SIGN_IN)
