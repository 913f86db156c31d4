"""Which vLLM versions a pool runs."""

import json

from packaging.version import Version

from dashboard.fleet import SettingValue
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.versions import build

VERSION = "version"
OLDEST = Version("0.dev0")  # in place of what is no version


def most_run(pool: PoolSubject) -> SettingValue:
    """Return the version that most members run, and of those that as many run, the newest. Somebody must tell one."""
    running = pool.values(VERSION)
    return max(running, key=lambda told: (len(running[told]), build(str(json.loads(told.value))) or OLDEST))
