"""Pools whose engines tell their block hashes by hand: what they share, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.compare import Share, SharingSentence, Verdict, compare_pool, pool_sharing, sharing_sentence
from dashboard.compare.pool import Member
from dashboard.compare.sharing import PoolSharing
from dashboard.fleet import Document, Fingerprint, Pool, Replica, Role
from tests.builders import SAME_KV, document, hashing, replica

Mark = str | Fingerprint | None
Cohort = tuple[Mapping[str, Any], Sequence[Sequence[Mark]]]  # its settings, and per replica its engines' marks

OFF = Fingerprint(reason="prefix caching is off, so this engine hashes no blocks")
NOBODY: list[Mark] = [None]
VERSION, BLOCK = "version", "cache_config.block_size"


class Hashed(NamedTuple):
    """A pool with its documents and replicas by their ids."""

    pool: Pool
    documents: Mapping[str, Document]
    replicas: Mapping[str, Replica]


def hashed(*cohorts: Cohort, unread: int = 0) -> Hashed:
    """A pool of these cohorts. Larger cohorts first; a setting of its own keeps each apart from the others."""
    documents = [
        document({"model_config.seed": number, **SAME_KV, **settings}) for number, (settings, _) in enumerate(cohorts)
    ]
    replicas = [
        replica(f"r{number}-{place}", document=each, engines=hashing(*marks))
        for number, (each, (_, held)) in enumerate(zip(documents, cohorts, strict=True))
        for place, marks in enumerate(held)
    ]
    members = [Member(each.id, each.document, fresh=True, identity=0) for each in replicas]
    members += [Member(f"unread {number}", None, fresh=False, identity=0) for number in range(unread)]
    known = {each.id: each for each in documents}
    return Hashed(compare_pool("chat", Role.BOTH, members, known), known, {each.id: each for each in replicas})


def shared(*cohorts: Cohort) -> PoolSharing:
    """What a pool of these cohorts shares."""
    held = hashed(*cohorts)
    return pool_sharing(held.pool, held.replicas)


def told(*cohorts: Cohort, unread: int = 0) -> SharingSentence:
    """What is said of a pool of these cohorts."""
    held = hashed(*cohorts, unread=unread)
    return sharing_sentence(held.pool, pool_sharing(held.pool, held.replicas), held.documents, held.replicas)


def said(*cohorts: Cohort, unread: int = 0) -> tuple[Verdict, str]:
    """The verdict and the whole text."""
    sentence = told(*cohorts, unread=unread)
    return sentence.verdict, "".join(part.text for part in sentence.parts)


def differs(*cohorts: Cohort, unread: int = 0) -> str:
    """The text of a verdict that they differ."""
    verdict, text = said(*cohorts, unread=unread)
    assert verdict is Verdict.DIFFERS
    return text


def alone(*held: Sequence[Mark], settings: Mapping[str, Any] | None = None) -> tuple[Share, str]:
    """How the replicas of one cohort stand to each other."""
    found = shared((settings or {}, held)).cells[0]
    return found.share, found.reason


def pair(first: Cohort, second: Cohort) -> tuple[Share, str, bool]:
    """How two cohorts stand to each other, and whether that is measured."""
    cells = shared(first, second).cells
    found = next(each for each in cells if (each.one, each.other) == ("A", "B"))
    return found.share, found.reason, found.is_measured
