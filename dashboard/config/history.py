"""The options of the history: where it is, and how long it is kept."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from dashboard.config.rules import Part
from dashboard.config.sources import PathFromFile

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgresql+psycopg://")


def _database_url(url: str, info: ValidationInfo) -> str:
    """Return the URL of a database; the path of a SQLite file starts at the folder of the file of options."""
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        folder = (info.context or {}).get("folder", "")
        return f"{SQLITE}{Path(folder) / url.removeprefix(SQLITE)}"
    if not url.startswith(POSTGRES):
        raise ValueError(
            "not the URL of a SQLite file or PostgreSQL; write sqlite:///history.db or postgresql://host/name"
        )
    if "@" in url and ":" in url.partition("://")[2].rpartition("@")[0]:
        raise ValueError("contains a password; write the URL into a file or a variable, and set url_file or url_env")
    return url


class HistoryOptions(Part):
    """The history of the fleet. Without a URL it is the file history.db in data_folder."""

    enabled: bool = True
    url: Annotated[str, AfterValidator(_database_url)] | None = None
    url_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    url_file: PathFromFile | None = None
    keep_spans_days: Annotated[int, Field(ge=1, le=3650)] = 400
    keep_polls_days: Annotated[int, Field(ge=1, le=400)] = 30

    @property
    def has_url(self) -> bool:
        """Return whether the database is named."""
        return any(each is not None for each in (self.url, self.url_env, self.url_file))

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        if sum(each is not None for each in (self.url, self.url_env, self.url_file)) > 1:
            raise ValueError("url, url_env and url_file are alternatives; keep one")
        return self
