"""The file beside a snapshot, `ID.notes.json`: read whole or not at all, and never more than an export carries."""

from pathlib import Path

from pydantic import ValidationError

from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import middle_cut, one_line, safe_json
from dashboard.store.sidecar import MOST_BYTES, MOST_NOTES, Sidecar

MIB = 2**20
LONGEST_PLACE = 80  # characters of the place in a file that is wrong: keys of notes are foreign


def read_beside(key: str, file: Path) -> Sidecar | None:
    """Return what stands beside the snapshot `key`, None where nothing does.

    Raise SnapshotError where something does that cannot be read: what people wrote may still be in it.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unread(key, file, f"cannot be opened ({error.strerror})") from None
    if len(raw) > MOST_BYTES:
        raise _unread(key, file, f"is larger than the {MOST_BYTES // MIB} MiB that are read")
    try:
        return Sidecar.model_validate_json(raw)
    except ValidationError as error:
        raise _unread(key, file, _wrong(error)) from None


def to_bytes(key: str, beside: Sidecar) -> bytes:
    """Write what stands beside the snapshot `key`; raise SnapshotError where it is more than is read again."""
    if len(beside.notes) > MOST_NOTES:
        raise SnapshotError(f"Snapshot {key} would have more than {MOST_NOTES:,} notes; take others away.")
    content = safe_json(beside.model_dump_json(indent=2).encode())
    if len(content) > MOST_BYTES:
        raise SnapshotError(
            f"The notes of snapshot {key} would take more than the {MOST_BYTES // MIB} MiB that are read; "
            "shorten this one, or take others away."
        )
    return content


def _unread(key: str, file: Path, why: str) -> SnapshotError:
    return SnapshotError(
        f"The name and notes of snapshot {key} cannot be read: {file.name} in the folder of snapshots {why}; "
        "mend it, or move it away, for nothing is written over it."
    )


def _wrong(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if not first["loc"]:
        return "is no complete JSON object"
    place = middle_cut(one_line(".".join(map(str, first["loc"]))), LONGEST_PLACE)
    return f"does not hold what is expected at {place}"
