"""Uploads have quotas per page and per server, and are freed when the page closes."""

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from dashboard.web.sessions import MIB, SERVER_BYTES, SESSION_BYTES, Uploads

OK = 200


class Served:
    """The middleware before an application that keeps every upload; `active` sessions have an open page."""

    def __init__(self, *active: str) -> None:
        self.files = MemoryUploadedFileManager("/_stcore/upload_file")
        self.active = set(active)
        self.reached = 0
        self._uploads = Uploads(self._app, lambda: self.files, lambda session: session in self.active)

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.reached += 1
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": OK, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def keep(self, session: str, size: int, file: str = "a") -> None:
        self.files.add_file(session, UploadedFileRec(file, file, "x", bytes(size)))

    def ask(
        self, kind: str = "http", path: str = "/healthz", method: str = "GET", length: bytes = b""
    ) -> tuple[int, str]:
        sent: list[Any] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        headers = [(b"content-length", length)] if length else []
        scope = {"type": kind, "path": path, "method": method, "headers": headers}
        asyncio.run(self._uploads(scope, receive, send))
        return (sent[0]["status"], sent[1]["body"].decode()) if sent else (0, "")

    def put(self, session: str, size: int) -> tuple[int, str]:
        return self.ask(path=f"/_stcore/upload_file/{session}/new", method="PUT", length=b"%d" % size)


def test_an_upload_within_the_quota_passes() -> None:
    served = Served("one")
    assert served.put("one", SESSION_BYTES)[0] == OK
    assert served.put("one", SESSION_BYTES)[0] == OK  # the first has arrived
    assert served.reached == 2


def test_a_page_cannot_exceed_its_quota() -> None:
    served = Served("one", "two")
    served.keep("one", SESSION_BYTES)
    assert served.put("one", 1) == (413, "Upload quota exceeded (64 MiB per page): import or remove files first.\n")
    assert served.put("two", 1)[0] == OK


def test_all_pages_cannot_exceed_the_quota_of_the_server() -> None:
    served = Served("one", "two", "three")
    served.keep("one", SESSION_BYTES)
    served.keep("two", SERVER_BYTES - SESSION_BYTES)
    assert served.put("three", 1) == (413, "Upload quota exceeded (128 MiB for all pages): try again later.\n")


def test_an_upload_of_unknown_length_is_refused() -> None:
    assert Served("one").ask(path="/_stcore/upload_file/one/a", method="PUT")[0] == 411


def test_the_uploads_of_a_closed_page_are_freed() -> None:
    served = Served("one")
    served.keep("one", MIB)
    served.keep("closed", MIB)
    served.ask(kind="websocket", path="/_stcore/stream")
    assert list(served.files.file_storage) == ["one"]


def test_other_requests_pass() -> None:
    served = Served()
    assert served.ask()[0] == OK
    assert served.ask(path="/_stcore/upload_file/one/a", method="DELETE")[0] == OK
