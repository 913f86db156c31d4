"""The JSON document of findings: what /api/v1/findings answers and `check --format json` prints.

The fleet document has the same objects. docs/findings.schema.json is made of this module.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.compare import sharing_text
from dashboard.documents.contract import ADDED, Contract, JsonKey, JsonObject, Time, WithExtraKeys
from dashboard.fleet import Pool
from dashboard.fleet.pieces import to_plain
from dashboard.fleet.sightings import Sighting
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.domain import Domain, Expectations, ImpactContext
from dashboard.rules.findings import (
    CohortShare,
    Evidence,
    Family,
    Finding,
    Outcome,
    OutcomeKind,
    Remedy,
    Rollout,
    Severity,
    Suppression,
    Tally,
)

SCHEMA_VERSION = 1


class ReplicaName(NamedTuple):
    """A replica by its id and its name."""

    replica: str
    name: str


class OutcomeGroup(NamedTuple):
    """The outcome of one rule on all subjects where it is the same, for the same reason."""

    rule: str
    kind: OutcomeKind
    reason: str | None
    subjects: tuple[str, ...]
    unknown: Mapping[str, int]


def or_null(attribute: str) -> Callable[[Any], Any]:
    """Return what reads an attribute of which the empty text is null in JSON."""
    return lambda value: getattr(value, attribute) or None


def findings_json(fleet: Fleet, generated_at: datetime, *, left_out: str = "", indent: int | None = None) -> bytes:
    """Return the document of the findings of a fleet; `left_out` says which are not in it."""
    return FINDINGS.dump(
        WithExtraKeys(fleet, {"generated_at": generated_at, "left_out": left_out or None}), indent=indent
    )


def sighted(sighting: Sighting | None) -> dict[str, datetime | None]:
    """Return the keys that a sighting adds to a row."""
    return dict.fromkeys(Sighting._fields) if sighting is None else sighting._asdict()


def pool_rows(fleet: Fleet) -> tuple[WithExtraKeys, ...]:
    """Return the pools of a fleet with what the rules found, and whether their replicas share prefixes."""
    inspection = fleet.inspection
    replicas = {each.id: each for each in fleet.replicas}
    rows = []
    for pool in fleet.pools:
        sharing, transfer = fleet.sharing[pool.name], fleet.transfers.get(pool.name)
        added = {
            "tally": inspection.tallies[pool.name],
            "domain": inspection.domains[pool.name],
            "rollout": inspection.rollouts.get(pool.name),
            "shares_prefixes": sharing.share.value,
            "kv_transfer": None if transfer is None else transfer.share.value,
            "prefix_sharing": WithExtraKeys(sharing, {"sentence": to_plain(sharing_text(sharing, replicas))}),
            "cohorts": tuple(
                WithExtraKeys(each, sighted(fleet.sightings.cohorts.get((pool.name, each.document))))
                for each in pool.cohorts
            ),
            "differences": tuple(
                WithExtraKeys(each, sighted(fleet.sightings.differences.get((pool.name, each.path))))
                for each in pool.differences
            ),
        }
        rows.append(WithExtraKeys(pool, added))
    return tuple(rows)


def finding_rows(kind: Literal["findings", "suppressed"]) -> Callable[[Fleet], tuple[WithExtraKeys, ...]]:
    """Return what lists findings of a fleet, each with the names of its replicas."""

    def rows(fleet: Fleet) -> tuple[WithExtraKeys, ...]:
        names = {each.id: each.name for each in fleet.replicas}
        findings: Sequence[Finding] = getattr(fleet.inspection, kind)
        return tuple(
            WithExtraKeys(
                each,
                {
                    "replicas": tuple(ReplicaName(key, names[key]) for key in each.replicas),
                    **sighted(fleet.sightings.findings.get(each.fingerprint)),
                },
            )
            for each in findings
        )

    return rows


def _outcomes(fleet: Fleet) -> tuple[OutcomeGroup, ...]:
    grouped: dict[tuple[str, OutcomeKind, str], list[Outcome]] = defaultdict(list)
    for outcome in fleet.inspection.outcomes:
        grouped[outcome.rule, outcome.kind, outcome.reason].append(outcome)
    kinds = list(OutcomeKind)
    return tuple(
        OutcomeGroup(
            rule,
            kind,
            reason or None,
            tuple(each.subject for each in grouped[rule, kind, reason]),
            {each.subject: each.unknown for each in grouped[rule, kind, reason] if each.unknown},
        )
        for rule, kind, reason in sorted(grouped, key=lambda key: (key[0], kinds.index(key[1]), key[2]))
    )


CONTRACT = Contract()
SIGHTING_KEYS = (
    JsonKey("first_seen", Time | None, ADDED, "first poll in the history with it; null: not recorded"),
    JsonKey("since", Time | None, ADDED, "first poll since which it is there without a pause"),
    JsonKey("absent_at", Time | None, ADDED, "the last poll before `since`; null: nobody looked before"),
)
CONTRACT.object(Expectations, is_read=True)
CONTRACT.object(
    CohortShare,
    JsonKey("pool", str | None, or_null("pool")),
    JsonKey("cohort", str | None, or_null("letter"), "null: nothing was read of these replicas"),
    JsonKey("count", of="number"),
)
CONTRACT.object(
    Evidence,
    "path value state",
    JsonKey("count", int, lambda each: len(each.replicas), "how many replicas report it"),
    JsonKey(
        "replicas",
        tuple[str, ...] | None,
        lambda each: None if each.is_reference else each.replicas,
        "their ids; null for the reference, which most replicas report",
    ),
    JsonKey(
        "holder", str | None, or_null("holder"), "`router`, a pool or a file, where these replicas do not report it"
    ),
    JsonKey("is_reference", doc="what the others are compared with"),
    JsonKey("comment", str | None, or_null("comment"), "comment in the baseline"),
)
CONTRACT.object(Remedy, "sentence", "snippets", JsonKey("any_of", doc="one of the snippets is enough"))
CONTRACT.object(Suppression, "owner", "reason", "until", JsonKey("number", doc="place in fleet.yaml, from 1"))
CONTRACT.object(
    Finding,
    JsonKey("id", doc="the same in every poll while rule, pools and values are"),
    "rule",
    JsonKey("name", str, lambda each: BY_ID[each.rule].name),
    JsonKey("family", Family, lambda each: BY_ID[each.rule].family),
    "severity confidence",
    JsonKey("fingerprint", doc="the same in every poll while rule, pools and settings are"),
    JsonKey("subject", doc="a pool, a pair `prefill + decode`, or `fleet`"),
    "pools",
    JsonKey("replicas", tuple[ReplicaName, ...], ADDED),
    "cohorts sentence why remedy evidence",
    JsonKey("unknown", doc="replicas that do not report what the rule needs"),
    JsonKey("total", doc="replicas that the rule looked at"),
    JsonKey("is_rollout", doc="follows a rollout in progress; its severity is one step milder"),
    JsonKey("suppression", doc="set on what is suppressed"),
    JsonKey("expired", doc="the suppression that expired"),
    JsonKey("assumptions", doc="what severity or sentence assume; at most a warning then"),
    JsonKey(
        "severity_behind",
        dict[ImpactContext, Severity],
        lambda each: dict(each.severity_behind),
        "where no router is declared: the routers behind which the severity is worse",
    ),
    *SIGHTING_KEYS,
)
CONTRACT.object(
    Rollout,
    "old new",
    JsonKey("moved", int, lambda each: len(each.replicas), "replicas on the new version"),
    "total began last",
)
CONTRACT.object(
    Domain,
    *(
        JsonKey(
            name,
            JsonObject(
                CONTRACT,
                Domain,
                (JsonKey("value", of=name), JsonKey("basis", of=f"{name}_basis")),
                f"Domain{name.title()}",
            ),
            lambda each: each,
        )
        for name in ("router", "kv_store", "disaggregated")
    ),
    "expects",
)
POOL_KEYS = (
    JsonKey("pool", of="name", doc="`cluster/name`; the name alone where replicas have no label `cluster`"),
    JsonKey("cluster", doc="label of its replicas; empty: they have none"),
    JsonKey("replicas", int, lambda each: len(each.replicas)),
    JsonKey("tally", Tally, ADDED),
    JsonKey("domain", Domain, ADDED),
    JsonKey("rollout", Rollout | None, ADDED),
    JsonKey(
        "shares_prefixes",
        Literal["yes", "no", "unknown"],
        ADDED,
        "whether all replicas share prefixes: the weakest pair of cohorts",
    ),
    JsonKey(
        "kv_transfer",
        Literal["yes", "no", "unknown"] | None,
        ADDED,
        "whether all replicas can transfer KV cache, with those that prefill or decode for them; null: nothing to do",
    ),
)
CONTRACT.object(Pool, *POOL_KEYS)
HEAD_KEYS = (
    JsonKey("program_version", str, lambda _: __version__),
    JsonKey("generated_at", Time, ADDED),
    JsonKey("data_as_of", Time, "polled_at", "when the poll ended"),
    JsonKey("fleet", of="name"),
    JsonKey("coverage"),
    JsonKey("tally", of="inspection.tally"),
)
FINDING_KEYS = (
    JsonKey("pools", tuple[Pool, ...], pool_rows),
    JsonKey("findings", tuple[Finding, ...], finding_rows("findings")),
    JsonKey("suppressed", tuple[Finding, ...], finding_rows("suppressed")),
)
FINDINGS = CONTRACT.object(
    Fleet,
    JsonKey("schema_version", int, lambda _: SCHEMA_VERSION),
    *HEAD_KEYS,
    JsonKey("past", doc="the time in the history; null: not of the history"),
    JsonKey("left_out", str | None, ADDED, "`check --since`: how many findings are left out, not being new"),
    *FINDING_KEYS,
    JsonKey("outcomes", tuple[OutcomeGroup, ...], _outcomes),
    JsonKey("notes", of="inspection.notes", doc="options and baselines that match nothing"),
    name="FindingsDocument",
)
