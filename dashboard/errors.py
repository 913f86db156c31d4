"""The exceptions of the program.

    DashboardError
    +-- OptionsError     fleet.yaml, the environment or the command line is wrong
    +-- UnreadableError  an answer is no reply; becomes a `Failure`
    +-- SnapshotError    a saved fleet is unreadable
    +-- HistoryError     the history cannot be opened, read or written
    +-- ReportError      a report cannot be written

Errors of a replica are a `Failure`, not an exception.
"""


class DashboardError(Exception):
    """Base of every exception that this program raises."""


class OptionsError(DashboardError):
    """The operator's options are wrong; one sentence per mistake."""

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class UnreadableError(DashboardError):
    """An answer that cannot be used. `kind` is `decode`, `schema` or `too_large` for a body, else the source's own."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class SnapshotError(DashboardError):
    """A saved fleet is unreadable; one sentence has place, cause and action."""


class HistoryError(DashboardError):
    """The history cannot be opened, read or written; one sentence has cause and action."""


class ReportError(DashboardError):
    """A report cannot be written. The message has cause and action."""
