"""What an exported file carries beside the fleet: its name, its notes and when it was frozen, as a gzip comment.

Whoever unpacks the file gets the frozen content alone, whose hash is the id.
"""

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dashboard.fleet.pools import Notes
from dashboard.store.packing import comment_of, commented, packed
from dashboard.store.redacting import clean_notes, clean_text
from dashboard.store.sidecar import LONGEST_NAME, MOST_BYTES, MOST_NOTES, NotePart, Sidecar, note_of
from dashboard.vllm.schemas.types import Moment


class Carried(BaseModel):
    """The name and the notes of an exported snapshot, and when it was frozen; none where the file holds none."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(default="", max_length=LONGEST_NAME)
    parts: dict[str, NotePart] = Field(default_factory=dict, max_length=MOST_NOTES, alias="notes")
    frozen_at: Moment | None = None  # older exports do not tell it

    @property
    def notes(self) -> Notes:
        """Return the notes, by what they speak of."""
        return {key: note_of(part) for key, part in self.parts.items()}


def brought_beside(beside: Sidecar, carried: Carried) -> Sidecar:
    """Return what stands beside a snapshot that is imported now, with what came with it.

    A time of freezing that cannot be, before the data or after the import, is not believed.
    """
    told = carried.frozen_at
    times = {}
    if told is not None and beside.data_as_of <= told <= beside.frozen_at:
        times = {"frozen_at": told, "imported_at": beside.frozen_at}
    return beside.model_copy(update={"notes": carried.parts, **times})


def exported(content: bytes, beside: Sidecar) -> bytes:
    """Write a snapshot as one file; the same snapshot with the same name and notes gives the same bytes."""
    told = Carried(name=beside.name, notes=beside.notes, frozen_at=beside.frozen_at)
    return commented(packed(content), told.model_dump_json(by_alias=True).encode())


def carried_by(raw: bytes) -> Carried:
    """Return what a file carries; nothing of a file that no export wrote. Anybody may have written it."""
    comment = comment_of(raw, MOST_BYTES)
    try:
        told = Carried.model_validate_json(comment)
    except ValidationError:
        return Carried()
    return told.model_copy(update={"name": clean_text(told.name), "parts": clean_notes(told.parts)})
