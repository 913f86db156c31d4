"""What the operator sets: fleet.yaml and environment variables, read once, frozen, unknown keys refused."""

from dashboard.options.load import FILE_VARIABLE, load_options
from dashboard.options.model import (
    MAX_LABEL_CHARACTERS,
    CredentialsOptions,
    FileSdOptions,
    Options,
    PollOptions,
    TargetOptions,
)

__all__ = [
    "FILE_VARIABLE",
    "MAX_LABEL_CHARACTERS",
    "CredentialsOptions",
    "FileSdOptions",
    "Options",
    "PollOptions",
    "TargetOptions",
    "load_options",
]
