"""Findings and inspections with defaults, for tests of pages and formats."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import cycle
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import State, cohort_letters
from dashboard.fleet.history import Rollout, Sighting, Sightings
from dashboard.fleet.pieces import plain
from dashboard.rules.domain import Domain, ImpactContext, Origin, Router, Store
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
from tests.builders import NOW, story

DOMAIN = Domain(
    Router.PREFIX_HASH,
    Origin.DECLARED,
    Store.NONE,
    Origin.ASSUMED,
    disaggregated=False,
    disaggregated_basis=Origin.ASSUMED,
)
BLOCK_SIZE = "cache_config.block_size"
POLL = timedelta(minutes=5)  # between two polls of a history


def evidence(path: str = BLOCK_SIZE, value: str = "32", replicas: tuple[str, ...] = (), **more: Any) -> Evidence:
    """A reported value."""
    return Evidence(path, value, more.pop("state", State.REPORTED), replicas, **more)


def finding(fleet: Fleet, replicas: Iterable[str] = ("chat-70b-17",), **more: Any) -> Finding:
    """A critical finding on the replicas of these names: their block size is 32 instead of 16."""
    members = [each for name in replicas for each in fleet.replicas if each.name == name]
    ids = tuple(each.id for each in members)
    pools = tuple(dict.fromkeys(each.pool for each in members if each.pool))
    letters = cohort_letters(fleet.pools)
    shares: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in members:
        shares[each.pool or "", letters.get(each.id, "")].append(each.id)
    rest = tuple(each.id for each in fleet.replicas if each.pool in pools and each.fresh and each.id not in ids)
    given: dict[str, Any] = {
        "id": "0123456789",
        "rule": "RT-01",
        "severity": Severity.CRITICAL,
        "confidence": Confidence.REPORTED,
        "subject": " + ".join(pools),
        "pools": pools,
        "replicas": ids,
        "cohorts": tuple(CohortShare(*key, tuple(shares[key])) for key in sorted(shares)),
        "sentence": f"Block size is 32 instead of 16, which {len(rest)} of {len(rest) + len(ids)} replicas have.",
        "why": "The router cuts prompts into blocks of one size; its keys never match the blocks of a replica that "
        "cuts otherwise, so what that replica holds is never found.",
        "remedy": Remedy(
            "Give these replicas the same block size as the rest of the pool, and restart them.",
            (Snippet("flag", "--block-size 16"),),
        ),
        "evidence": (evidence(replicas=ids), evidence(value="16", replicas=rest, is_reference=True)),
        "total": len(rest) + len(ids),
        "context": ImpactContext.PREFIX_HASH,
    }
    known = {**given, **more}
    return Finding(text=plain(known.pop("sentence")), **known)


def sightings_of(fleet: Fleet) -> Sightings:
    """Sightings of all that a fleet has, in turn: new, new since hours, returned after days, there from the begin."""
    assert fleet.polled_at is not None
    at, first = fleet.polled_at, fleet.polled_at - timedelta(days=18)
    since = [at - timedelta(minutes=12), at - timedelta(hours=3), at - timedelta(days=2)]
    absent = [each - POLL for each in since]
    turns = (
        Sighting(since[0], since[0], absent[0]),
        Sighting(since[1], since[1], absent[1]),
        Sighting(first, since[2], absent[2]),
        Sighting(first, first),
    )
    found = (each.fingerprint for each in (*fleet.inspection.findings, *fleet.inspection.suppressed))
    return Sightings(
        dict(zip(dict.fromkeys(found), cycle(turns), strict=False)),
        dict(zip((each.id for each in fleet.replicas), cycle(turns[::-1]), strict=False)),
        dict(zip(((pool.name, each.document) for pool in fleet.pools for each in pool.cohorts), cycle(turns[::-1]))),
        dict(zip(((pool.name, each.path) for pool in fleet.pools for each in pool.differences), cycle(turns))),
    )


def sighted(fleet: Fleet) -> Fleet:
    """A fleet with `sightings_of` it."""
    return replace(fleet, sightings=sightings_of(fleet))


def outcome(
    rule: str = "RT-01", pool: str = "chat-70b", kind: OutcomeKind = OutcomeKind.PASSED, **more: Any
) -> Outcome:
    """The outcome of a rule on one pool."""
    return Outcome(rule, pool, (pool,), kind, **more)


def suppression(**more: Any) -> Suppression:
    """A suppression with an owner, until 2026-12-24."""
    given: dict[str, Any] = {"rule": "RT-01", "owner": "ana", "reason": "a test of larger blocks", "number": 1}
    return Suppression(**{**given, "until": date(2026, 12, 24), **more})


def with_findings(fleet: Fleet, *findings: Finding, **more: Any) -> Fleet:
    """A fleet with these findings. Each pool has a prefix-hash router."""
    failed = tuple(outcome(each.rule, each.subject, OutcomeKind.FAILED, findings=1) for each in findings)
    given: dict[str, Any] = {"outcomes": failed, "domains": {pool.name: DOMAIN for pool in fleet.pools}}
    return replace(fleet, inspection=Inspection(findings=findings, **{**given, **more}))


def inspected_story() -> Fleet:
    """The story of builders.py with findings of each severity, a rollout, a suppressed and an expired finding."""
    fleet = story()
    names = {pool.name: [each.name for each in fleet.replicas if each.pool == pool.name] for pool in fleet.pools}
    hashed = finding(
        fleet,
        ["chat-70b-16"],
        id="aaaa000001",
        rule="RT-05",
        sentence="Hash algorithm is xxhash instead of sha256_cbor, which 16 of 17 replicas have.",
        evidence=(
            evidence("cache_config.prefix_caching_hash_algo", '"xxhash"', ("http://chat-70b-16:8000",)),
            evidence(
                "cache_config.prefix_caching_hash_algo",
                '"sha256_cbor"',
                tuple(f"http://chat-70b-{index:02}:8000" for index in range(1, 16)),
                is_reference=True,
            ),
        ),
        remedy=Remedy(
            "Give these replicas the same hash algorithm as the rest of the pool, and restart them.",
            (
                Snippet("flag", "--prefix-caching-hash-algo sha256_cbor"),
                Snippet("env", "export PYTHONHASHSEED=0"),
                Snippet("yaml", "image: vllm/vllm-openai:v0.32.0"),
            ),
        ),
        unknown=1,
        total=18,
    )
    pair = finding(
        fleet,
        names["deepseek-v3/prefill"],
        id="aaaa000002",
        rule="PD-02",
        severity=Severity.WARNING,
        confidence=Confidence.DERIVED,
        pools=("deepseek-v3/prefill", "deepseek-v3/decode"),
        subject="deepseek-v3/prefill + deepseek-v3/decode",
        sentence="KV cache dtype is fp8_e4m3 on prefill and auto on decode.",
        evidence=(
            evidence(
                "cache_config.cache_dtype",
                '"fp8_e4m3"',
                tuple(f"http://{name}:8000" for name in names["deepseek-v3/prefill"]),
                holder="deepseek-v3/prefill",
            ),
            evidence(
                "cache_config.cache_dtype",
                '"auto"',
                tuple(f"http://{name}:8000" for name in names["deepseek-v3/decode"]),
                holder="deepseek-v3/decode",
                is_reference=True,
            ),
        ),
    )
    versions = finding(
        fleet,
        ["embed-8b-06", "embed-8b-07", "embed-8b-08", "embed-8b-09", "embed-8b-10"],
        id="aaaa000003",
        rule="CO-01",
        severity=Severity.INFO,
        sentence="Version is 0.31.0 instead of 0.32.0, which 5 of 10 replicas have.",
        is_rollout=True,
    )
    choice = Remedy(
        "Choose one value for the pool, and restart the others.",
        (Snippet("flag", "--max-model-len 8192"), Snippet("shell", "kubectl rollout restart deployment/embed-8b")),
        any_of=True,
    )
    versions = replace(versions, remedy=choice)
    old = finding(fleet, id="aaaa000004", expired=suppression(until=date(2026, 2, 1)))
    quiet = finding(fleet, ["gemma-27b-01"], id="aaaa000005", severity=Severity.WARNING, suppression=suppression())
    rules = [f"CO-{number:02}" for number in range(2, 12)]
    more = [outcome(rule, pool) for rule in rules for pool in names]
    more += [
        outcome(
            "RT-06", pool, OutcomeKind.SKIPPED, reason=f"env.PYTHONHASHSEED: reported by 0 of {len(held)} replicas."
        )
        for pool, held in names.items()
    ]
    more.append(outcome("SH-01", "gemma-27b", OutcomeKind.NOT_APPLICABLE, reason="Only for: kv-store."))
    moved = tuple(f"http://embed-8b-{index:02}:8000" for index in range(1, 6))
    began = NOW - timedelta(hours=2)
    return with_findings(
        fleet,
        hashed,
        old,
        pair,
        versions,
        suppressed=(quiet,),
        notes=("suppress[2] in fleet.yaml (RT-02, bob) matches no finding; take it out.",),
        outcomes=(
            *more,
            *(outcome(each.rule, each.subject, OutcomeKind.FAILED) for each in (hashed, old, pair, versions)),
        ),
        rollouts={
            "embed-8b": Rollout("embed-8b", "0.31.0", "0.32.0", moved, 10, began, datetime(2026, 3, 2, 10, tzinfo=UTC))
        },
    )
