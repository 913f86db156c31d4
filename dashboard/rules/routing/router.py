"""What the router expects, held against what each replica does: producer against consumer."""

import json
from collections.abc import Iterator

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.drift import capital, say
from dashboard.rules.findings import Draft, Evidence, Severity, Snippet
from dashboard.rules.subject import Holders
from dashboard.vllm.canonical import canonical_text

ROUTER = "router"  # who holds an expectation


def expectation(path: str, value: object) -> Evidence:
    """Return the router's side of a finding: what fleet.yaml says that it was configured with."""
    return Evidence(path, canonical_text(value), State.REPORTED, holder=ROUTER, is_reference=True)


def declaration(pool: str, *said: str) -> Snippet:
    """Return what to write into fleet.yaml about a pool; each line stands below the one before it."""
    lines = ("pools:", f"{json.dumps(pool)}:", *said)
    return Snippet("yaml", "\n".join("  " * depth + line for depth, line in enumerate(lines)))


def unlike_router(path: str, noun: str, holders: Holders, expected: str, why: str) -> Iterator[Draft]:
    """Yield the replicas that tell another value than the router expects, a draft per value; `holders` tell which.

    Critical in every domain: fleet.yaml says that this router computes with the value. `why` says what that breaks.
    """
    wanted = SettingValue(canonical_text(expected), State.REPORTED)
    for told, replicas in holders.items():
        if told == wanted:
            continue
        yield Draft(
            replicas,
            f"{capital(noun)} is {say(told)}; the router expects {say(wanted)}.",
            (Evidence(path, *told, replicas), expectation(path, expected)),
            remedy.set_to([(path, wanted)], f"Give these replicas the {noun} of the router, and restart them."),
            severity=Severity.CRITICAL,
            why=why,
        )
