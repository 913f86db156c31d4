"""What every reply's model has in common: bounds, and tolerance for what a version lacks or adds."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

MAX_SECONDS = 2**33  # the year 2242: far in the future, still a time that a column of nanoseconds holds
EARLIEST, LATEST = datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(MAX_SECONDS, UTC)
MAX_INTEGER = 2**63 - 1  # what an int64 column holds
MAX_TEXT = 100_000  # characters; the longest string in the captures has 266

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Size = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]


class Wire(BaseModel):
    """A foreign object: frozen, unknown fields left out, "16" taken for 16, NaN refused."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())
