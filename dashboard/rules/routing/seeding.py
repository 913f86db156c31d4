"""How replicas get one root of their block hashes: the remedies of RT-06."""

from __future__ import annotations

import json

from dashboard.models import State, Told
from dashboard.rules import remedy
from dashboard.rules.domain import SeedPolicy
from dashboard.rules.drift import say
from dashboard.rules.findings import Remedy, Snippet
from dashboard.rules.routing.releases import VERSION
from dashboard.rules.routing.roots import SEED, SEED_VARIABLE, Root, RootKind
from dashboard.rules.routing.rt_05_hash_algorithm import HASH_ALGORITHM

ZERO = Told("0", State.REPORTED)
FIRST_FIXED = Told('"0.29.0"', State.REPORTED)
REPRODUCIBLE = Told('"sha256_cbor"', State.REPORTED)


def like_others(seed: Told) -> Remedy:
    """Give these replicas the seed of the others, or none if they have none."""
    if seed.state is State.NULL:
        return unset()
    return remedy.set_to(
        [(SEED, seed)],
        f"Set {SEED_VARIABLE} to {say(seed)} on these replicas before Python starts, as others have it.",
    )


def unset() -> Remedy:
    """Take the seed away from these replicas."""
    sentence = f"Leave {SEED_VARIABLE} unset on these replicas, and restart them."
    return Remedy(sentence, (Snippet("env", f"unset {SEED_VARIABLE}"),))


def set_everywhere() -> Remedy:
    """Give all replicas one seed."""
    return remedy.set_to(
        [(SEED, ZERO)],
        f"Set {SEED_VARIABLE} to one value, such as 0, on every replica of the pool before Python starts.",
    )


def set_or_say(pool: str) -> Remedy:
    """Both ways out: set the variable, or tell this program that it is set."""
    yaml = f"pools:\n  {json.dumps(pool)}:\n    expects:\n      seed_policy: {SeedPolicy.ENVIRONMENT}"
    both = set_everywhere()
    sentence = (
        f"{both.sentence} If it is set already, say `seed_policy: {SeedPolicy.ENVIRONMENT}` under the pool's `expects` "
        "in fleet.yaml."
    )
    return Remedy(sentence, (*both.snippets, Snippet("yaml", yaml)))


def fixed_root(root: Root) -> Remedy:
    """Say how a replica with this root gets vLLM's fixed one."""
    if root.kind is RootKind.SEED:
        return unset()
    if root.path == VERSION:
        how, wanted = "Upgrade these replicas to vLLM 0.29 or later", (VERSION, FIRST_FIXED)
    else:
        how, wanted = "Give these replicas a hash algorithm with a fixed root", (HASH_ALGORITHM, REPRODUCIBLE)
    sentence = f"{how}, or set {SEED_VARIABLE} to one value on every replica of the pool before Python starts."
    return remedy.set_to([wanted, (SEED, ZERO)], sentence)
