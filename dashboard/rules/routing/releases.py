"""Which vLLM versions a pool runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packaging.version import Version

from dashboard.vllm.versions import build

if TYPE_CHECKING:
    from dashboard.fleet import Told
    from dashboard.rules.subject import PoolSubject

VERSION = "version"
OLDEST = Version("0.dev0")  # in place of what is no version


def most_run(pool: PoolSubject) -> Told:
    """Return the version that most members run, and of those that as many run, the newest. Somebody must tell one."""
    running = pool.values(VERSION)
    return max(running, key=lambda told: (len(running[told]), build(str(json.loads(told.value))) or OLDEST))
