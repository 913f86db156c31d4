"""Files that commands write: whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.store.writing import write_whole
from dashboard.terminal import wrong

if TYPE_CHECKING:
    from pathlib import Path


def write_file(option: str, file: Path, content: bytes) -> None:
    """Write a file that was named with an option; say why it cannot be written, and end with 2."""
    try:
        write_whole(file, content)
    except OSError as error:
        wrong(f"{option} {file}: {error.strerror}")
