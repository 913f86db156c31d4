"""Every captured server has the same settings through our provider as through /server_info."""

from collections.abc import Mapping

import pytest

from dashboard.fleet import Setting, Source, State
from dashboard.vllm.facts import Facts, facts_of
from dashboard.vllm.lookahead import LOOKAHEAD
from dashboard.vllm.merging import TOKENS
from tests.captured import AT, INFERENCE_CONFIG, SERVER_INFO, Capture, captures, has_python_api, snapshot
from tests.provider_answers import PROVIDER_ONLY, provider_body, with_provider

# Set by the engine: null in the API server's configuration. And the lookahead, mostly derived.
FILLED_IN = {"cache_config.hash_block_size", "cache_config.cache_hit_alignment_tokens", LOOKAHEAD}


def shared(settings: Mapping[str, Setting]) -> dict[str, tuple[str, State]]:
    """Return the values and states that both ways report."""
    return {path: (each.value, each.state) for path, each in settings.items() if path not in PROVIDER_ONLY | FILLED_IN}


def facts(answers: Mapping[str, bytes]) -> Facts:
    return facts_of(snapshot(answers), AT)


def documented(found: Facts) -> Mapping[str, Setting]:
    assert found.document is not None
    return found.document.settings


def contradicted(found: Facts) -> list[str]:
    return [each.path for each in found.replica.contradictions]


@pytest.mark.parametrize("server", captures(has_python_api))
def test_settings_through_the_provider_equal_those_of_server_info(server: Capture) -> None:
    one, other = facts(with_provider(server)), facts(server.answers)
    ours, info = one.replica, other.replica

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
    together = facts({**server.answers, **with_provider(server, full=full), SERVER_INFO: server.answers[SERVER_INFO]})

    assert contradicted(together) == ([TOKENS] if server.case == "gemma3_plugin" else [])
    assert shared(documented(together)) == shared(documented(facts(server.answers)))
    assert together.replica.sources[0] is Source.PROVIDER


@pytest.mark.parametrize("server", captures(has_python_api))
def test_the_brief_answer_has_a_part_of_the_same_settings(server: Capture) -> None:
    alone = facts({INFERENCE_CONFIG: provider_body(server, full=False)})
    whole = shared(documented(facts(server.answers)))

    known = {path: each for path, each in shared(documented(alone)).items() if path in whole}
    assert known == {path: whole[path] for path in known}
    # This version's configuration lacks the rest: such fields are null.
    assert {value for path, (value, _) in shared(documented(alone)).items() if path not in whole} <= {"null"}
    assert len(known) > 30
