"""One file as it was brought: opened within limits, or refused with a sentence that says what to do."""

from __future__ import annotations

from typing import NamedTuple

from dashboard.errors import SnapshotError
from dashboard.redaction import redact_text
from dashboard.store.packing import GZIP_MAGIC, unpacked
from dashboard.wording import middle_cut, one_line

MAX_FILE_BYTES = 64 * 2**20  # unpacked; 1,000 replicas take 23 MB as `poll --format json --full` prints them
MAX_TOTAL_BYTES = 2 * MAX_FILE_BYTES  # of all files of one import, unpacked
MAX_FILES = 5_000  # 1,000 replicas with an answer each to /metrics, /server_info, /version and /v1/models
LONGEST_NAME = 80  # characters of a file's name that are shown
ZIP_MAGIC = b"PK\x03\x04"
MIB = 2**20


class File(NamedTuple):
    """A file's name, without its folder, and what is in it."""

    name: str
    content: bytes


class Refused(NamedTuple):
    """A file that is not used, or not all of it: what it is called, and in a sentence why and what to do."""

    name: str
    why: str


def shown(name: str) -> str:
    """Write a file's name on one line, without secrets: it is foreign text like any other."""
    return middle_cut(one_line(redact_text(name)).strip(), LONGEST_NAME) or "a file without a name"


def opened(file: File) -> bytes:
    """Return what a file holds, unpacked; raise SnapshotError with the reason where nothing in it can be read."""
    raw = file.content
    if raw.startswith(ZIP_MAGIC):
        raise SnapshotError("It is a ZIP archive; unpack it, and drop the files that are in it.")
    content = unpacked(raw, MAX_FILE_BYTES)
    if len(content) > MAX_FILE_BYTES:
        raise SnapshotError(
            f"It holds more than the {MAX_FILE_BYTES // MIB} MiB that are read of a file; "
            "save one pool at a time, with poll --format json --full --pool NAME."
        )
    if content.startswith(GZIP_MAGIC):
        raise SnapshotError("It is compressed twice; unpack it once, and drop it again.")
    if not content.strip():
        raise SnapshotError("It is empty; save the answer once more.")
    if content.lstrip()[:1] == b"<":
        raise SnapshotError(
            "It is a web page or XML, and no answer of vLLM; ask the replica itself, not a proxy in front of it."
        )
    return content
