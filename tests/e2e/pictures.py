"""Committed screenshots: what has changed, and where."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pixelmatch.contrib.PIL import pixelmatch

FOLDER = Path(__file__).parent / "screenshots"
RESULTS = Path(__file__).parents[2] / "test-results"
UPDATE = "UPDATE_SCREENSHOTS"

# Between runs of one Chromium nothing changes; between versions edges of letters do, by less than this.
SHADE = 16  # of 255, in the channel that changed most
EVERYWHERE = 0.0002  # share of all pixels that may change
TILE, IN_ONE_TILE = 16, 0.20  # pixels; share of one tile: a word that changed is more


def compare(name: str, taken: bytes) -> None:
    """Compare a screenshot with the committed one; fail with a picture of the difference beside both."""
    committed = FOLDER / f"{name}.png"
    if os.environ.get(UPDATE):
        FOLDER.mkdir(exist_ok=True)
        committed.write_bytes(taken)
        return
    if not committed.exists():
        pytest.fail(f"{committed.name} was never committed; take it with `make screenshots` and look at it")
    if committed.read_bytes() == taken:
        return
    before, after = (Image.open(io.BytesIO(data)).convert("RGB") for data in (committed.read_bytes(), taken))
    problem = difference(before, after)
    if problem:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.png").write_bytes(taken)
        if before.size == after.size:
            picture = Image.new("RGBA", before.size)
            pixelmatch(before.convert("RGBA"), after.convert("RGBA"), picture)
            picture.save(RESULTS / f"{name}.difference.png")
        pytest.fail(f"{name}: {problem}; see {RESULTS.name}/, and `make screenshots` if this is wanted")


def difference(before: Image.Image, after: Image.Image) -> str | None:
    """Say what changed between two pictures, or None when it is nothing that can be seen."""
    if before.size != after.size:
        return f"the size changed from {before.size} to {after.size}"
    apart = np.abs(np.asarray(before, dtype=np.int16) - np.asarray(after, dtype=np.int16)).max(axis=2) > SHADE
    if apart.mean() > EVERYWHERE:
        return f"{apart.mean():.2%} of the pixels changed"
    height, width = (side // TILE * TILE for side in apart.shape)
    tiles = apart[:height, :width].reshape(height // TILE, TILE, width // TILE, TILE).mean(axis=(1, 3))
    if tiles.size and tiles.max() > IN_ONE_TILE:
        row, column = np.unravel_index(int(tiles.argmax()), tiles.shape)
        return f"something changed around x {int(column) * TILE}, y {int(row) * TILE}"
    return None
