"""Requests of one common length: by the formula, by division where every token takes the same room, or unknown."""

from typing import Any

import pytest

from dashboard.capacity.engines import AtLength, engines_of, requests_at
from dashboard.fleet import Basis
from dashboard.vllm.facts import facts_of
from tests.builders import engine
from tests.captured import INFERENCE_CONFIG, METRICS, MODELS, VERSION, capture, snapshot

UNKNOWN = AtLength(None, served=True, at_most=False)


def at(case: str, length: int, paths: Any = None) -> AtLength:
    facts = facts_of(snapshot(capture(case).answers, paths))
    assert facts.document is not None
    (found,) = engines_of(facts.engines, facts.kv_cache_groups, facts.document.settings)
    return requests_at(found, facts.kv_cache_groups, facts.document.settings, length)


def test_at_its_own_length_it_is_the_reported_concurrency() -> None:
    for case, concurrency in (("llama", 512.0), ("gemma3", 324.44), ("mamba2", 58661.0), ("deepseek_mla", 113.77)):
        told = at(case, 2048)
        assert (round(told.requests or 0, 2), told.served, told.at_most) == (concurrency, True, False)


def test_at_a_shorter_length_more_requests_fit_by_the_formula() -> None:
    """A state of fixed size takes the same room at any length."""
    assert at("llama", 1024).requests == 1024
    assert at("mamba2", 1024).requests == 58661


def test_above_its_own_length_a_replica_does_not_serve() -> None:
    assert at("llama", 2049) == AtLength(None, served=False, at_most=False)


def test_without_groups_tokens_are_divided_where_reported_equals_naive() -> None:
    assert at("llama", 1000, (METRICS, VERSION, MODELS)) == AtLength(1048.576, served=True, at_most=False)
    assert at("gemma3", 1000, (METRICS, VERSION, MODELS)) == UNKNOWN


def test_what_the_formula_leaves_open_is_at_most() -> None:
    told = at("gemma3_long", 32768, (INFERENCE_CONFIG, VERSION, MODELS))

    assert (round(told.requests or 0, 2), told.at_most) == (102.08, True)


@pytest.mark.parametrize(("basis", "at_most"), [(Basis.REPORTED, False), (Basis.ASSUMED, True)])
def test_a_division_of_an_upper_bound_is_an_upper_bound(basis: Basis, at_most: bool) -> None:  # noqa: FBT001
    assert requests_at(engine(16_000, basis=basis), (), {}, 1000) == AtLength(16.0, served=True, at_most=at_most)


def test_a_kind_without_a_formula_is_unknown_unless_every_token_takes_the_same_room() -> None:
    facts = facts_of(snapshot(capture("gemma3").answers))
    assert facts.document is not None
    strange = tuple(group._replace(spec_type="RSWASpec") for group in facts.kv_cache_groups)
    (found,) = engines_of(facts.engines, strange, facts.document.settings)

    assert requests_at(found, strange, facts.document.settings, 2048) == UNKNOWN


def test_of_an_engine_of_which_nothing_is_told_nothing_is_said() -> None:
    bare = engine(None, basis=Basis.UNKNOWN, max_model_len=None)

    assert requests_at(bare, (), {}, 1000) == UNKNOWN
    groups = facts_of(snapshot(capture("llama").answers)).kv_cache_groups
    assert requests_at(bare, groups, {}, 1000) == UNKNOWN
