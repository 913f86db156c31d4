"""All rules: the rows of rules.yaml, with the functions of these modules, in the order of their ids."""

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from pydantic import BaseModel, field_validator

from dashboard.compare.equality import without_owner
from dashboard.fleet import Role
from dashboard.fleet.formatting import joined
from dashboard.rules import baseline, remedy
from dashboard.rules.behaviour import development_mode, requests, weights
from dashboard.rules.capacity import devices, graphs, kv_cache
from dashboard.rules.differences import pair_differences, pool_differences
from dashboard.rules.disaggregation import handshake, roles, transfer
from dashboard.rules.disaggregation.handshake import NixlFact, warn_unless_compared
from dashboard.rules.effect import traffic
from dashboard.rules.findings import FAMILIES, Draft, Finding
from dashboard.rules.identity import components, coverage, engines, flapping
from dashboard.rules.registry import Flowing, Rule, RuleText, Scope, rows
from dashboard.rules.routing import blocks, clusters, events, hash_root, hashes, prefix_caching, router_facts
from dashboard.rules.stores import connectors, sharing
from dashboard.rules.subject import PairSubject, PoolSubject, setting_value
from dashboard.rules.value_equivalence import MEANINGS, names_as_one

# Raise it with every new rule and every changed verdict, before tests/rules/rule_set.txt and the golden files are
# written: they contain it, as reports and snapshots do. What a first poll with another number finds is not new.
RULE_SET = 12
_ID = re.compile(r"(?P<family>[A-Za-z]{2})[-_ ]?(?P<number>[0-9]{1,4})")
MODULES = (
    *(blocks, clusters, events, hash_root, hashes, prefix_caching, router_facts),
    *(handshake, roles, transfer),
    *(connectors, sharing),
    *(development_mode, requests, weights),
    *(devices, graphs, kv_cache),
    *(components, coverage, engines, flapping),
    baseline,
    traffic,
)


class _RuleGroup(BaseModel, extra="forbid", frozen=True):
    """Settings that are compared together."""

    compare: tuple[str, ...]
    meaning: str | None = None

    @field_validator("meaning")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in MEANINGS:
            raise ValueError(f"no such function in value_equivalence.py: {name}")
        return name


class _SimpleRule(RuleText, _RuleGroup):
    """The row of a rule that compares settings."""

    name: str
    scope: Literal[Scope.POOL, Scope.PAIR] = Scope.POOL
    also: tuple[_RuleGroup, ...] = ()
    needs: tuple[str, ...] = ()
    replicas: Literal["all", "caching", "publishing", "not prefill"] = "all"
    nixl: NixlFact | None = None
    spares_own_keys: bool = False
    remedy: str = ""
    set: dict[str, Any] = {}
    problem: Flowing

    def as_rule(self) -> Rule:
        groups = (self, *self.also)
        return Rule(
            self.id,
            self.name,
            self.severity,
            partial(_check_pair if self.scope is Scope.PAIR else _check_pool, self, groups),
            self,
            self.needs or tuple(path for group in groups for path in group.compare),
            self.scope,
            spares_own_keys=self.spares_own_keys,
        )


def _check_pool(row: _SimpleRule, groups: tuple[_RuleGroup, ...], pool: PoolSubject) -> Iterator[Draft]:
    if row.replicas == "not prefill" and pool.pool.role is Role.PREFILL:
        return
    part: PoolSubject = getattr(pool, row.replicas) if row.replicas in {"caching", "publishing"} else pool
    for group in groups:
        meaning = MEANINGS.get(group.meaning or "")
        compared = {path: part.values(path, meaning) for path in group.compare}
        if meaning is without_owner:  # the whole names are shown, and pasted
            compared = {path: names_as_one(part.values(path)) for path in group.compare}
        for draft in pool_differences(part, compared):
            wanted = [(path, setting_value(native)) for path, native in row.set.items()]
            yield replace(draft, remedy=remedy.set_to(wanted, row.remedy)) if wanted else draft


def _check_pair(row: _SimpleRule, groups: tuple[_RuleGroup, ...], pair: PairSubject) -> Iterator[Draft]:
    for group in groups:
        drafts = pair_differences(pair, group.compare, MEANINGS.get(group.meaning or ""))
        yield from warn_unless_compared(row.nixl, pair, drafts) if row.nixl else drafts


_CODED = (each for module in MODULES for each in vars(module).values() if isinstance(each, Rule))
_PREFIXES = tuple(FAMILIES)
_SIMPLE = (_SimpleRule(**row).as_rule() for row in rows().values() if "compare" in row)
ALL_RULES = tuple(sorted([*_SIMPLE, *_CODED], key=lambda rule: (_PREFIXES.index(rule.id[:2]), rule.id)))
BY_ID = {rule.id: rule for rule in ALL_RULES}
# Those that read one pool, or the two of a pair, and no traffic: what else the fleet has is the same to them.
LOCAL_RULES = tuple(rule for rule in ALL_RULES if rule.scope in (Scope.POOL, Scope.PAIR))


def places(finding: Finding) -> tuple[str, ...]:
    """Return the pool or pair of a finding. A rule on the whole fleet has several pools."""
    is_fleet_wide = finding.rule in BY_ID and BY_ID[finding.rule].scope is Scope.FLEET
    return finding.pools if is_fleet_wide and finding.pools else (finding.subject,)


def unknown_rule(text: str) -> str:
    """Return the mistake for an unknown rule id, with the likely id, or with the ids of its family."""
    if (form := _ID.fullmatch(text)) and (there := _numbers(form["family"].upper())):
        meant = likely_rule_id(text)
        return f"unknown rule; did you mean {meant}?" if meant in BY_ID else f"unknown rule; there are {there}"
    ids = {called: rule.id for rule in ALL_RULES for called in (rule.id, rule.name)}
    close = get_close_matches(text.upper(), ids, n=1) or get_close_matches(text.lower(), ids, n=1)
    if close:
        return f"unknown rule; did you mean {ids[close[0]]}?"
    return "unknown rule; see `python -m dashboard rules`"


def likely_rule_id(text: str) -> str:
    """Return `RT-01` for `rt-1`, `RT_01` and `rt01`; another text unchanged."""
    form = _ID.fullmatch(text)
    return f"{form['family'].upper()}-{int(form['number']):02}" if form else text


def find_rule(text: str) -> Rule | None:
    """Return the rule with this id, which `likely_rule_id` may spell, or this name."""
    named = (each for each in ALL_RULES if each.name == text.lower())
    return BY_ID.get(likely_rule_id(text)) or next(named, None)


def rule_id(text: str) -> str:
    """Return the id of a rule in upper case; another text unchanged."""
    return text.upper() if text.upper() in BY_ID else text


def _numbers(family: str) -> str:
    """Return the ids of a family as ranges, `ID-01 to ID-03 and ID-05 to ID-08`; empty without any."""
    ranges: list[list[str]] = []
    numbers = sorted(int(each.removeprefix(f"{family}-")) for each in BY_ID if each.startswith(f"{family}-"))
    for before, number in pairwise([-1, *numbers]):
        if number != before + 1:
            ranges.append([])
        ranges[-1].append(f"{family}-{number:02}")
    return joined([f"{first} to {last}" if first != last else first for first, *_, last in (r * 2 for r in ranges)])
