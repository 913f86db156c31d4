"""Every captured server has the same settings through our provider as through /server_info."""

from collections.abc import Mapping

import pytest

from dashboard.analysis.reuse import shared_engines
from dashboard.fleet import Replica, Setting, Source, State
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.merging import TOKENS
from dashboard.vllm.replica import read_document, read_replica
from tests.captured import AT, INFERENCE_CONFIG, SERVER_INFO, Capture, captures, has_python_api, snapshot
from tests.provider_answers import PROVIDER_ONLY, provider_body, with_provider

# Set by the engine: null in the API server's configuration. And the lookahead, mostly derived.
FILLED_IN = {"cache_config.hash_block_size", "cache_config.cache_hit_alignment_tokens", LOOKAHEAD}


def shared(settings: Mapping[str, Setting]) -> dict[str, tuple[str, State]]:
    """Return the values and states that both ways report."""
    return {path: (each.value, each.state) for path, each in settings.items() if path not in PROVIDER_ONLY | FILLED_IN}


def replica_of(answers: Mapping[str, bytes]) -> Replica:
    return read_replica(snapshot(answers), AT, shared_engines)


def documented(answers: Mapping[str, bytes]) -> Mapping[str, Setting]:
    return read_document(snapshot(answers)).settings


@pytest.mark.parametrize("server", captures(has_python_api))
def test_settings_through_the_provider_equal_those_of_server_info(server: Capture) -> None:
    one, other = with_provider(server), server.answers
    ours, info = replica_of(one), replica_of(other)

    assert shared(documented(one)) == shared(documented(other))
    assert documented(one).keys() - documented(other).keys() <= PROVIDER_ONLY
    assert {path: each.value for path, each in ours.identity.items()} == {
        path: each.value for path, each in info.identity.items()
    }
    assert (ours.pool, ours.role, ours.state, ours.served_model_names, ours.adapters) == (
        *(info.pool, info.role, info.state, info.served_model_names, info.adapters),
    )


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
@pytest.mark.parametrize("server", captures(has_python_api))
def test_the_provider_does_not_contradict_other_sources(server: Capture, *, full: bool) -> None:
    """Except the public plugin, which multiplies the blocks of a hybrid model."""
    answers = {**server.answers, **with_provider(server, full=full), SERVER_INFO: server.answers[SERVER_INFO]}
    together = replica_of(answers)

    assert [each.path for each in together.contradictions] == ([TOKENS] if server.case == "gemma3_plugin" else [])
    assert shared(documented(answers)) == shared(documented(server.answers))
    assert together.sources[0] is Source.PROVIDER


@pytest.mark.parametrize("server", captures(has_python_api))
def test_the_brief_answer_has_a_part_of_the_same_settings(server: Capture) -> None:
    alone = {INFERENCE_CONFIG: provider_body(server, full=False)}
    whole = shared(documented(server.answers))

    known = {path: each for path, each in shared(documented(alone)).items() if path in whole}
    assert known == {path: whole[path] for path in known}
    # This version's configuration lacks the rest: such fields are null.
    assert {value for path, (value, _) in shared(documented(alone)).items() if path not in whole} <= {"null"}
    assert len(known) > 30
