"""The JSON document of what changed between two fleets: what `diff --format json` prints.

The models of `changes_parts` are the contract: docs/changes.schema.json is made of them. No clock: the same fleets give
the same bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard import __version__
from dashboard.analysis import changes
from dashboard.fleet import SettingValue
from dashboard.report.changes.parts import (
    AmountPart,
    BriefFindingPart,
    CapacityChangesPart,
    ChangesDocument,
    EndedPart,
    FindingChangesPart,
    KeptFindingPart,
    LoneFindingPart,
    PoolCapacityPart,
    RankChangePart,
    ReplicaChangesPart,
    SeenPart,
    SettingChangesPart,
    SettingGroupPart,
    SharePart,
    SidePart,
    SilencePart,
    StayedPart,
    ValueChangePart,
)
from dashboard.report.changes.words import headline, lead, warnings
from dashboard.report.parts import Coverage, ToldPart, native
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Finding, Suppression

SCHEMA_VERSION = 1


def changes_document(told: changes.Changes) -> ChangesDocument:
    """Return the document of what changed."""
    return ChangesDocument(
        schema_version=SCHEMA_VERSION,
        program_version=__version__,
        rule_set=RULE_SET,
        before=_side(told.before),
        after=_side(told.after),
        changed=not told.is_empty,
        headline=headline(told),
        lead=lead(told),
        warnings=tuple(warnings(told)),
        options_differ=told.options_differ,
        names=dict(sorted(told.names.items())),
        replicas=_replicas(told.replicas),
        settings=_settings(told.settings),
        findings=_findings(told.findings),
        capacity=_capacity(told.capacity),
    )


def changes_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return ChangesDocument.model_json_schema(mode="serialization")


def _side(side: changes.Side) -> SidePart:
    reach = Coverage(**side.reach._asdict())
    return SidePart(fleet=side.fleet, snapshot=side.snapshot, data_as_of=side.polled_at, coverage=reach)


def _replicas(told: changes.ReplicaChanges) -> ReplicaChangesPart:
    return ReplicaChangesPart(
        came=tuple(map(_seen, told.came)),
        went=tuple(map(_seen, told.went)),
        changed=tuple(
            StayedPart(before=_seen(each.before), after=_seen(each.after), restarted=each.restarted)
            for each in told.changed
        ),
        stayed=len(told.both),
        start_untold=told.start_untold,
    )


def _seen(each: changes.Seen) -> SeenPart:
    given = {**each._asdict(), "replica": each.id, "cohort": each.letter or None}
    return SeenPart(**{name: given[name] for name in SeenPart.model_fields})


def _settings(told: changes.SettingChanges) -> SettingChangesPart:
    return SettingChangesPart(
        groups=tuple(map(_group, told.groups)),
        no_longer_told=tuple(map(_silence, told.no_longer_told)),
        now_told=tuple(map(_silence, told.now_told)),
        ignored=told.ignored,
        compared=told.compared,
        unread_before=told.unread_before,
        unread_after=told.unread_after,
    )


def _group(group: changes.SettingGroup) -> SettingGroupPart:
    return SettingGroupPart(
        pool_before=group.pools[0],
        pool_after=group.pools[1],
        changes=tuple(
            ValueChangePart(path=each.path, before=_told(each.before), after=_told(each.after))
            for each in group.changes
        ),
        replicas=group.replicas,
        of_before=group.pool_sizes[0],
        of_after=group.pool_sizes[1],
        cohorts_before=_shares(group.cohorts_before),
        cohorts_after=_shares(group.cohorts_after),
        restarted=group.restarted,
        start_untold=group.start_untold,
    )


def _told(told: SettingValue) -> ToldPart:
    return ToldPart(value=native(told.value), state=told.state)


def _shares(shares: Iterable[changes.Share]) -> tuple[SharePart, ...]:
    return tuple(SharePart(cohort=each.letter or None, count=each.number) for each in shares)


def _silence(each: changes.OneSidedSettings) -> SilencePart:
    before, after = each.pools
    return SilencePart(pool_before=before, pool_after=after, paths=each.paths, replicas=each.replicas, why=each.why)


def _findings(told: changes.FindingChanges) -> FindingChangesPart:
    return FindingChangesPart(
        new=tuple(map(_lone, told.new)),
        gone=tuple(map(_lone, told.gone)),
        changed=tuple(map(_kept, told.changed)),
        same=len(told.kept) - len(told.changed),
    )


def _brief(finding: Finding) -> Mapping[str, Any]:
    return {name: getattr(finding, name) for name in BriefFindingPart.model_fields}


def _lone(each: changes.OneSidedFinding) -> LoneFindingPart:
    return LoneFindingPart(
        **_brief(each.finding),
        suppressed=each.is_suppressed,
        elsewhere=each.elsewhere,
        absent=each.absent,
        unread=each.unread,
        silent=each.silent,
        outcome=each.outcome,
        reason=each.reason or None,
    )


def _kept(each: changes.PersistingFinding) -> KeptFindingPart:
    return KeptFindingPart(
        **_brief(each.after),
        severity_before=each.before.severity,
        joined=each.joined,
        left=each.left,
        unread=each.unread,
        suppressed_before=each.suppressed_before,
        suppressed_after=each.suppressed_after,
        ended=_ended(each.ended),
    )


def _ended(told: Suppression | None) -> EndedPart | None:
    return EndedPart(owner=told.owner, reason=told.reason, until=told.until) if told else None


def _capacity(told: changes.CapacityChanges) -> CapacityChangesPart:
    return CapacityChangesPart(
        total=_pool(told.total),
        pools=tuple(map(_pool, told.pools)),
        ranks=tuple(map(_rank, told.ranks)),
        compared=told.compared,
        incomparable=told.incomparable,
    )


def _pool(pool: changes.PoolCapacity) -> PoolCapacityPart:
    before, after = (AmountPart(**each._asdict()) for each in (pool.before, pool.after))
    return PoolCapacityPart(pool=pool.pool, before=before, after=after, share=pool.share)


def _rank(each: changes.RankChange) -> RankChangePart:
    given = {**each._asdict(), "at_most": each.is_at_most}
    return RankChangePart(**{name: given[name] for name in RankChangePart.model_fields})
