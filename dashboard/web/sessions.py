"""What the server knows of visitors: uploads, with quotas, the state of closed pages, who they are, what they may."""

import re
from collections.abc import Callable
from typing import Any

import streamlit as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from dashboard import service
from dashboard.access import audit
from dashboard.access import visitor as access
from dashboard.access.visitor import UNKNOWN_VISITOR, VISITOR_HEADER, Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.config.access import AccessRole
from dashboard.fleet.formatting import uncapitalized
from dashboard.store.packing import StoredSnapshot
from dashboard.web import state

MIB = 2**20
MAX_FILE_BYTES = 32 * MIB  # an export of 1,000 replicas has 5 MB, their poll --full as text 23; also in config.toml
SESSION_BYTES = 64 * MIB
SERVER_BYTES = 128 * MIB
UPLOAD = re.compile(r"/_stcore/upload_file/(?P<session>[^/]+)/")
TOO_LARGE, LENGTH_REQUIRED = 413, 411

# The visitor of a page without a connection, such as one that was closed while it ran; tests set another one.
outside = UNKNOWN_VISITOR


def forget_expired() -> None:
    """Shut down sessions whose page was closed more than `server.disconnectedSessionTTL` ago.

    Streamlit does so only when the next page closes. Until then up to 128 sessions keep their files, their content and
    three file descriptors each. Its store has no public method for this.
    """
    if runtime.exists():
        manager: Any = runtime.get_instance()._session_mgr  # noqa: SLF001
        for _, kept in manager._session_storage._cache.expire():  # noqa: SLF001
            kept.session.shutdown()  # else the next garbage collection does it


def _server_files() -> MemoryUploadedFileManager:
    return runtime.get_instance().uploaded_file_mgr  # type: ignore[return-value]  # Streamlit has only this one


def _has_open_page(session: str) -> bool:
    return runtime.get_instance().is_active_session(session)


class Uploads:
    """ASGI middleware: quotas for uploads per session and server; Streamlit limits single files only."""

    def __init__(
        self,
        app: ASGIApp,
        files: Callable[[], MemoryUploadedFileManager] = _server_files,
        is_active: Callable[[str], bool] = _has_open_page,
    ) -> None:
        """Wrap `app`. `files` returns the uploads; `is_active` whether a session has an open page."""
        self._app = app
        self._files = files
        self._is_active = is_active
        self._in_flight: dict[str, int] = {}  # bytes by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse uploads over a quota; free those of a page when it closes."""
        if scope["type"] == "websocket":
            try:
                await self._app(scope, receive, send)
            finally:
                self._free_closed()
            return
        upload = UPLOAD.search(scope.get("path", "")) if scope.get("method") == "PUT" else None
        if upload is None:
            await self._app(scope, receive, send)
            return
        session, length = upload["session"], _content_length(scope)
        if refused := self._refusal(session, length):
            await refused(scope, receive, send)
            return
        self._in_flight[session] = self._in_flight.get(session, 0) + length
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight[session] -= length
            if not self._in_flight[session]:
                del self._in_flight[session]

    def _refusal(self, session: str, length: int) -> PlainTextResponse | None:
        if not length:
            return PlainTextResponse("Content-Length is required.\n", LENGTH_REQUIRED)
        self._free_closed()
        uploads = list(self._files().file_storage.items())
        stored = {key: sum(len(file.data) for file in list(each.values())) for key, each in uploads}
        if stored.get(session, 0) + self._in_flight.get(session, 0) + length > SESSION_BYTES:
            limit = f"{SESSION_BYTES // MIB} MiB per page"
            return PlainTextResponse(f"Upload quota exceeded ({limit}): import or remove files first.\n", TOO_LARGE)
        if sum(stored.values()) + sum(self._in_flight.values()) + length > SERVER_BYTES:
            limit = f"{SERVER_BYTES // MIB} MiB for all pages"
            return PlainTextResponse(f"Upload quota exceeded ({limit}): try again later.\n", TOO_LARGE)
        return None

    def _free_closed(self) -> None:
        """Free the uploads of sessions without an open page; Streamlit does so minutes later."""
        for session in list(self._files().file_storage):
            if not self._is_active(session):
                self._files().remove_session_files(session)


def _content_length(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


def visitor() -> Visitor:
    """Return who uses the page, as the gate found it when the page was opened."""
    text = st.context.headers.get(VISITOR_HEADER)
    return Visitor.from_header(text) if text is not None else outside


def role() -> AccessRole | None:
    """Return the role of who uses the page, by the options in force."""
    return audit.role_of(visitor())


def missing_role(action: str, control: str = "") -> str:
    """Return which role an action, or the control of this name, needs, where the visitor's does not include it."""
    missing = access.missing_role(action, role())
    return f"{control} {uncapitalized(missing)}" if missing and control else missing


def control(action: str, hint: str | None = None) -> dict[str, Any]:
    """Return arguments of the control of an action: its tooltip; where it is not allowed, disabled, with the role."""
    missing = missing_role(action)
    return {"disabled": bool(missing), "help": missing or hint}


def save_snapshot(fleet: Fleet, name: str) -> StoredSnapshot:
    """Save a fleet as a snapshot, of a cluster the whole; raise DashboardError where that fails or is not allowed."""
    by, fleet = visitor(), state.whole() if fleet.cluster else fleet
    with audit.performed("save", by, name=name) as details:
        stored = service.snapshots().save(fleet, name, service.now(), author=by.author)
        details["snapshot"] = stored.id
    return stored
