"""Rules on data-parallel groups, identity and coverage: ID-01 to ID-08."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

IDENTITY: tuple[Rule, ...] = ()
