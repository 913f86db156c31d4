"""How findings of two fleets stand to each other: frozen values."""

from dataclasses import dataclass
from enum import StrEnum

from dashboard.rules.findings import Finding, OutcomeKind, Severity, Suppression


class OtherSideStatus(StrEnum):
    """What the other side says of a finding that it does not have."""

    JUDGED = "judged"  # its replicas were read there, and the rule found nothing
    NOT_JUDGED = "not judged"  # replicas were not read there, do not tell what it is about, or the rule did not run
    NOT_THERE = "not there"  # it has none of its replicas


@dataclass(frozen=True, slots=True)
class OneSidedFinding:
    """A finding that only one side has, and what became of its replicas on the other.

    There they are `absent`, `unread`, or `silent`: read, but no longer telling what the finding is about. `outcome`
    is what became of the rule there, with its `reason`; None where it was not run on this pool.
    """

    finding: Finding
    is_suppressed: bool
    elsewhere: OtherSideStatus
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    outcome: OutcomeKind | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PersistingFinding:
    """A finding of both sides: the same rule, pools and values. `suppressed_*` are its replicas that are suppressed.

    `joined` and `left` are replicas that it has on one side only, and those of them are `unread` that the other side
    could not read: of them nobody knows. `ended` is a suppression that held before, no more.
    """

    before: Finding
    after: Finding
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    suppressed_before: tuple[str, ...] = ()
    suppressed_after: tuple[str, ...] = ()
    is_suppressed_before: bool = False
    is_suppressed_after: bool = False
    ended: Suppression | None = None

    @property
    def has_other_severity(self) -> bool:
        """Tell whether it is worse or milder than before."""
        return self.before.severity is not self.after.severity

    @property
    def has_other_suppression(self) -> bool:
        """Tell whether another part of it is suppressed than before."""
        before = (self.is_suppressed_before, self.suppressed_before)
        return before != (self.is_suppressed_after, self.suppressed_after)

    @property
    def spread(self) -> tuple[str, ...]:
        """Return the replicas that have it now and were known not to; none while it is suppressed."""
        return () if self.is_suppressed_after else tuple(each for each in self.joined if each not in self.unread)

    @property
    def is_changed(self) -> bool:
        """Tell whether it is the same finding, but not quite."""
        return bool(
            self.joined or self.left or self.has_other_severity or self.has_other_suppression or self.ended is not None
        )


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """Findings by their id, suppressed ones too; the worst first."""

    new: tuple[OneSidedFinding, ...] = ()
    gone: tuple[OneSidedFinding, ...] = ()
    kept: tuple[PersistingFinding, ...] = ()

    @property
    def standing(self) -> tuple[OneSidedFinding, ...]:
        """Return what is new and not suppressed."""
        return tuple(each for each in self.new if not each.is_suppressed)

    @property
    def over(self) -> tuple[OneSidedFinding, ...]:
        """Return what is gone because it was solved, or because its replicas are."""
        return tuple(each for each in self.gone if each.elsewhere is not OtherSideStatus.NOT_JUDGED)

    @property
    def unjudged(self) -> tuple[OneSidedFinding, ...]:
        """Return what is gone because nobody looked: not judged any more."""
        return tuple(each for each in self.gone if each.elsewhere is OtherSideStatus.NOT_JUDGED)

    @property
    def spread(self) -> tuple[PersistingFinding, ...]:
        """Return those of both sides that more replicas have than before; what is for information does not spread."""
        return tuple(each for each in self.kept if each.spread and each.after.severity is not Severity.INFO)

    @property
    def changed(self) -> tuple[PersistingFinding, ...]:
        """Return those of both sides that changed."""
        return tuple(each for each in self.kept if each.is_changed)
