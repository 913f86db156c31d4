"""One file as it was brought, to an import or a command: opened within limits, or refused with what is to be done."""

import codecs
from typing import NamedTuple

from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import middle_cut, one_line
from dashboard.store.packing import GZIP_MAGIC, unpacked
from dashboard.vllm.reading import SAVED_FLEET, node_count
from dashboard.vllm.redaction import redact_text

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
    """A file that is not used: what it is called, and in a sentence why and what to do."""

    name: str
    why: str


def shown(name: str) -> str:
    """Write a file's name on one line, without secrets: it is foreign text like any other."""
    return middle_cut(one_line(redact_text(name)).strip(), LONGEST_NAME) or "a file without a name"


def opened(file: File) -> bytes:
    """Return what a file of an import holds; raise SnapshotError with the reason where nothing in it can be read."""
    content = unwrapped(file.content, MAX_FILE_BYTES)
    if content.lstrip()[:1] == b"<":
        raise SnapshotError(
            "It is a web page or XML, and no answer of vLLM; ask the replica itself, not a proxy in front of it."
        )
    if node_count(content, SAVED_FLEET.max_nodes) > SAVED_FLEET.max_nodes:
        raise SnapshotError(
            f"It has more than {SAVED_FLEET.max_nodes:,} JSON nodes; "
            "save one pool at a time, with poll --format json --full --pool NAME."
        )
    return content


def unwrapped(raw: bytes, most: int) -> bytes:
    """Return what a file holds, unpacked and in UTF-8; raise SnapshotError with what it is instead and what to do.

    More than `most` bytes are not read; what was UTF-16 can have half as many again.
    """
    if raw.startswith(ZIP_MAGIC):
        raise SnapshotError("It is a ZIP archive; unpack it, and take the files that are in it.")
    content = unpacked(raw, most)
    if len(content) > most:
        raise SnapshotError(
            f"It holds more than the {most // MIB} MiB that are read of a file; "
            "save one pool at a time, with poll --format json --full --pool NAME."
        )
    if content.startswith(GZIP_MAGIC):
        raise SnapshotError("It is compressed twice; unpack it once, and take what comes out.")
    content = _in_utf8(content)
    if not content.strip():
        raise SnapshotError("It is empty; save it once more.")
    return content


def _in_utf8(content: bytes) -> bytes:
    """Return content without its byte order mark. PowerShell's `>` writes UTF-16 with one."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError:
        raise SnapshotError("It begins as UTF-16, but is not so to its end; save it once more, as UTF-8.") from None
