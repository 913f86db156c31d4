"""What a replica's engines say of their block hashes: the digests that decide whether prefixes can be shared."""

from collections.abc import Sequence

from dashboard.fleet import Engine


def digests(engines: Sequence[Engine]) -> frozenset[str] | None:
    """Return the different `engine` digests of a replica; None where an engine tells none.

    Engines with one digest give equal tokens equal block hashes. More than one in a replica: its own ranks cannot
    share. An engine that hashes no blocks tells none.
    """
    return _all_told([engine.fingerprint.engine if engine.fingerprint else None for engine in engines])


def canonical_digests(engines: Sequence[Engine]) -> frozenset[str] | None:
    """Return the different `canonical` digests, as `digests` does: these do not depend on the block length."""
    return _all_told([engine.fingerprint.canonical if engine.fingerprint else None for engine in engines])


def _all_told(told: Sequence[str | None]) -> frozenset[str] | None:
    found = frozenset(digest for digest in told if digest is not None)
    return found if told and None not in told else None
