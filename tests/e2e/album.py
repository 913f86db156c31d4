"""The committed screenshots, and a report in which what changed stands side by side."""

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
SUFFIX = ".webp"  # of what is committed; what stands side by side is PNG, which everything opens
REPORT = "screenshots.html"
PICTURES = "screenshots"  # the folder beside the report
UPDATE = "UPDATE_SCREENSHOTS"  # set in the environment: pictures are taken, and nothing fails
NEVER_TAKEN = "it was never committed"
GONE = "no page has this state any more"

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; background: #f3f5f7; color: #1f2933; }
h2 { font-size: 1rem; margin: 2.5rem 0 .2rem; } p { margin: 0 0 .5rem; } img { width: 100%; border: 1px solid #c6ccd2; }
"""


class Change(NamedTuple):
    """A picture that is not what it was. One of the two may not be there."""

    name: str
    sentence: str
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        """Say in one word what became of the picture."""
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


def is_updating() -> bool:
    """Say whether pictures are taken anew in this run."""
    return bool(os.environ.get(UPDATE))


def change_between(name: str, before: bytes | None, after: bytes | None) -> Change | None:
    """Tell how a picture changed so that it is seen; None when it did not."""
    if before == after:
        return None
    if before is None or after is None:
        return Change(name, NEVER_TAKEN if before is None else GONE, before, after)
    sentence = difference(read(before), read(after))
    return Change(name, sentence, before, after) if sentence else None


def compare(name: str, taken: bytes, folder: Path = FOLDER) -> Change | None:
    """Compare a picture with the committed one. In an update it takes that one's place, if it differs at all."""
    file = folder / f"{name}{SUFFIX}"
    change = change_between(name, file.read_bytes() if file.exists() else None, taken)
    if change is None or not is_updating():
        return change
    folder.mkdir(exist_ok=True)
    file.write_bytes(packed(taken))
    return None


def expected(name: str, folder: Path = FOLDER) -> Callable[[bytes], bool] | None:
    """Return what tells whether a picture looks as committed; None in an update, and where none is committed."""
    file = folder / f"{name}{SUFFIX}"
    return None if is_updating() or not file.exists() else looks_like(file.read_bytes())


def held(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return the pictures in the folder by their names."""
    return {file.stem: file.read_bytes() for file in sorted(folder.glob(f"*{SUFFIX}"))}


def committed(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return the pictures of the last commit by their names; without git or a commit, those in the folder."""
    archived = subprocess.run(["git", "archive", "--format=tar", "HEAD"], cwd=folder, capture_output=True, check=False)
    if archived.returncode:
        return held(folder)
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as tar:
        files = {Path(each.name).stem: tar.extractfile(each) for each in tar if each.name.endswith(SUFFIX)}
        return {name: file.read() for name, file in files.items() if file}


def orphans(names: Sequence[str], folder: Path = FOLDER) -> list[Path]:
    """Return the files in the folder that are the picture of no state."""
    return sorted(file for file in folder.iterdir() if file.suffix != SUFFIX or file.stem not in names)


def write_report(changes: Sequence[Change], results: Path = RESULTS) -> Path:
    """Write what changed as one page with its pictures beside it, in place of the last report; return its file."""
    shutil.rmtree(results / PICTURES, ignore_errors=True)
    (results / PICTURES).mkdir(parents=True)
    for change in changes:
        pictures = (read(each) if each else None for each in (change.before, change.after))
        side_by_side(*pictures).save(results / PICTURES / f"{change.name}.png")
    report = results / REPORT
    report.write_text(_page(changes), encoding="utf-8")
    return report


def tally(changes: Sequence[Change]) -> str:
    """Count the changes of each kind in words."""
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("changed", "new", "removed"))


def _page(changes: Sequence[Change]) -> str:
    parts = "".join(_part(change) for change in changes) or "<p>Every picture is as it was.</p>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Screenshots: {tally(changes)}</title>'
        f"<style>{STYLE}</style><h1>Screenshots: {tally(changes)}</h1>"
        f"<p>From left to right: before, after, and what differs.</p>{parts}</html>\n"
    )


def _part(change: Change) -> str:
    name, file = html.escape(change.name), html.escape(f"{PICTURES}/{change.name}.png")
    return (
        f'<h2 id="{name}">{name}: {change.kind}</h2><p>{html.escape(change.sentence)}</p>'
        f'<a href="{file}"><img loading="lazy" src="{file}" alt="{name}: before, after, difference"></a>'
    )
