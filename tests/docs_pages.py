"""The documents: their files, code blocks and links."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.serving import ROOT

DOCUMENTS = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
)
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)")
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def docs_page(name: str) -> str:
    """Return the text of a page in docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text()


def schema(name: str) -> Any:
    """Return the published JSON Schema of a document."""
    return json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())


def code_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def links(file: Path, text: str) -> Iterator[tuple[Path, str]]:
    """Yield each link of a document to a file, with the anchor, which is empty for the whole file."""
    for target, anchor in _LINK.findall(text):
        yield (file.parent / target if target else file), anchor


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = _HEADING.findall(_CODE.sub("", text))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
