"""The router's expectations, compared with the replicas' values."""

import json
from collections.abc import Iterator

from packaging.version import Version

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.differences import code
from dashboard.rules.findings import Draft, Evidence, Severity, Snippet
from dashboard.rules.sentences import setting_name, setting_piece, value_piece, write
from dashboard.rules.subject import Holders, PoolSubject, setting_value
from dashboard.vllm.canonical import canonical_text
from dashboard.vllm.versions import build

ROUTER = "router"  # the holder of an expectation
VERSION = "version"
_OLDEST = Version("0.dev0")  # in place of an invalid version


def expectation(path: str, value: object) -> Evidence:
    """Return the router's side of a finding, as fleet.yaml declares it."""
    return Evidence(path, canonical_text(value), State.REPORTED, holder=ROUTER, is_reference=True)


def declaration(pool: str, *lines: str) -> Snippet:
    """Return what to write into fleet.yaml about a pool; each line is nested below the one before."""
    nested = ("pools:", f"{json.dumps(pool)}:", *lines)
    return Snippet("yaml", "\n".join("  " * depth + line for depth, line in enumerate(nested)))


def differs_from_router(path: str, holders: Holders, expected: str, why: str) -> Iterator[Draft]:
    """Yield a draft per value that differs from the router's, critical in every domain."""
    wanted = setting_value(expected)
    for value, replicas in holders.items():
        if value == wanted:
            continue
        yield Draft(
            replicas,
            write(setting_piece(path), " is ", value_piece(value), "; the router expects ", value_piece(wanted), "."),
            (Evidence(path, *value, replicas), expectation(path, expected)),
            remedy.set_to(
                [(path, wanted)], f"Set {code(setting_name(path))} to the router's value and restart these replicas."
            ),
            severity=Severity.CRITICAL,
            why=why,
        )


def most_used_version(pool: PoolSubject) -> SettingValue:
    """Return the version of most members, and of equally frequent ones the newest. At least one must be reported."""
    running = pool.values(VERSION)
    return max(running, key=lambda value: (len(running[value]), build(str(json.loads(value.value))) or _OLDEST))
