"""Compare two pictures of one page, and draw them side by side with their difference."""

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

# Tolerances: edges of letters differ less than this between runs and versions of Chromium.
SHADE = 16  # of 255, in the channel that changed most
EVERYWHERE = 0.0002  # share of all pixels
TILE, IN_ONE_TILE = 16, 0.20  # pixels; share of one tile: a changed word exceeds it

GAP = 24  # pixels between pictures
GROUND, NOTHING = (96, 96, 96), (160, 160, 160)  # around pictures; for a missing picture
CHANGED = (214, 0, 110)  # the pages have no such colour
PALE = 0.25  # opacity of unchanged pixels


def read(data: bytes) -> Image.Image:
    """Decode a picture."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def packed(data: bytes) -> bytes:
    """Encode a picture as lossless WebP, a third of PNG."""
    out = io.BytesIO()
    read(data).save(out, "WEBP", lossless=True, method=4)  # 6 is 3% smaller and takes four times as long
    return out.getvalue()


def difference(before: Image.Image, after: Image.Image) -> str | None:
    """Return the visible difference of two pictures as text, or None."""
    if before.size != after.size:
        return f"the size changed from {before.size} to {after.size}"
    if before.tobytes() == after.tobytes():  # the usual case, in a tenth of the time
        return None
    apart = _apart(before, after)
    if apart.mean() > EVERYWHERE:
        rows, columns = (np.flatnonzero(apart.any(axis=axis)) for axis in (1, 0))
        place = f"x {columns[0]} to {columns[-1]}, y {rows[0]} to {rows[-1]}"
        return f"{apart.mean():.2%} of the pixels changed, within {place}"
    height, width = (side // TILE * TILE for side in apart.shape)
    tiles = apart[:height, :width].reshape(height // TILE, TILE, width // TILE, TILE).mean(axis=(1, 3))
    if tiles.size and tiles.max() > IN_ONE_TILE:
        row, column = np.unravel_index(int(tiles.argmax()), tiles.shape)
        return f"something changed around x {int(column) * TILE}, y {int(row) * TILE}"
    return None


def looks_like(data: bytes) -> Callable[[bytes], bool]:
    """Return a predicate for pictures without a visible difference from this one."""
    before = read(data)
    return cache(lambda taken: difference(before, read(taken)) is None)


def side_by_side(before: Image.Image | None, after: Image.Image | None) -> Image.Image:
    """Draw before, after and difference side by side; a missing picture is grey."""
    there = [each for each in (before, after) if each is not None]
    size = (max(each.width for each in there), max(each.height for each in there))
    one, other = (_on(size, each) for each in (before, after))
    sheet = Image.new("RGB", (size[0] * 3 + GAP * 2, size[1]), GROUND)
    for place, each in enumerate((one, other, _marked(one, other))):
        sheet.paste(each, (place * (size[0] + GAP), 0))
    return sheet


def _apart(before: Image.Image, after: Image.Image) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return for each pixel whether it changed visibly."""
    one, other = (np.asarray(each, dtype=np.int16) for each in (before, after))
    seen: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = np.abs(one - other).max(axis=2) > SHADE
    return seen


def _on(size: tuple[int, int], picture: Image.Image | None) -> Image.Image:
    sheet = Image.new("RGB", size, NOTHING)
    if picture is not None:
        sheet.paste(picture, (0, 0))
    return sheet


def _marked(before: Image.Image, after: Image.Image) -> Image.Image:
    """Draw unchanged pixels pale and grey, changed ones in one colour."""
    pale = Image.blend(Image.new("L", after.size, 255), after.convert("L"), PALE).convert("RGB")
    drawn = np.array(pale)
    drawn[_apart(before, after)] = CHANGED
    return Image.fromarray(drawn)
