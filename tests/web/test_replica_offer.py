"""The lines that switch the provider on, for a replica that has none."""

from pathlib import Path

import pytest

from dashboard.fleet import Failure, FailureKind, ReplicaState, Setting, Source, State
from dashboard.rules.behaviour.development_mode import PROVIDER_COMMAND
from dashboard.sources.polling.probes import INFERENCE_CONFIG
from dashboard.web.replica_offer import ELSEWHERE, INSTALL, KEPT, NAMED, OLDER, STILL, UNKNOWN, UNSET, offer
from tests.builders import HOSTILE, down, probe, replica, setting

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def lines(plugins: Setting | None = None) -> list[str]:
    """The lines offered to a replica that says this of VLLM_PLUGINS."""
    made = offer(replica(), {"env.VLLM_PLUGINS": plugins} if plugins else {})
    assert made is not None
    return made.lines.splitlines()


def notes(plugins: Setting | None = None, version: str = "0.32.0") -> tuple[str, ...]:
    """What is to be minded."""
    made = offer(replica(version=version), {"env.VLLM_PLUGINS": plugins} if plugins else {})
    assert made is not None
    return made.notes


def test_the_names_that_stand_in_the_variable_are_kept() -> None:
    assert lines(setting(["lora_resolver", "mine"])) == [
        INSTALL,
        "export VLLM_PLUGINS=lora_resolver,mine,fleet_config",
    ]
    assert lines(setting("mine"))[1] == "export VLLM_PLUGINS=mine,fleet_config"
    assert notes(setting(["mine"])) == (KEPT, STILL, ELSEWHERE)


def test_the_readme_says_the_same_lines() -> None:
    assert f"    {INSTALL}\n" in README
    assert f"    {PROVIDER_COMMAND}\n" in README
    assert ",fleet_config\n" in README


def test_where_the_variable_is_not_set_the_reader_is_told_what_setting_it_does() -> None:
    """Unset, vLLM loads every general plugin; set, only those that are named, and nobody here knows them."""
    assert lines(setting(None)) == [INSTALL, PROVIDER_COMMAND]
    assert notes(setting(None)) == (UNSET, STILL, ELSEWHERE)
    assert notes() == (UNKNOWN, STILL, ELSEWHERE)


@pytest.mark.parametrize(
    "told",
    [
        None,
        Setting('"x"', State.REDACTED, Source.SERVER_INFO),
        setting([""]),
        setting([]),
        setting({"a": 1}),
        setting("$(touch gone)"),
        setting(["mine; touch gone"]),
        setting(["mine\ntouch gone"]),
        setting(HOSTILE),
        setting(",".join("x" * 101 for _ in range(3))),
    ],
)
def test_what_a_shell_would_not_take_as_names_never_stands_in_a_line(told: Setting | None) -> None:
    """vLLM's own environment is asked, then."""
    assert lines(told) == [INSTALL, PROVIDER_COMMAND]


def test_a_name_that_stands_there_already_is_not_added_twice() -> None:
    assert lines(setting(["mine", "fleet_config"])) == [INSTALL]
    assert notes(setting(["fleet_config"])) == (NAMED,)


def test_no_line_hides_that_a_command_failed() -> None:
    """A shell takes an empty `$(...)` for nothing to do."""
    for told in (None, setting(None), setting(["mine"]), setting(["fleet_config"])):
        assert not [line for line in lines(told) if "$(" in line or "eval" in line]


def test_an_older_vllm_is_told_that_nobody_tried() -> None:
    assert notes(setting(["mine"]), "0.20.2") == (KEPT, STILL, ELSEWHERE, OLDER)
    assert notes(setting(["mine"]), "0.33.1") == (KEPT, STILL, ELSEWHERE)
    assert notes(setting(["mine"]), "of my own") == (KEPT, STILL, ELSEWHERE)


def test_who_has_the_provider_or_does_not_answer_is_offered_nothing() -> None:
    assert offer(replica(sources=(Source.PROVIDER, Source.METRICS)), {}) is None
    assert offer(down(), {}) is None
    assert offer(replica(state=ReplicaState.PARTIAL), {}) is not None


def test_where_its_path_is_locked_or_broken_nothing_is_offered() -> None:
    """It may be there: a 401 is given before any route is looked for."""
    locked = probe(INFERENCE_CONFIG, status=401, failure=Failure(FailureKind.UNAUTHORIZED, "It wants a key."))
    absent = probe(INFERENCE_CONFIG, status=404)
    elsewhere = probe(failure=Failure(FailureKind.TIMEOUT, "No answer within 5 s."))

    assert offer(replica(probes=(locked,)), {}) is None
    assert offer(replica(probes=(absent, elsewhere)), {}) is not None
