"""How a rule is declared: `@rule(...)` over a pure function, whose docstring is its page."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Family, Severity
from dashboard.rules.page import Page, page_of


class Scope(StrEnum):
    """What a rule looks at, and what its function is given."""

    POOL = "pool"  # PoolSubject: the replicas of one pool
    PAIR = "pair"  # PairSubject: the prefill and the decode pool of one model
    FLEET = "fleet"  # FleetSubject: all replicas of all pools


Check = Callable[..., Iterable[Any]]  # of Draft, and of Unjudged


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it is called, when it applies, how bad it is, and the function.

    `severity` is by facet of the domain: of those that hold, the worst counts; where none holds the rule does not
    apply. `needs` are what the function cannot do without (see `subject.Subject.tellers`): the rule is skipped where
    fewer than `least` replicas tell any of it. `expects` names the expectation of the router (`domain.Expectations`)
    without which the rule does not apply. `holds_to_baseline`: it needs what the pool's baseline says, and does not
    apply without one.
    """

    id: str
    name: str
    family: Family
    scope: Scope
    severity: Mapping[ImpactContext, Severity]
    needs: tuple[str, ...]
    least: int
    check: Check
    page: Page
    parameters: Mapping[str, Any]
    expects: str | None = None
    holds_to_baseline: bool = False

    def severity_in(
        self, facets: frozenset[ImpactContext], known: frozenset[ImpactContext]
    ) -> tuple[ImpactContext, Severity] | None:
        """Return the facet that makes it worst among these, and how bad; None where the rule does not apply.

        A facet that is not `known` but assumed makes nothing worse than a warning; of equals a known one decides.
        """
        held = [
            (facet, severity if facet in known else severity.assumed)
            for facet, severity in self.severity.items()
            if facet in facets
        ]
        return min(held, key=lambda each: (each[1].rank, each[0] not in known)) if held else None


def rule(
    *,
    id: str,  # noqa: A002  as it is called everywhere
    name: str,
    family: Family,
    severity: Mapping[ImpactContext, Severity],
    needs: tuple[str, ...],
    scope: Scope = Scope.POOL,
    least: int = 2,
    expects: str | None = None,
    holds_to_baseline: bool = False,
) -> Callable[[Check], Rule]:
    """Declare a rule. The function takes its subject, and parameters by keyword, each with a default."""

    def declared(check: Check) -> Rule:
        keywords = list(inspect.signature(check).parameters.values())[1:]
        parameters = {each.name: each.default for each in keywords}
        page = page_of(inspect.getdoc(check) or "")
        return Rule(
            id, name, family, scope, severity, needs, least, check, page, parameters, expects, holds_to_baseline
        )

    return declared
