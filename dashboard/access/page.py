"""The small pages of the gate: a title, a sentence, and a link where there is something to do."""

from html import escape
from typing import NamedTuple

from starlette.responses import HTMLResponse

from dashboard import service
from dashboard.access.routes import AUTH

NO_STORE = {"Cache-Control": "no-store"}
FONT = f"{AUTH}font.woff2"
# Colours and sizes of look.css.
STYLE = (
    f"@font-face{{font-family:'Source Sans';font-weight:200 900;src:url({FONT})}}"
    ":root{color-scheme:light dark;--ink:light-dark(#1f2933,#e4e9ee);--line:light-dark(#d3dae1,#333d47);"
    "background:light-dark(#ffffff,#12171c)}body{font:15px/1.6 'Source Sans',sans-serif;color:var(--ink);margin:0}"
    "header{font-size:1.1em;font-weight:700;line-height:3rem;min-height:3rem;padding:0 1.75rem;"
    "border-bottom:1px solid var(--line);overflow-wrap:anywhere}"
    "main{margin:12vh auto;max-width:34rem;padding:0 1.25rem}"
    "h1{font-size:1.55em;font-weight:650;line-height:1.25;margin:0 0 .5rem}p{margin:0 0 1.25rem;overflow-wrap:anywhere}"
    "a{display:inline-block;padding:.25rem .75rem;border:1px solid var(--line);border-radius:.4rem;color:inherit;"
    "text-decoration:none}a:hover,a:focus-visible{border-color:light-dark(#0072b2,#56b4e9);"
    "color:light-dark(#0072b2,#56b4e9)}"
)


class PageLink(NamedTuple):
    """A link of a small page."""

    text: str
    path: str


NO_ICON = '<link rel="icon" href="data:,">'  # browsers would ask for one, which needs a role
SIGN_IN = PageLink("Sign in", f"{AUTH}login")


def page(
    title: str,
    detail: str,
    status: int,
    link: PageLink | None = None,
    *,
    go_to: str = "",
    headers: dict[str, str] | None = None,
) -> HTMLResponse:
    """Return a page under the name of the fleet; with `go_to` the browser goes on to that URL by itself.

    A redirect would not do: browsers apply `form-action` of our policy to those after a form.
    """
    options = service.options()
    fleet = escape(options.name) if options else ""
    refresh = f'<meta http-equiv="refresh" content="0;url={escape(go_to)}">' if go_to else ""
    shown = f'<a href="{escape(link.path)}">{escape(link.text)}</a>' if link else ""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"{refresh}{NO_ICON}<title>{escape(title)}{f' - {fleet}' if fleet else ''}</title><style>{STYLE}</style>"
        f"<header>{fleet}</header><main><h1>{escape(title)}</h1><p>{escape(detail)}</p>{shown}</main></html>",
        status,
        {**NO_STORE, **(headers or {})},
    )
