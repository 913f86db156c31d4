"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(file: Path, content: bytes) -> None:
    """Write a file in one step: who reads it meanwhile finds the old one. Raises OSError, and then nothing is left.

    What is no plain file, such as /dev/stdout, stays what it is; a link leads to the file that is written.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    file = file.resolve()
    part = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
