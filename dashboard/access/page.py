"""The small pages of the gate: a title, a sentence, and a link where there is something to do."""

from html import escape
from typing import NamedTuple

from starlette.responses import HTMLResponse

NO_STORE = {"Cache-Control": "no-store"}
STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.55 system-ui,sans-serif;margin:15vh auto;max-width:34rem;"
    "padding:0 1.25rem}h1{font-size:1.4rem;margin:0 0 .5rem}p{margin:0 0 1.25rem;overflow-wrap:anywhere}"
    "a{display:inline-block;padding:.4rem .9rem;border:1px solid #8a94a6;border-radius:.5rem;color:inherit;"
    "text-decoration:none}a:hover,a:focus-visible{text-decoration:underline}"
)


class PageLink(NamedTuple):
    """A link of a small page."""

    text: str
    path: str


NO_ICON = '<link rel="icon" href="data:,">'  # browsers would ask for one, which needs a role
SIGN_IN = PageLink("Sign in", "/auth/login")


def page(
    title: str,
    detail: str,
    status: int,
    link: PageLink | None = None,
    *,
    go_to: str = "",
    headers: dict[str, str] | None = None,
) -> HTMLResponse:
    """Return a page; with `go_to` the browser goes on to that URL by itself.

    A redirect would not do: browsers apply `form-action` of our policy to those after a form.
    """
    refresh = f'<meta http-equiv="refresh" content="0;url={escape(go_to)}">' if go_to else ""
    shown = f'<a href="{escape(link.path)}">{escape(link.text)}</a>' if link else ""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"{refresh}{NO_ICON}<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"
        f"<p>{escape(detail)}</p>{shown}</html>",
        status,
        {**NO_STORE, **(headers or {})},
    )
