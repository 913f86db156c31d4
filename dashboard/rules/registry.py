"""How a rule is declared: a row of rules.yaml, and `@rule(...)` over a pure function where it does not only compare."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel

from dashboard.fleet import FactName
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import FAMILIES, Family, Severity


class Scope(StrEnum):
    """What a rule evaluates, and the argument of its function."""

    POOL = "pool"  # PoolSubject: the replicas of one pool
    PAIR = "pair"  # PairSubject: the prefill and the decode pool of one model
    FLEET = "fleet"  # FleetSubject: all replicas of all pools
    TRAFFIC = "traffic"  # PoolSubject with its traffic, and with what all other rules found on its replicas


Check = Callable[..., Iterable[Any]]  # of Draft and UnevaluatedReplicas


def flowing(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph)


Flowing = Annotated[str, AfterValidator(flowing)]  # of paragraphs, each on one line


class Impact(BaseModel, extra="forbid", frozen=True):
    """How severe a rule is in a context, and why it matters there."""

    severity: Severity
    why: str


class RuleText(BaseModel, extra="forbid", frozen=True):
    """The page of a rule, as its row has it; the head of rules.yaml explains the fields.

    The problem is empty where the docstring of a function states it: see `page`.
    """

    id: str
    impact: dict[ImpactContext, Impact]
    problem: Flowing = ""
    fix: Flowing
    exceptions: Flowing
    evidence: tuple[str, ...]
    example: str

    @property
    def severity(self) -> dict[ImpactContext, Severity]:
        return {context: each.severity for context, each in self.impact.items()}

    @property
    def why(self) -> dict[ImpactContext, str]:
        return {context: each.why for context, each in self.impact.items()}

    def page(self, problem: str) -> "RuleText":
        """Return the page with the problem of a docstring."""
        return self.model_copy(update={"problem": flowing(problem)})


@cache
def rows() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of rules.yaml by the ids of their rules."""
    text = files("dashboard.rules").joinpath("rules.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {row["id"]: row for row in yaml.load(text, loader)}  # noqa: S506  both are safe loaders


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its id and name, when it applies, how severe it is, its function and its page.

    `severity` is by impact context: the worst of those that the subject has counts; without one the rule is n/a. It is
    skipped where fewer than `least` replicas report any of `needs`; replicas that lack one of them are unknown. With
    `needs_any` the needs are alternatives: one that no replica reports is not missed. `expects` names the expectation
    of the router without which the rule is n/a; without any of `facts`, which routers report, it is n/a, too. With
    `needs_baseline` it needs the settings of the pool's baseline. `spares_own_keys`: its differences do not matter to a
    router that computes its own keys from KV events. `reads_starts`: of equal replicas that only restarted it may find
    something else.
    """

    id: str
    name: str
    severity: Mapping[ImpactContext, Severity]
    check: Check
    page: RuleText
    needs: tuple[str, ...] = ()
    scope: Scope = Scope.POOL
    least: int = 2
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expects: str | None = None
    needs_baseline: bool = False
    facts: tuple[FactName, ...] = ()
    spares_own_keys: bool = False
    needs_any: bool = False
    reads_starts: bool = False

    @property
    def family(self) -> Family:
        return FAMILIES[self.id[:2]]

    def severity_in(
        self, contexts: frozenset[ImpactContext], known: frozenset[ImpactContext]
    ) -> tuple[ImpactContext, Severity] | None:
        """Return the impact context with the worst severity, and that; None where the rule does not apply.

        A context that is not `known` but assumed is never worse than warning; of equals a known one decides.
        """
        candidates = [
            (context, severity if context in known else severity.assumed)
            for context, severity in self.severity.items()
            if context in contexts
        ]
        return min(candidates, key=lambda each: (each[1].rank, each[0] not in known)) if candidates else None


def rule(id_: str, text: RuleText | None = None, **options: Any) -> Callable[[Check], Rule]:
    """Declare a rule: its name is that of its function, its problem the docstring, all other text its row.

    `options` are further fields of `Rule`. The function takes its subject, and parameters by keyword, each with a
    default. `text` is in place of a row.
    """

    def declared(check: Check) -> Rule:
        own = text or RuleText(**rows()[id_])
        keywords = list(inspect.signature(check).parameters.values())[1:]
        parameters = {each.name: each.default for each in keywords}
        page = own.page(inspect.getdoc(check) or "")
        name = check.__name__.replace("_", "-")
        return Rule(id_, name, own.severity, check, page, parameters=parameters, **options)

    return declared
