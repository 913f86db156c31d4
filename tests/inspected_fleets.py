"""Findings made by hand, and a fleet that has them: for the formats that only write."""

from collections.abc import Iterable
from datetime import date
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import State
from dashboard.fleet.pieces import plain
from dashboard.rules.domain import Domain, Origin, Router, Store
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Evidence,
    Finding,
    Inspection,
    Outcome,
    OutcomeKind,
    Remedy,
    Severity,
    Snippet,
    Suppression,
)
from tests import builders

EVIL = "<b>![x](http://h/x.png)|`@all #1 \x1b[31m\u202e]]>&%::error::\r\nhttps://www.h.io \x00\ufffe*_~$x$"
UNTIL = date(2026, 4, 30)


def finding(rule: str = "RT-01", severity: Severity = Severity.CRITICAL, **more: Any) -> Finding:
    """A finding on chat-3 and chat-4, cohort B."""
    given = {
        "id": "0123456789",
        "rule": rule,
        "severity": severity,
        "confidence": Confidence.REPORTED,
        "subject": "chat",
        "pools": ("chat",),
        "replicas": ("http://chat-3:8000", "http://chat-4:8000"),
        "cohorts": (CohortShare("chat", "B", ("http://chat-3:8000", "http://chat-4:8000")),),
        "sentence": "Block size is 32 instead of 16, which 2 of 4 replicas have.",
        "why": "The router never finds what these replicas hold.",
        "remedy": Remedy("Give these replicas the same block size.", (Snippet("flag", "--block-size 16"),)),
        "evidence": (Evidence("cache_config.block_size", "32", State.REPORTED, ("http://chat-3:8000",)),),
        "total": 4,
    }
    known = {**given, **more}
    return Finding(text=plain(known.pop("sentence")), **known)


def in_cohorts(pool: str = "chat", /, **cohorts: tuple[int, ...]) -> Finding:
    """A finding on replicas of a pool, chat-1 and so on by number, by the letters of their cohorts."""
    ids = {letter: tuple(f"http://chat-{number}:8000" for number in held) for letter, held in cohorts.items()}
    return finding(
        replicas=tuple(sorted(each for held in ids.values() for each in held)),
        cohorts=tuple(CohortShare(pool, letter, held) for letter, held in ids.items()),
    )


def suppression(**more: Any) -> Suppression:
    """An entry of fleet.yaml."""
    given = {"rule": "RT-01", "owner": "ann", "reason": "canary", "until": UNTIL, "number": 1}
    return Suppression(**{**given, **more})


def domain(router: Router = Router.PREFIX_HASH, basis: Origin = Origin.DECLARED, store: Store = Store.NONE) -> Domain:
    """What a pool shares: a router, and how that is known."""
    return Domain(router, basis, store, Origin.READ, disaggregated=False, disaggregated_basis=Origin.ASSUMED)


def outcome(rule: str = "RT-01", kind: OutcomeKind = OutcomeKind.PASSED, reason: str = "", **more: Any) -> Outcome:
    """What became of a rule on the pool chat."""
    given = {"subject": "chat", "pools": ("chat",), "total": 4}
    return Outcome(rule, kind=kind, reason=reason, **{**given, **more})


def fleet(
    *found: Finding,
    suppressed: Iterable[Finding] = (),
    outcomes: Iterable[Outcome] | None = None,
    down: int = 0,
    **more: Any,
) -> Fleet:
    """Four replicas chat-1 to chat-4, some more that are down, and what the rules say of them."""
    document = builders.document()
    members = [builders.replica(f"chat-{number}", document=document) for number in range(1, 5)]
    members += [builders.down(f"lost-{number}") for number in range(1, down + 1)]
    hidden = tuple(suppressed)
    failed = {each.rule for each in (*found, *hidden)}
    whole = [outcome(rule, OutcomeKind.FAILED) for rule in sorted(failed)] if outcomes is None else outcomes
    inspection = Inspection(findings=found, suppressed=hidden, outcomes=tuple(whole), **more.pop("inspected", {}))
    return builders.fleet(members, [document], inspection=inspection, **more)


def evil() -> Fleet:
    """A fleet in which every text that a stranger writes is an attack on the format."""
    entry = suppression(owner=EVIL, reason=EVIL)
    bad = finding(
        subject=EVIL,
        pools=(EVIL,),
        cohorts=(CohortShare(EVIL, "A", ("http://chat-3:8000", "http://chat-4:8000")),),
        sentence=EVIL,
        remedy=Remedy(EVIL, (Snippet("yaml", f"a: 1\n```\n{EVIL}"),)),
        evidence=(Evidence(EVIL, "1", State.REPORTED),),
        expired=entry,
    )
    hidden = finding("CO-01", sentence=EVIL, subject=EVIL, suppression=entry)
    raised = [
        outcome("CO-01", OutcomeKind.FAILED, subject=EVIL),
        outcome("CO-02", OutcomeKind.ERROR, EVIL, subject=EVIL),
        outcome("CO-03", OutcomeKind.SKIPPED, EVIL, subject=EVIL),
        outcome("RT-01", OutcomeKind.FAILED, subject=EVIL),
    ]
    return fleet(bad, suppressed=[hidden], outcomes=raised, down=1, name=EVIL, inspected={"notes": (EVIL,)})
