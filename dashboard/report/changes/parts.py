"""What the JSON document of changes is made of. Times are ISO 8601 in UTC, what is not known is null."""

from datetime import date

from pydantic import Field

from dashboard.analysis.changes import OtherSideStatus
from dashboard.fleet import Basis, ReplicaState, State
from dashboard.report.parts import Coverage, Many, Part, Time, ToldPart
from dashboard.rules.findings import OutcomeKind, Severity


class SidePart(Part):
    """One of the two fleets."""

    fleet: str
    snapshot: str | None = Field(description="id of the frozen snapshot; null: not frozen")
    data_as_of: Time | None
    coverage: Coverage


class SeenPart(Part):
    """A replica as one side saw it."""

    replica: str = Field(description="scheme://host:port")
    name: str
    pool: str | None
    state: ReplicaState
    version: str | None
    started_at: Time | None
    cohort: str | None


class StayedPart(Part):
    """A replica of both sides that changed; its settings stand under `settings`."""

    before: SeenPart
    after: SeenPart
    restarted: bool | None = Field(description="null: a side does not tell when it started")


class ReplicaChangesPart(Part):
    """Replicas that came, went, or changed. `stayed` are on both sides; of `start_untold` nobody knows restarts."""

    came: Many[SeenPart]
    went: Many[SeenPart]
    changed: Many[StayedPart]
    stayed: int
    start_untold: Many[str]


class ValueChangePart(Part):
    """A setting that both sides tell, with another value."""

    path: str
    before: ToldPart
    after: ToldPart


class SharePart(Part):
    """How many replicas stand in one cohort; null: never read."""

    cohort: str | None
    count: int


class SettingGroupPart(Part):
    """Replicas in which the same settings changed in the same way. `of` are all replicas of the pool, by side."""

    pool_before: str | None
    pool_after: str | None
    changes: Many[ValueChangePart]
    replicas: Many[str]
    of_before: int
    of_after: int
    cohorts_before: Many[SharePart]
    cohorts_after: Many[SharePart]
    restarted: int
    start_untold: int


class SilencePart(Part):
    """Settings that only one side tells, and why the other has no value: no change is known."""

    pool_before: str | None
    pool_after: str | None
    paths: Many[str]
    replicas: Many[str]
    why: State


class SettingChangesPart(Part):
    """Settings of the replicas that both sides could read; the others are listed by the side that could not."""

    groups: Many[SettingGroupPart]
    no_longer_told: Many[SilencePart]
    now_told: Many[SilencePart]
    ignored: Many[str] = Field(description="paths that changed, and that fleet.yaml of a side leaves out")
    compared: int
    unread_before: Many[str]
    unread_after: Many[str]


class BriefFindingPart(Part):
    """A finding in brief; the whole one stands in the document of findings."""

    id: str
    rule: str
    severity: Severity
    subject: str
    pools: Many[str]
    replicas: Many[str]
    sentence: str


class LoneFindingPart(BriefFindingPart):
    """A finding that only one side has, and what became of it on the other."""

    suppressed: bool
    elsewhere: OtherSideStatus = Field(description="whether the other side judged it; `not judged` is not solved")
    absent: Many[str] = Field(description="its replicas that the other side does not have")
    unread: Many[str] = Field(description="its replicas that the other side could not read")
    silent: Many[str] = Field(description="its replicas that do not tell there what it is about")
    outcome: OutcomeKind | None = Field(description="what became of the rule there; null: not run on the same pool")
    reason: str | None


class EndedPart(Part):
    """A suppression that held before, and no more."""

    owner: str
    reason: str
    until: date


class KeptFindingPart(BriefFindingPart):
    """A finding of both sides, as the second has it, that changed."""

    severity_before: Severity
    joined: Many[str]
    left: Many[str]
    unread: Many[str] = Field(description="of these, those that the other side could not read")
    suppressed_before: Many[str] = Field(description="its replicas that are suppressed")
    suppressed_after: Many[str]
    ended: EndedPart | None


class FindingChangesPart(Part):
    """Findings by their id. `same` counts those that did not change at all, suppressed ones too."""

    new: Many[LoneFindingPart]
    gone: Many[LoneFindingPart]
    changed: Many[KeptFindingPart]
    same: int


class AmountPart(Part):
    """KV cache of one side: sums over known ranks. Of `silent` replicas no rank is known."""

    ranks: int
    tokens: int | None
    bytes: int | None
    unknown: int = Field(description="ranks that do not tell tokens")
    unsized: int = Field(description="ranks that do not tell bytes")
    silent: int
    basis: Basis


class PoolCapacityPart(Part):
    """What a pool holds; null: replicas without a pool."""

    pool: str | None
    before: AmountPart
    after: AmountPart
    share: float | None = Field(description="-0.18: 18 % fewer tokens; null: the sums are not of one kind")


class RankChangePart(Part):
    """A DP rank that holds clearly more or less than before, in tokens."""

    replica: str
    dp_rank: int
    pool: str | None
    before: int
    after: int
    at_most: bool


class CapacityChangesPart(Part):
    """KV cache before and after. Of `incomparable` ranks only one side tells an upper bound."""

    total: PoolCapacityPart
    pools: Many[PoolCapacityPart]
    ranks: Many[RankChangePart]
    compared: int
    incomparable: int


class ChangesDocument(Part):
    """All that changed from one fleet to another. Replicas are ids; `names` are theirs."""

    schema_version: int
    program_version: str
    rule_set: int
    before: SidePart
    after: SidePart
    changed: bool
    headline: str
    lead: str
    warnings: Many[str]
    options_differ: bool
    names: dict[str, str]
    replicas: ReplicaChangesPart
    settings: SettingChangesPart
    findings: FindingChangesPart
    capacity: CapacityChangesPart
