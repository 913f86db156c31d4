"""What the operator decided about rules, as a part of a saved fleet: by it the fleet is judged again as it was."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import Field

from dashboard.fleet import Baseline, Tolerance
from dashboard.report.findings.document_parts import ExpectationsPart
from dashboard.report.parts import Many, NativeValue, Part, native
from dashboard.rules.domain import Declared, Expectations, Router, Store
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.vllm.canonical import canonical_text


class DeclaredPart(Part):
    """What is said of a pool; null: nothing."""

    router: Router | None
    kv_store: Store | None
    disaggregated: bool | None
    expects: ExpectationsPart


class RuleChangePart(Part):
    """What is changed of a rule; null: its severity stays."""

    enabled: bool
    severity: Severity | None
    parameters: dict[str, bool | int | float | str]


class WrittenSuppressionPart(Part):
    """An entry of `suppress`; `number` is its place, from 1."""

    rule: str
    owner: str
    reason: str
    until: date
    number: int
    pool: str | None
    replicas: Many[str]
    labels: dict[str, str]


class TolerancePart(Part):
    """Values that are as good as each other: a set, or a range with its ends."""

    any_of: Many[NativeValue]
    at_least: float | None
    at_most: float | None


class BaselinePart(Part):
    """What a pool should look like."""

    name: str
    pool: str
    expected: dict[str, NativeValue]
    tolerated: dict[str, TolerancePart]
    ignored: Many[str]
    comments: dict[str, str]
    file: str


class PolicyPart(Part):
    """What fleet.yaml says of pools and rules. `pools` is by name or glob, in the order in which it is looked up."""

    pools: dict[str, DeclaredPart]
    rules: dict[str, RuleChangePart]
    suppressions: Many[WrittenSuppressionPart]
    baselines: Many[BaselinePart]
    file: str = Field(description="what fleet.yaml is called")


def policy_part(policy: Policy) -> PolicyPart:
    """Write a policy."""
    return PolicyPart(
        pools={name: _declared(told) for name, told in policy.pools.items()},
        rules={
            rule: RuleChangePart(enabled=change.enabled, severity=change.severity, parameters=dict(change.parameters))
            for rule, change in policy.rules.items()
        },
        suppressions=tuple(_suppression(each) for each in policy.suppressions),
        baselines=tuple(_baseline(each) for each in policy.baselines),
        file=policy.file,
    )


def policy_from(part: PolicyPart) -> Policy:
    """Read a policy back."""
    return Policy(
        pools={name: _read_declared(told) for name, told in part.pools.items()},
        rules={rule: RuleChange(told.enabled, told.severity, told.parameters) for rule, told in part.rules.items()},
        suppressions=tuple(Suppression(**dict(told)) for told in part.suppressions),
        baselines=tuple(_read_baseline(told) for told in part.baselines),
        file=part.file,
    )


def _declared(told: Declared) -> DeclaredPart:
    return DeclaredPart(
        router=told.router,
        kv_store=told.kv_store,
        disaggregated=told.disaggregated,
        expects=ExpectationsPart(**_fields(told.expects)),
    )


def _read_declared(told: DeclaredPart) -> Declared:
    return Declared(told.router, told.kv_store, told.disaggregated, Expectations(**dict(told.expects)))


def _suppression(told: Suppression) -> WrittenSuppressionPart:
    return WrittenSuppressionPart(**{**_fields(told), "labels": dict(told.labels)})


def _baseline(told: Baseline) -> BaselinePart:
    return BaselinePart(
        name=told.name,
        pool=told.pool,
        expected={path: native(value) for path, value in told.expected.items()},
        tolerated={
            path: TolerancePart(any_of=tuple(map(native, each.any_of)), at_least=each.at_least, at_most=each.at_most)
            for path, each in told.tolerated.items()
        },
        ignored=told.ignored,
        comments=dict(told.comments),
        file=told.file,
    )


def _read_baseline(told: BaselinePart) -> Baseline:
    return Baseline(
        name=told.name,
        pool=told.pool,
        expected={path: canonical_text(value) for path, value in told.expected.items()},
        tolerated={path: _read_tolerance(each) for path, each in told.tolerated.items()},
        ignored=told.ignored,
        comments=told.comments,
        file=told.file,
    )


def _read_tolerance(told: TolerancePart) -> Tolerance:
    return Tolerance(tuple(map(canonical_text, told.any_of)), told.at_least, told.at_most)


def _fields(told: Expectations | Suppression) -> Mapping[str, Any]:
    return {name: getattr(told, name) for name in told.__dataclass_fields__}
