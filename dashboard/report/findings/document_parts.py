"""The parts of the document of findings: each a model, and so a part of the contract."""

from datetime import date
from typing import Literal

from pydantic import Field

from dashboard.fleet import State
from dashboard.report.parts import Many, NativeValue, Part, Time
from dashboard.rules.domain import Basis, ImpactContext, Router, SeedPolicy, Store
from dashboard.rules.findings import Confidence, Family, OutcomeKind, Severity

SharesPrefixes = Literal["yes", "no", "unknown"]


class ReplicaName(Part):
    """A replica by its id and its name."""

    replica: str = Field(description="scheme://host:port")
    name: str


class CohortSharePart(Part):
    """How many replicas of a finding stand in one cohort of a pool; null: nothing was read of them."""

    pool: str | None
    cohort: str | None
    count: int


class EvidencePart(Part):
    """One value that a finding rests on, and who told it."""

    path: str
    value: NativeValue
    state: State
    count: int = Field(description="how many replicas tell it")
    replicas: tuple[str, ...] | None = Field(description="their ids; null for the reference, which most tell")
    holder: str | None = Field(description="`router`, a pool or a file, where that is not simply these replicas")
    is_reference: bool = Field(description="what the others are held against")
    comment: str | None = Field(default=None, description="what people wrote beside it in a baseline")


class SnippetPart(Part):
    """Something to paste."""

    kind: str = Field(description="flag, env, yaml or shell")
    text: str


class RemedyPart(Part):
    """What to do: paste all snippets, or with `any_of` one of them."""

    sentence: str
    snippets: Many[SnippetPart]
    any_of: bool = False  # polls that were saved before do not have it


class SuppressionPart(Part):
    """Who answers for a finding, why, and until which day; `number` is its place in fleet.yaml, from 1."""

    owner: str
    reason: str
    until: date
    number: int


class FindingPart(Part):
    """One thing that is wrong, on which replicas, what it breaks, what to do.

    `unknown` of the `total` replicas looked at do not tell what the rule needs.
    """

    id: str = Field(description="the same in every poll while rule, pools and values are")
    rule: str
    name: str
    family: Family
    severity: Severity
    confidence: Confidence
    subject: str = Field(description="a pool, a pair `prefill + decode`, or `fleet`")
    pools: Many[str]
    replicas: Many[ReplicaName]
    cohorts: Many[CohortSharePart]
    sentence: str
    why: str
    remedy: RemedyPart
    evidence: Many[EvidencePart]
    unknown: int
    total: int
    is_rollout: bool = Field(description="runs along a rollout in progress, and is one step milder for it")
    suppression: SuppressionPart | None = Field(description="set on what is suppressed")
    expired: SuppressionPart | None = Field(description="the suppression that ended")
    assumptions: Many[str] = Field(
        default=(), description="what severity or sentence rest on though nobody reports it; then a warning at most"
    )
    severity_behind: dict[ImpactContext, Severity] = Field(
        default_factory=dict, description="where the router is not declared: the routers behind which it would be worse"
    )


class TallyPart(Part):
    """Findings by severity, and beside them how many rules could not be judged."""

    critical: int
    warning: int
    info: int
    unknown: int


class RouterPart(Part):
    """How requests find their replica, and how that is known."""

    value: Router
    basis: Basis


class StorePart(Part):
    """Where replicas put KV cache that others read, and how that is known."""

    value: Store
    basis: Basis


class DisaggregatedPart(Part):
    """Whether prefill and decode are apart, and how that is known."""

    value: bool
    basis: Basis


class ExpectationsPart(Part):
    """What the router was configured with; null: nobody said."""

    block_size: int | None
    hash_algorithm: str | None
    seed_policy: SeedPolicy | None
    event_topic: str | None


class DomainPart(Part):
    """What the replicas of a pool share: it decides how bad a difference is."""

    router: RouterPart
    kv_store: StorePart
    disaggregated: DisaggregatedPart
    expects: ExpectationsPart


class RolloutPart(Part):
    """One version of a pool replacing another; `moved` of `total` replicas are on the new one."""

    old: str
    new: str
    moved: int
    total: int
    began: Time
    last: Time


class JudgedPoolPart(Part):
    """One pool, and how it stands with the rules."""

    pool: str
    replicas: int
    tally: TallyPart
    domain: DomainPart
    rollout: RolloutPart | None
    shares_prefixes: SharesPrefixes = Field(default="unknown", description="on all replicas: the weakest cell")


class OutcomesPart(Part):
    """What became of one rule, on all subjects where the same became of it for the same reason."""

    rule: str
    kind: OutcomeKind
    reason: str | None
    subjects: Many[str]
    unknown: dict[str, int] = Field(
        description="by subject, how many replicas do not tell what the rule needs, where there are any"
    )
