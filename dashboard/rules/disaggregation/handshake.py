"""What two sides of a prefill/decode pair must agree on before they exchange KV cache, and who checks it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue
from dashboard.rules.connectors import connectors
from dashboard.rules.findings import Draft, Severity
from dashboard.rules.holders import held, held_natively
from dashboard.rules.subject import Holders, PairSubject, PoolSubject

NIXL = frozenset({"NixlConnector", "NixlPullConnector", "NixlPushConnector"})


def is_checked(pair: PairSubject) -> bool:
    """Tell whether NIXL compares both sides at their handshake; also where nobody tells which connector they have."""
    names = {each.name for side in pair.sides for told in side.of_documents(connectors).values() for each in told}
    return not names or not NIXL.isdisjoint(names)


def as_checked(pair: PairSubject, drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Pass on what NIXL's handshake refuses; with connectors that do not look at it, it only warns."""
    checked = is_checked(pair)
    for draft in drafts:
        yield draft if checked else replace(draft, severity=Severity.WARNING)


def is_mla(pair: PairSubject) -> bool:
    """Tell whether a replica of either side tells that its model has multi-head latent attention."""
    return has_group(pair, "mla")


def has_group(pair: PairSubject, kind: str) -> bool:
    """Tell whether a replica of either side has a KV cache group of a kind: `mla`, `mamba`."""
    members = (member for side in pair.sides for member in side.members)
    return any(kind in group.spec_type.lower() for member in members for group in member.kv_cache_groups)


def whole(side: PoolSubject, path: str) -> Holders:
    """Return every whole value of a setting of which a part identifies, with who tells it: a model's folder and all."""
    return held_natively(side.identity(path))


def concluded(side: PoolSubject, conclude: Callable[[Mapping[str, Setting]], SettingValue | None]) -> Holders:
    """Return what is concluded from each member's settings, with whom it holds for; None is left out."""
    return held({each: told for each, told in side.of_documents(conclude).items() if told is not None})


def counts(holders: Holders) -> list[int]:
    """Return the values that are whole numbers from 1 on; a stranger may tell anything."""
    values = [json.loads(told.value) for told in holders]
    return [each for each in values if isinstance(each, int) and not isinstance(each, bool) and each > 0]
