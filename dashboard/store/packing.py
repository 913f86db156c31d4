"""Snapshots as bytes: packed, identified by their hash, and with their metadata.

An export has name, notes and time of saving as a gzip comment: unpacking it gives the saved content alone, whose
hash is the id.
"""

import gzip
import hashlib
import zlib
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from annotated_types import Predicate
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import MAX_BYTES, check_size, read_snapshot, without_secrets
from dashboard.documents.secrets import clean_text
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import NUMBER_WORDS, one_line, safe_json
from dashboard.fleet.pools import Notes
from dashboard.rules.catalogue import RULE_SET
from vllm_fleet_provider.shared.types import Moment

ID_DIGITS = 32  # hexadecimal, 128 bits against forged ids; the first ones are enough to type
MOST_BYTES = 96 * 2**20  # of JSON: 1,000 replicas have 16 MB, and each MiB takes 40 ms to open
GZIP_MAGIC = b"\x1f\x8b"
# The header of a gzip file, RFC 1952, 2.3: ten bytes, the fourth has the flags.
_HEADER_BYTES, _FLAGS_AT = 10, 3
_COMMENT = 0x10
LONGEST_NAME = 80
LONGEST_AUTHOR = 200
LONGEST_NOTE = 4_000
MOST_NOTES = 10_000  # one each for the findings of a very large fleet
NOTES_BYTES = 8 * 2**20  # of a name and notes: two thousand of the longest ones
SHORTEST = 4  # digits of an id that are enough where they are unique
TYPE_MORE = f"type at least {NUMBER_WORDS[SHORTEST]} digits of its id"
NO_ID = (
    f"names are not looked up. An id has {ID_DIGITS} digits, 0-9 and a-f, and its first ones are enough; "
    "to open a snapshot by its name, click the name in the table of Snapshots"
)
READ_ONLY = "Snapshots are read-only here (option read_only)."
_LEVEL = 6  # gzip's own default: 1,000 replicas with all settings take 4 to 5 MB


def content_of(fleet: Fleet) -> bytes:
    """Return a polled fleet as bytes, without a clock: the same fleet always gives the same bytes."""
    return fleet_json(fleet, time_of(fleet), full=True)


def time_of(fleet: Fleet) -> datetime:
    """Return the time of a fleet's data; raise SnapshotError where it was never polled."""
    if fleet.polled_at is None:
        raise SnapshotError("Nothing to save yet: the first poll has not finished.")
    return fleet.polled_at


def check_snapshot_size(content: bytes) -> None:
    """Raise SnapshotError for a document that is larger than a snapshot that can be opened."""
    if len(content) > MOST_BYTES:
        raise SnapshotError(
            f"The snapshot has more than {MOST_BYTES // 2**20} MiB of JSON, the most that is saved and opened; "
            "save one pool at a time: poll --format json --full --pool NAME, then import the file."
        )
    check_size(content)


def id_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:ID_DIGITS]


def packed(content: bytes) -> bytes:
    """Compress content; the same content gives the same bytes."""
    return gzip.compress(content, _LEVEL, mtime=0)


def commented(raw: bytes, comment: bytes) -> bytes:
    """Add a comment, without zero bytes, to the result of `packed`: unpacking gives the same content."""
    head = raw[:_FLAGS_AT] + bytes([_COMMENT]) + raw[_FLAGS_AT + 1 : _HEADER_BYTES]
    return head + comment + b"\0" + raw[_HEADER_BYTES:]


def comment_of(raw: bytes, most: int) -> bytes:
    """Return the comment of a file that `commented` wrote; empty for another file, and beyond `most` bytes."""
    if not raw.startswith(GZIP_MAGIC) or raw[_FLAGS_AT : _FLAGS_AT + 1] != bytes([_COMMENT]):
        return b""
    end = raw.find(b"\0", _HEADER_BYTES, _HEADER_BYTES + most + 1)
    return raw[_HEADER_BYTES:end] if end > 0 else b""


def unpacked(raw: bytes, most: int = MAX_BYTES) -> bytes:
    """Return a file's content, compressed or not, up to `most` + 1 bytes. Raise SnapshotError for a damaged file."""
    if not raw.startswith(GZIP_MAGIC):
        return raw[: most + 1]
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = reader.decompress(raw, most + 1)
    except zlib.error:
        raise SnapshotError("The file is not a complete gzip file; copy or export it again.") from None
    if len(content) <= most and not reader.eof:
        raise SnapshotError("The file is cut off; copy or export it again.")
    return content


def clean_content(content: bytes) -> bytes:
    """Return a saved fleet without secrets; raise SnapshotError when it is unreadable.

    Content without secrets is unchanged. Otherwise pools and findings, which quote values, are derived again.
    """
    clean = without_secrets(content)
    return content if clean == content else content_of(read_snapshot(clean))


def fits(note: Note) -> bool:
    limits = ((note.text, LONGEST_NOTE), (note.owner, LONGEST_NAME), (note.author, LONGEST_AUTHOR))
    return all(len(text) <= longest for text, longest in limits)


StoredNotes = Annotated[dict[str, Annotated[Note, Predicate(fits)]], Field(max_length=MOST_NOTES)]


