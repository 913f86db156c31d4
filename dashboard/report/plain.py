"""Foreign text on one line: what cannot be seen, or would move what is seen, is made visible."""

from __future__ import annotations

import re

# Control characters, what turns the direction of a line, what is invisible, and what no file in UTF-8 or XML can hold.
CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    r"\U000e0000-\U000e007f]"
)


def plain(text: str, longest: int = 200) -> str:
    """Return foreign text fit for one line of a terminal."""
    text = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
