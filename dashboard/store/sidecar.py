"""What stands beside a snapshot and may change: its name, notes, and what a list shows of it."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import one_line
from dashboard.rules import rollup
from dashboard.rules.catalogue import RULE_SET
from dashboard.store.packing import time_of
from dashboard.views.context import is_saved_answers
from dashboard.vllm.schemas.types import Moment

LONGEST_NAME = 80
LONGEST_NOTE = 4_000
MOST_NOTES = 10_000  # one each for the findings of a very large fleet
MOST_BYTES = 8 * 2**20  # of a name and notes: two thousand of the longest ones


class NotePart(BaseModel):
    """A note as it is written to disk."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str = Field(max_length=LONGEST_NOTE)
    owner: str = Field(default="", max_length=LONGEST_NAME)
    at: Moment | None = None


class Sidecar(BaseModel):
    """What stands beside a snapshot. Counts are those of the moment when it was frozen."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    name: str = Field(max_length=LONGEST_NAME)
    frozen_at: Moment
    imported_at: Moment | None = None  # of a snapshot that was frozen elsewhere
    fleet: str
    data_as_of: Moment
    saved_answers: bool = False  # whose time is that of their import
    answered: int
    targets: int
    critical: int
    warning: int
    info: int
    program_version: str
    rule_set: int
    notes: dict[str, NotePart] = Field(default_factory=dict, max_length=MOST_NOTES)


def sidecar_of(fleet: Fleet, name: str, at: datetime) -> Sidecar:
    """Describe a fleet that is frozen at `at`."""
    counts, found = fleet.coverage, rollup.of_fleet(fleet.inspection)
    return Sidecar(
        name=tidy_name(name),
        frozen_at=at,
        fleet=fleet.name,
        data_as_of=time_of(fleet),
        saved_answers=is_saved_answers(fleet),
        answered=counts.answered,
        targets=counts.targets,
        critical=found.critical,
        warning=found.warning,
        info=found.info,
        program_version=__version__,
        rule_set=RULE_SET,
    )


def with_name(beside: Sidecar, name: str) -> Sidecar:
    """Return a description with another name."""
    return beside.model_copy(update={"name": tidy_name(name)})


def tidy_name(name: str) -> str:
    """Make a name one line that a list has room for."""
    return " ".join(one_line(name).split())[:LONGEST_NAME]


def part_of(note: Note) -> NotePart:
    """Return a note as it is written to disk; raise SnapshotError where it is too long."""
    try:
        return NotePart(**note._asdict())
    except ValidationError:
        raise SnapshotError(
            f"The note is too long: it may have {LONGEST_NOTE:,} characters, and its owner {LONGEST_NAME}. Shorten it."
        ) from None


def note_of(part: NotePart) -> Note:
    """Return a note that was read."""
    return Note(part.text, part.owner, part.at)
