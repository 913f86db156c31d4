"""Rules on shared KV stores, offload tiers and peers: SH-01 to SH-05."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

STORES: tuple[Rule, ...] = ()
