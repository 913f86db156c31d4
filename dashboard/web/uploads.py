"""Files that browsers upload: a quota of each session and of the server, and freed when a session's page is closed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from streamlit import runtime

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

MIB = 2**20
MAX_FILE_BYTES = 32 * MIB  # an export of 1,000 replicas has 5 MB, their poll --full as text 23; config.toml has it, too
SESSION_BYTES = 64 * MIB
SERVER_BYTES = 128 * MIB
UPLOAD = re.compile(r"/_stcore/upload_file/(?P<session>[^/]+)/")
TOO_LARGE, LENGTH_REQUIRED = 413, 411


def _of_the_server() -> MemoryUploadedFileManager:
    return runtime.get_instance().uploaded_file_mgr  # type: ignore[return-value]  # the only one that Streamlit has


def _is_active(session: str) -> bool:
    return runtime.get_instance().is_active_session(session)


class Uploads:
    """Middleware before Streamlit's own route, which has no limit but that of one file."""

    def __init__(
        self,
        app: ASGIApp,
        files: Callable[[], MemoryUploadedFileManager] = _of_the_server,
        is_active: Callable[[str], bool] = _is_active,
    ) -> None:
        """`files` gives what was uploaded; `is_active` tells whether a session has an open page."""
        self._app = app
        self._files = files
        self._is_active = is_active
        self._coming: dict[str, int] = {}  # bytes of each session that are on their way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what is over a quota; after a page was closed, free what it uploaded."""
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
        session, length = upload["session"], _length(scope)
        if refused := self._refused(session, length):
            await refused(scope, receive, send)
            return
        self._coming[session] = self._coming.get(session, 0) + length
        try:
            await self._app(scope, receive, send)
        finally:
            self._coming[session] -= length
            if not self._coming[session]:
                del self._coming[session]

    def _refused(self, session: str, length: int) -> PlainTextResponse | None:
        if not length:
            return PlainTextResponse("An upload needs Content-Length.\n", LENGTH_REQUIRED)
        self._free_closed()
        held = list(self._files().file_storage.items())
        stored = {key: sum(len(file.data) for file in list(each.values())) for key, each in held}
        own = stored.get(session, 0) + self._coming.get(session, 0) + length
        every = sum(stored.values()) + sum(self._coming.values()) + length
        if own > SESSION_BYTES:
            return _over(f"One page may hold uploads of {SESSION_BYTES // MIB} MiB; import or remove some first.")
        if every > SERVER_BYTES:
            return _over(f"All pages together may hold uploads of {SERVER_BYTES // MIB} MiB; try again later.")
        return None

    def _free_closed(self) -> None:
        """Free what sessions uploaded that have no page any more; Streamlit does so minutes later."""
        for session in list(self._files().file_storage):
            if not self._is_active(session):
                self._files().remove_session_files(session)


def _length(scope: Scope) -> int:
    told = dict(scope["headers"]).get(b"content-length", b"")
    return int(told) if told.isdigit() else 0


def _over(said: str) -> PlainTextResponse:
    return PlainTextResponse(f"{said}\n", TOO_LARGE)
