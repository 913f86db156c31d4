"""How a rule is declared: `@rule(...)` over a pure function, or a row of simple_rules.yaml."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from textwrap import dedent
from typing import Any

from dashboard.fleet import FactName
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import FAMILIES, Family, Severity

WHY, FIX, EXCEPTIONS, EVIDENCE, EXAMPLE = "Why it matters", "How to fix", "Exceptions", "Evidence", "Example"
_HEAD = re.compile(rf"^({WHY}|{FIX}|{EXCEPTIONS}|{EVIDENCE}|{EXAMPLE}):[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^- ", re.MULTILINE)
_IMPACT = re.compile(rf"({'|'.join(ImpactContext)}) \(({'|'.join(Severity)})\): (.+)", re.DOTALL)


class Scope(StrEnum):
    """What a rule evaluates, and the argument of its function."""

    POOL = "pool"  # PoolSubject: the replicas of one pool
    PAIR = "pair"  # PairSubject: the prefill and the decode pool of one model
    FLEET = "fleet"  # FleetSubject: all replicas of all pools
    TRAFFIC = "traffic"  # PoolSubject with its traffic, and with what all other rules found on its replicas


Check = Callable[..., Iterable[Any]]  # of Draft and UnevaluatedReplicas


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a rule. `why` is by impact context; `evidence` has one line per source."""

    problem: str
    why: Mapping[ImpactContext, str]
    fix: str
    exceptions: str
    evidence: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its id and name, when it applies, how severe it is, its function and its page.

    `severity` is by impact context: the worst of those that the subject has counts; without one the rule is n/a. It is
    skipped where fewer than `least` replicas report any of `needs`; replicas that lack one of them are unknown. With
    `needs_any` the needs are alternatives: one that no replica reports is not missed. `expects` names the expectation
    of the router without which the rule is n/a; without any of `facts`, which routers report, it is n/a, too. With
    `needs_baseline` it needs the settings of the pool's baseline. `spares_own_keys`: its differences do not matter to a
    router that computes its own keys from KV events.
    """

    id: str
    name: str
    severity: Mapping[ImpactContext, Severity]
    check: Check
    page: Page
    needs: tuple[str, ...] = ()
    scope: Scope = Scope.POOL
    least: int = 2
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expects: str | None = None
    needs_baseline: bool = False
    facts: tuple[FactName, ...] = ()
    spares_own_keys: bool = False
    needs_any: bool = False

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


def rule(id_: str, **options: Any) -> Callable[[Check], Rule]:
    """Declare a rule: its name is that of its function, its page and severities are in the docstring.

    `options` are further fields of `Rule`. The function takes its subject, and parameters by keyword, each with a
    default.
    """

    def declared(check: Check) -> Rule:
        keywords = list(inspect.signature(check).parameters.values())[1:]
        parameters = {each.name: each.default for each in keywords}
        page, severity = read_docstring(inspect.getdoc(check) or "")
        return Rule(id_, check.__name__.replace("_", "-"), severity, check, page, parameters=parameters, **options)

    return declared


def read_docstring(docstring: str) -> tuple[Page, Mapping[ImpactContext, Severity]]:
    """Return a docstring as a page, missing sections empty, and the severity by impact context.

    "Why it matters" is a list of `- context (severity): sentence`. Of equally severe contexts the first counts.
    """
    problem, *rest = _HEAD.split(docstring)
    sections = {name: dedent(text).strip("\n") for name, text in zip(rest[::2], rest[1::2], strict=True)}
    impacts = list(_impacts(sections.get(WHY, "")))
    page = Page(
        problem=flowing(problem),
        why={context: why for context, _, why in impacts},
        fix=flowing(sections.get(FIX, "")),
        exceptions=flowing(sections.get(EXCEPTIONS, "")),
        evidence=tuple(_entries(sections.get(EVIDENCE, ""))),
        example=sections.get(EXAMPLE, "").rstrip(),
    )
    return page, {context: severity for context, severity, _ in impacts}


def _impacts(text: str) -> Iterator[tuple[ImpactContext, Severity, str]]:
    for entry in _entries(text):
        if (found := _IMPACT.fullmatch(entry)) is None:
            raise ValueError(f"expected `context (severity): sentence`: {entry}")
        yield ImpactContext(found[1]), Severity(found[2]), found[3]


def flowing(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph)


def _entries(text: str) -> list[str]:
    return [flowing(entry) for entry in _ENTRY.split(text) if entry.strip()]
