"""What replicas must have in common so that one finds in a store what another has put there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dashboard.rules.drift import Contrast, capital, contrasted, majority, same_as_the_rest, tie
from dashboard.rules.findings import Draft, Evidence
from dashboard.wording import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dashboard.models import KVCacheGroup
    from dashboard.rules.subject import Holders, PoolSubject

MODEL, REVISION, QUANTIZATION = "model_config.model", "model_config.revision", "model_config.quantization"
TP, PP = "parallel_config.tensor_parallel_size", "parallel_config.pipeline_parallel_size"


def apart(told: Mapping[str, tuple[str, Holders]], consequence: str) -> Iterator[Draft]:
    """Yield what keeps replicas apart: `told` is noun and holders by path, `consequence` ends the sentence.

    As with `drift`, replicas that differ in the same way share a draft, and a path without a majority has its own.
    """
    odd: dict[str, list[Contrast]] = defaultdict(list)
    for path, (noun, holders) in told.items():
        if len(holders) <= 1:
            continue
        reference = majority(holders)
        if reference is None:
            yield tie(path, noun, holders)
            continue
        for own, replicas in holders.items():
            for replica in replicas if own != reference else ():
                odd[replica].append(Contrast(path, noun, own, reference))
    for contrasts in dict.fromkeys(map(tuple, odd.values())):
        replicas = tuple(sorted(replica for replica, each in odd.items() if tuple(each) == contrasts))
        yield _deviation(told, contrasts, replicas, consequence)


def _deviation(
    told: Mapping[str, tuple[str, Holders]], contrasts: Sequence[Contrast], replicas: tuple[str, ...], consequence: str
) -> Draft:
    evidence = []
    for each in contrasts:
        held = told[each.path][1][each.reference]
        evidence += [
            Evidence(each.path, *each.own, replicas),
            Evidence(each.path, *each.reference, held, is_reference=True),
        ]
    sentence = f"{capital(joined([contrasted(each) for each in contrasts]))}: {consequence}."
    nouns = joined([each.noun for each in contrasts])
    return Draft(replicas, sentence, tuple(evidence), same_as_the_rest(contrasts, nouns))


def groups_of(pool: PoolSubject) -> Mapping[str, tuple[KVCacheGroup, ...]]:
    """Return by replica the KV cache groups of its first engine; who tells none is left out."""
    return {
        member.id: tuple(group for group in member.kv_cache_groups if group.dp_rank == first)
        for member in pool.members
        if (first := min((group.dp_rank for group in member.kv_cache_groups), default=None)) is not None
    }


def is_mla(groups: Sequence[KVCacheGroup]) -> bool:
    """Tell whether groups are of multi-head latent attention: each tensor parallel rank keeps the same."""
    return any("mla" in group.spec_type.lower() for group in groups)
