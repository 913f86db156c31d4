"""The table of routes and roles in SECURITY.md, written from the table of the gate."""

from pathlib import Path

from dashboard.access.routes import OTHERS, TABLE, WEBSOCKET, RouteRole
from dashboard.config.access import AccessRole

PAGE = Path(__file__).parents[2] / "SECURITY.md"
BEGIN, END = "<!-- Routes, written by `make docs`. -->", "<!-- End of the routes. -->"
MARK = "yes"


def page_text(page: str) -> str:
    """Return the page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def table() -> str:
    """Return the table in Markdown: a column for each role, and one for a request without any."""
    roles = [None, *AccessRole]
    head = " | ".join("nobody" if role is None else role.word for role in roles)
    rows = [
        f"| route | method | | {head} |",
        f"| --- | --- | --- |{' --- |' * len(roles)}",
        *(_row(each) for each in TABLE),
        _row(RouteRole("all else", frozenset({"other"}), OTHERS, "answered 404 or 405")),
    ]
    return "\n".join(rows)


def _row(entry: RouteRole) -> str:
    lowest = 0 if entry.role is None else entry.role
    marks = " | ".join(MARK if role >= lowest else "" for role in (0, *AccessRole))
    methods = ", ".join(sorted(entry.methods)).replace(WEBSOCKET, "websocket")
    pattern = f"`{entry.pattern}`" if entry.pattern.startswith("/") else entry.pattern
    return f"| {pattern} | {methods} | {entry.what} | {marks} |"
