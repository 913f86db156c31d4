"""The committed screenshots, and a report that shows changes side by side."""

import html
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.e2e.pictures import difference, looks_like, packed, read, side_by_side

FOLDER = Path(__file__).parent / "screenshots"
RESULTS = Path(__file__).parents[2] / "test-results"
SUFFIX = ".webp"  # of committed pictures; the report has PNG
REPORT = "screenshots.html"
PICTURES = "screenshots"  # the folder next to the report
UPDATE = "UPDATE_SCREENSHOTS"  # environment variable: write pictures instead of comparing them
NEVER_TAKEN = "it was never committed"
GONE = "no page has this state"

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; background: #f3f5f7; color: #1f2933; }
h2 { font-size: 1rem; margin: 2.5rem 0 .2rem; } p { margin: 0 0 .5rem; } img { width: 100%; border: 1px solid #c6ccd2; }
"""


class Change(NamedTuple):
    """A picture that changed. A new one has no `before`, a removed one no `after`."""

    name: str
    sentence: str
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        """Return new, changed or removed."""
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


def is_updating() -> bool:
    """Return whether this run writes pictures."""
    return bool(os.environ.get(UPDATE))


def change_between(name: str, before: bytes | None, after: bytes | None) -> Change | None:
    """Return the visible change of a picture, or None."""
    if before == after:
        return None
    if before is None or after is None:
        return Change(name, NEVER_TAKEN if before is None else GONE, before, after)
    sentence = difference(read(before), read(after))
    return Change(name, sentence, before, after) if sentence else None


def compare(name: str, taken: bytes, folder: Path = FOLDER) -> Change | None:
    """Compare a picture with the committed one. In an update, replace the committed one if it differs."""
    file = folder / f"{name}{SUFFIX}"
    change = change_between(name, file.read_bytes() if file.exists() else None, taken)
    if change is None or not is_updating():
        return change
    folder.mkdir(exist_ok=True)
    file.write_bytes(packed(taken))
    return None


def expected(name: str, folder: Path = FOLDER) -> Callable[[bytes], bool] | None:
    """Return a predicate for pictures that look as committed; None in an update or without a committed picture."""
    file = folder / f"{name}{SUFFIX}"
    return None if is_updating() or not file.exists() else looks_like(file.read_bytes())


def held(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return the pictures in the folder by name."""
    return {file.stem: file.read_bytes() for file in sorted(folder.glob(f"*{SUFFIX}"))}


def committed(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return the pictures of the last commit by name; without git or a commit, those in the folder."""
    archived = subprocess.run(["git", "archive", "--format=tar", "HEAD"], cwd=folder, capture_output=True, check=False)
    if archived.returncode:
        return held(folder)
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as tar:
        files = {Path(each.name).stem: tar.extractfile(each) for each in tar if each.name.endswith(SUFFIX)}
        return {name: file.read() for name, file in files.items() if file}


def orphans(names: Sequence[str], folder: Path = FOLDER) -> list[Path]:
    """Return the files in the folder that belong to no state."""
    return sorted(file for file in folder.iterdir() if file.suffix != SUFFIX or file.stem not in names)


def write_report(changes: Sequence[Change], results: Path = RESULTS) -> Path:
    """Write the changes as one HTML page with pictures, replacing the last report; return its file."""
    shutil.rmtree(results / PICTURES, ignore_errors=True)
    (results / PICTURES).mkdir(parents=True)
    for change in changes:
        pictures = (read(each) if each else None for each in (change.before, change.after))
        side_by_side(*pictures).save(results / PICTURES / f"{change.name}.png")
    report = results / REPORT
    report.write_text(_page(changes), encoding="utf-8")
    return report


def tally(changes: Sequence[Change]) -> str:
    """Return the number of changes of each kind as text."""
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("changed", "new", "removed"))


def _page(changes: Sequence[Change]) -> str:
    parts = "".join(_part(change) for change in changes) or "<p>No picture changed.</p>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Screenshots: {tally(changes)}</title>'
        f"<style>{STYLE}</style><h1>Screenshots: {tally(changes)}</h1>"
        f"<p>From left to right: before, after, difference.</p>{parts}</html>\n"
    )


def _part(change: Change) -> str:
    name, file = html.escape(change.name), html.escape(f"{PICTURES}/{change.name}.png")
    return (
        f'<h2 id="{name}">{name}: {change.kind}</h2><p>{html.escape(change.sentence)}</p>'
        f'<a href="{file}"><img loading="lazy" src="{file}" alt="{name}: before, after, difference"></a>'
    )
