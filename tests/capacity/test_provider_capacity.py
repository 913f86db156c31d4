"""Capacity as our provider tells it: every rank's own numbers, those that vLLM logged."""

from collections.abc import Sequence

import pytest

from dashboard.capacity.engines import engines_of
from dashboard.fleet import Basis, Engine
from dashboard.vllm.facts import facts_of
from tests.captured import Capture, capture, captures, has_python_api, snapshot
from tests.provider_answers import with_provider


def engines(server: Capture, fingerprints: Sequence[str] = ("one root",)) -> tuple[Engine, ...]:
    facts = facts_of(snapshot(with_provider(server, fingerprints=fingerprints)))
    assert facts.document is not None
    return engines_of(facts.engines, facts.kv_cache_groups, facts.document.settings)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_tokens_and_concurrency_of_every_rank_are_those_that_vllm_logged(server: Capture) -> None:
    found = engines(server)

    told = [(each.kv_cache_size_tokens, round(each.max_concurrency or 0, 2)) for each in found]
    assert told == list(zip(server.logged["kv_cache_size_tokens"], server.logged["max_concurrency"], strict=True))
    assert {(each.basis, each.reason) for each in found} == {(Basis.REPORTED, None)}


def test_no_number_is_a_sum_and_no_rank_is_taken_to_be_like_the_first() -> None:
    found = engines(capture("llama_dp2"), ("a", "b"))

    assert [(each.dp_rank, each.num_gpu_blocks, each.basis) for each in found] == [
        (0, 8192, Basis.REPORTED),
        (1, 8192, Basis.REPORTED),
    ]
    assert len({each.fingerprint for each in found} - {None}) == 2
