"""Streamlit's index.html with the styles of the pages: colours and places are right from the first paint."""

import gzip
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.render.html import BLOCK_STYLES

_HERE = Path(__file__).parent
# blocks.css is shared with exports, look.css is the base of pages, a look_*.css is for a part of a page.
LOOK = BLOCK_STYLES + "".join(file.read_text(encoding="utf-8") for file in sorted(_HERE.glob("look*.css")))
BODY = "<body>"
DROPPED = frozenset({b"if-none-match", b"if-modified-since", b"range", b"accept-encoding"})
SCRIPTS = ("Html.", "BidiComponent.")  # those that Streamlit loads on demand and every page needs


def with_look(page: str, preloads: tuple[str, ...] = ()) -> str:
    """Return the page with the styles and with preloads of scripts, by their file names.

    The styles are in the body: Streamlit's own, which come later, are in the head.
    """
    links = "".join(f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in preloads)
    return page.replace(BODY, f"{BODY}{links}<style>{LOOK}</style>", 1)


class FirstPaint:
    """ASGI middleware: where the app answers with `page`, answers with the page and its look."""

    def __init__(self, app: ASGIApp, page: str, scripts: tuple[str, ...] = ()) -> None:
        """Wrap `app`. `scripts` are the file names of Streamlit's scripts."""
        self._app = app
        self._plain = page.encode()
        self._looked = with_look(page, tuple(each for each in scripts if each.startswith(SCRIPTS))).encode()
        self._packed = gzip.compress(self._looked)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on.

        A browser that asks for a page gets no 304: Streamlit's validators do not change when the styles do. The app
        gets no Accept-Encoding: its own page has to be recognized.
        """
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self._app(scope, receive, send)
            return
        is_packed = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        looked = self._packed if is_packed else self._looked
        start: Message | None = None

        async def send_looked(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:  # the first part of the body shows whether it is the page
                if message.get("body") == self._plain:
                    headers = MutableHeaders(scope=start)
                    for name in ("etag", "last-modified", "accept-ranges"):
                        del headers[name]
                    headers.add_vary_header("Accept-Encoding")
                    if is_packed:
                        headers["content-encoding"] = "gzip"
                    headers["content-length"] = str(len(looked))
                    message = {**message, "body": looked}
                await send(start)
                start = None
            await send(message)

        headers = [(name, value) for name, value in scope["headers"] if name not in DROPPED]
        await self._app({**scope, "headers": headers}, receive, send_looked)
