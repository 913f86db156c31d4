"""The exceptions of the program, for our own mistakes and the operator's options.

    DashboardError
    +-- OptionsError     fleet.yaml, the environment or the command line is wrong
    +-- FrameError       a dataframe does not hold what its table says
    +-- UnreadableError  a body is no reply; the edge turns it into a `Failure`
    +-- SnapshotError    a saved fleet cannot be read back
    +-- ReportError      a report cannot be written

What a replica does wrong is no exception but a `Failure`.
"""


class DashboardError(Exception):
    """Base of every exception that this program raises."""


class OptionsError(DashboardError):
    """The operator's options are wrong; one sentence per mistake."""

    def __init__(self, *mistakes: str) -> None:
        """Keep the sentences apart, so that each can be printed on a line of its own."""
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class FrameError(DashboardError):
    """A dataframe does not have the columns or types that its table promises."""


class UnreadableError(DashboardError):
    """A body that is no reply of the path it came from. `kind` is `decode`, `schema` or `too_large`."""

    def __init__(self, kind: str, detail: str) -> None:
        """Keep the kind beside the sentence: together they become a `Failure`."""
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class SnapshotError(DashboardError):
    """A saved fleet cannot be read back; one sentence says what is wrong, where, and what to do."""


class ReportError(DashboardError):
    """A report cannot be written; one sentence says why, and what to do."""
