"""Rules on routing and the identity of blocks: RT-01 to RT-16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.rules.routing.rt_01_block_size import block_size_differs

if TYPE_CHECKING:
    from dashboard.rules.registry import Rule

ROUTING: tuple[Rule, ...] = (block_size_differs,)