class SnapshotMetadata(BaseModel):
    """Name, notes, and the columns of a list of snapshots. Counts are those at the time of saving.

    `author` saved or imported it on a page; empty without a sign-in.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    name: str = Field(max_length=LONGEST_NAME)
    saved_at: Moment
    imported_at: Moment | None = None  # of a snapshot that was saved elsewhere
    author: str = Field(default="", max_length=LONGEST_AUTHOR)
    fleet: str
    data_as_of: Moment
    saved_answers: bool = False  # the data's time is then that of the import
    answered: int
    targets: int
    critical: int
    warning: int
    info: int
    program_version: str
    rule_set: int
    notes: StoredNotes = Field(default_factory=dict)


class ExportMetadata(BaseModel):
    """Name, notes and time of saving in an exported file; empty in a file without them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(default="", max_length=LONGEST_NAME)
    notes: StoredNotes = Field(default_factory=dict)
    saved_at: Moment | None = None


class StoredSnapshot(NamedTuple):
    """One snapshot, as in a list. `problem` is why its name and notes cannot be read."""

    id: str
    metadata: SnapshotMetadata
    size_bytes: int
    problem: str = ""


class SnapshotList(NamedTuple):
    """The snapshots, and a sentence for each unreadable one."""

    snapshots: tuple[StoredSnapshot, ...] = ()
    damaged: tuple[str, ...] = ()


def describe_fleet(fleet: Fleet, name: str, at: datetime, author: str = "") -> SnapshotMetadata:
    """Return the metadata of a fleet that is saved at `at`."""
    counts, found = fleet.coverage, fleet.inspection.tally
    return SnapshotMetadata(
        name=tidy_name(name),
        saved_at=at,
        author=author[:LONGEST_AUTHOR],
        fleet=fleet.name,
        data_as_of=time_of(fleet),
        saved_answers=fleet.is_saved_answers,
        answered=counts.answered,
        targets=counts.targets,
        critical=found.critical,
        warning=found.warning,
        info=found.info,
        program_version=__version__,
        rule_set=RULE_SET,
    )


def with_name(metadata: SnapshotMetadata, name: str) -> SnapshotMetadata:
    return metadata.model_copy(update={"name": tidy_name(name)})


def tidy_name(name: str) -> str:
    """Return a name as one line that fits in a list."""
    return " ".join(one_line(name).split())[:LONGEST_NAME]


def clean_metadata(metadata: SnapshotMetadata) -> SnapshotMetadata:
    """Return the metadata without secrets."""
    texts = {name: clean_text(getattr(metadata, name)) for name in ("name", "fleet", "author")}
    return metadata.model_copy(update={**texts, "notes": clean_notes(metadata.notes)})


def clean_notes(notes: Notes) -> dict[str, Note]:
    """Return notes without secrets."""
    return {
        about: Note(clean_text(each.text), clean_text(each.owner), each.at, clean_text(each.author))
        for about, each in notes.items()
    }


def read_metadata(key: str, raw: bytes) -> SnapshotMetadata:
    """Return the metadata in a row; raise SnapshotError where they are damaged: there may still be notes in them."""
    try:
        if len(raw) <= NOTES_BYTES:
            return SnapshotMetadata.model_validate_json(raw)
    except (TypeError, ValueError):
        pass
    raise SnapshotError(
        f"The name and notes of snapshot {key} are damaged in the database; restore a copy of it. "
        "They are never overwritten."
    )


def metadata_bytes(key: str, metadata: SnapshotMetadata) -> bytes:
    """Return metadata for a row; raise SnapshotError where it is more than is read again."""
    if len(metadata.notes) > MOST_NOTES:
        raise SnapshotError(f"Snapshot {key} has more than {MOST_NOTES:,} notes; delete some.")
    content = safe_json(metadata.model_dump_json().encode())
    if len(content) > NOTES_BYTES:
        raise SnapshotError(
            f"The notes of snapshot {key} take more than {NOTES_BYTES // 2**20} MiB; shorten this one or delete others."
        )
    return content


def with_export_metadata(metadata: SnapshotMetadata, export: ExportMetadata) -> SnapshotMetadata:
    """Return the metadata of an import, with the notes of the file.

    An impossible time of saving, before the data or after the import, is ignored.
    """
    times = {}
    if export.saved_at is not None and metadata.data_as_of <= export.saved_at <= metadata.saved_at:
        times = {"saved_at": export.saved_at, "imported_at": metadata.saved_at}
    return metadata.model_copy(update={"notes": export.notes, **times})


def export_bytes(content: bytes, metadata: SnapshotMetadata) -> bytes:
    """Return a snapshot as one file; the same snapshot with the same name and notes gives the same bytes."""
    export = ExportMetadata(name=metadata.name, notes=metadata.notes, saved_at=metadata.saved_at)
    return commented(packed(content), export.model_dump_json().encode())


def read_export_metadata(raw: bytes) -> ExportMetadata:
    """Return the metadata in a file, without secrets; empty for a file that is no export. It is foreign text."""
    try:
        export = ExportMetadata.model_validate_json(comment_of(raw, NOTES_BYTES))
    except ValidationError:
        return ExportMetadata()
    return export.model_copy(update={"name": clean_text(export.name), "notes": clean_notes(export.notes)})
