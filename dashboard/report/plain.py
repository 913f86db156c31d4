"""Foreign text on one line, cut at its end."""

from dashboard.fleet.formatting import one_line


def plain(text: str, longest: int = 200) -> str:
    """Return foreign text fit for one line of a terminal."""
    text = one_line(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
