"""How far block hashes look ahead: derived from settings, and what is unknown where one is not reported."""

from typing import Any

import pytest

from dashboard.fleet import Fingerprint, Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.lookahead import LOOKAHEAD, UPGRADE, lookahead_setting
from tests.captured import Capture, capture, captures, replies
from tests.provider_answers import lookahead, provider_answer
from tests.vllm.test_provider_reply import told, values

EAGLE: dict[str, Any] = {
    "version": "0.33.0",
    "speculative_config.method": "eagle",
    "speculative_config.num_speculative_tokens": 3,
    "speculative_config.disable_lookahead_block_hashes": False,
    "speculative_config.disable_eagle_block_drop": False,
    "cache_config.enable_prefix_caching": True,
    "kv_transfer_config": None,
}
EAGLE_CAPTURE = capture("llama_eagle", "0.33.0")


def derived(**changes: Any) -> str | None:
    """The number of a document; `...` is not reported, dots are written as `__`."""
    settings = {**EAGLE, **{path.replace("__", "."): value for path, value in changes.items()}}
    found = lookahead_setting(
        {path: setting(path, value, Source.SERVER_INFO) for path, value in settings.items() if value is not ...}
    )
    return found.value if found else None


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "0.32.0"},
        {"version": "0.20.2", "speculative_config__method": ...},
        {"speculative_config__method": "dflash"},
        {"speculative_config__method": "dspark"},
        {"speculative_config__method": "ngram", "version": ...},
        {"speculative_config__method": ..., "speculative_config": None},
        {"speculative_config__disable_lookahead_block_hashes": True},
        {"speculative_config__disable_eagle_block_drop": True, "kv_transfer_config": ...},
        {"cache_config__enable_prefix_caching": False, "speculative_config__method": ...},
        {"kv_transfer_config": ..., "kv_transfer_config__kv_connector": "NixlConnector"},
    ],
)
def test_without_such_speculation_or_with_any_of_these_it_is_0_whatever_else_is_unknown(
    changes: dict[str, Any],
) -> None:
    assert derived(**changes) == "0"


@pytest.mark.parametrize("version", ["0.32.1rc1", "dev", "nightly"])
def test_it_is_unknown_of_a_build_that_may_be_before_or_after_0_33(version: str) -> None:
    assert derived(version=version) is None


def test_mtp_looks_as_far_as_it_drafts_only_with_several_modules_which_are_not_reported() -> None:
    mtp = {"speculative_config__method": "mtp"}

    assert derived(**mtp, speculative_config__num_speculative_tokens=1) == "1"
    assert derived(**mtp) is None
    assert derived(**mtp, speculative_config__num_speculative_tokens=...) is None


@pytest.mark.parametrize("server", captures(lambda each: each.version == "0.33.0" and "rust" not in each.case))
def test_of_every_server_of_0_33_it_is_what_its_first_block_hash_shows(server: Capture) -> None:
    (info,) = replies(server.answers, ["/server_info?config_format=json"])
    (version,) = replies(server.answers, ["/version"])
    found = lookahead_setting({**info.settings, **version.settings})

    assert found is not None
    assert found.value == str(lookahead(server))


# The provider's answer


def test_what_the_provider_reports_is_a_setting_only_where_it_does_not_follow_from_others() -> None:
    full, brief = (told(provider_answer(EAGLE_CAPTURE, full=full)) for full in (True, False))

    assert LOOKAHEAD not in values(full)
    assert values(brief)[LOOKAHEAD] == "1"
    assert brief.settings is told(provider_answer(EAGLE_CAPTURE, full=False)).settings, "shared by equal replicas"
    assert LOOKAHEAD not in values(told(provider_answer(capture("llama"), full=False)))


@pytest.mark.parametrize("full", [True, False])
def test_an_older_provider_s_fingerprint_is_unusable_where_its_vllm_may_look_ahead(*, full: bool) -> None:
    """Of the brief answer nothing tells whether lookahead is disabled; of the whole one the settings do."""
    enabled, disabled = (
        provider_answer(capture(case, "0.33.0"), full=full) for case in ("llama_eagle", "llama_eagle_nolookahead")
    )
    for answer in (enabled, disabled):
        del answer["fleet"]["prefix_hashing"]["lookahead_tokens"]
        answer["fleet"]["schema_version"] = "1.0"

    marks = [each.fingerprint for answer in (enabled, disabled) for each in told(answer).engines]

    assert marks == [Fingerprint(reason=UPGRADE), PLAIN if full else Fingerprint(reason=UPGRADE)]


PLAIN = told(provider_answer(capture("llama", "0.33.0"))).engines[0].fingerprint
