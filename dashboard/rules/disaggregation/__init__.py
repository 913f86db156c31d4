"""Rules on prefill/decode disaggregation: PD-01 to PD-19."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

DISAGGREGATION: tuple[Rule, ...] = ()
