"""Rules on correctness, admission and what the API answers: CO-01 to CO-14."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

BEHAVIOUR: tuple[Rule, ...] = ()
