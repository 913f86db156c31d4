"""Pools of a few replicas in which one differs, and what is known of them after restarts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import change_of_tokens, known_effect, restarted_fleet
from dashboard.analysis.whatif.after import PoolRestart, RankForecast, document_after, forecast_ranks
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Document, Replica, Setting, SettingChange
from dashboard.rules.findings import Finding
from tests.builders import alike, document, fleet, replica, setting

LARGER = {"cache_config.block_size": 32}


def pool_of(
    odd: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
    *,
    number: int = 3,
    others: Mapping[str, Any] | None = None,
    ignore: tuple[str, ...] = (),
    policy: Any = None,
    **more: Any,
) -> Fleet:
    """Return a pool of equal replicas with the fields `others`, and chat-9 with different settings and fields."""
    documents = document(usual), document(odd)
    members = [*alike("chat", number, documents[0], **(others or {})), replica("chat-9", document=documents[1], **more)]
    return fleet(members, documents, ignore=ignore, **({"policy": policy} if policy else {}))


class Restarted(NamedTuple):
    """A fleet after restarts: forecasts of ranks by replica, the findings that end, new ones, and unknown ones."""

    before: Fleet
    after: Fleet
    forecasts: Mapping[str, tuple[RankForecast, ...]]
    ended: list[Finding]
    new: list[Finding]
    unknown: list[Finding]

    def rules(self, name: str) -> list[str]:
        """Return the rules of the findings in one list: ended, new, unknown."""
        return [each.rule for each in getattr(self, name)]

    @property
    def left(self) -> dict[str, Finding]:
        """The findings afterwards, by rule."""
        return {each.rule: each for each in self.after.inspection.findings}

    @property
    def change_of_tokens(self) -> tuple[int, int]:
        return change_of_tokens(self.forecasts, self.before)

    @property
    def ranks(self) -> list[RankForecast]:
        return [rank for own in self.forecasts.values() for rank in own]

    def moved(self, name: str = "chat-9") -> Replica:
        return next(each for each in self.after.replicas if each.name == name)


def like_cohort(found: Fleet, pool: str = "chat", letter: str = "A") -> Restarted:
    """Restart the other replicas of a pool with all settings that a cohort reports."""
    own = next(each for each in found.pools if each.name == pool)
    return restarted(found, next(each for each in own.cohorts if each.letter == letter).settings, pool)


def set_to(found: Fleet, wanted: Mapping[str, Any], pool: str = "chat") -> Restarted:
    """Restart the replicas of a pool that have other values of these settings."""
    return restarted(found, {path: setting(value) for path, value in wanted.items()}, pool)


def restarted(found: Fleet, wanted: Mapping[str, Setting], pool: str) -> Restarted:
    members = [each for each in found.replicas if each.pool == pool]
    changes: dict[str, tuple[SettingChange, ...]] = {}
    documents: dict[str, Document] = {}
    for each in members:
        if each.document is None:
            continue
        before = found.documents[each.document]
        if own := tuple(_changes(before, wanted)):
            changes[each.id], documents[each.id] = own, document_after(before, own, wanted)
    restart = PoolRestart(
        tuple(each for each in members if each.id in changes),
        tuple(each for each in members if each.id not in changes),
        changes,
        documents,
    )
    after = restarted_fleet(found, [restart])
    ranks = forecast_ranks(restart, found.documents)
    return Restarted(
        found,
        after,
        {each.id: ranks[each.id] for each in restart.restarting if each.is_counted},
        *known_effect(found, after, changes, ()),
    )


def _changes(own: Document, wanted: Mapping[str, Setting]) -> list[SettingChange]:
    """Compare as pools are compared: a setting that only one side reports is no change."""
    paths = sorted({*own.settings, *wanted})
    both = ((path, lookup_value(own.settings, path), lookup_value(wanted, path)) for path in paths)
    return [SettingChange(path, old, new) for path, old, new in both if old and new and old != new]
