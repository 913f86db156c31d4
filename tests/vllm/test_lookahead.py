"""The hash lookahead: derived from settings, unknown where one of them is not reported."""

from typing import Any

import pytest

from dashboard.fleet import Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.lookahead import LOOKAHEAD, lookahead_setting
from tests.captured import Capture, capture, captures, replies
from tests.provider_answers import lookahead, provider_answer
from tests.vllm.test_provider_reply import read_answer, values

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
    """Return the derived number; `...` is not reported, `__` is a dot."""
    settings = {**EAGLE, **{path.replace("__", "."): value for path, value in changes.items()}}
    found = lookahead_setting(
        {path: setting(path, value, Source.SERVER_INFO) for path, value in settings.items() if value is not ...}
    )
    return found.value if found else None


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("0", {"version": "0.32.0"}),
        ("0", {"version": "0.20.2", "speculative_config__method": ...}),
        ("0", {"speculative_config__method": "dflash"}),
        ("0", {"speculative_config__method": "dspark"}),
        ("0", {"speculative_config__method": "ngram", "version": ...}),
        ("0", {"speculative_config__method": ..., "speculative_config": None}),
        ("0", {"speculative_config__disable_lookahead_block_hashes": True}),
        ("0", {"speculative_config__disable_eagle_block_drop": True, "kv_transfer_config": ...}),
        ("0", {"cache_config__enable_prefix_caching": False, "speculative_config__method": ...}),
        ("0", {"kv_transfer_config": ..., "kv_transfer_config__kv_connector": "NixlConnector"}),
        # A build before or after 0.33.
        (None, {"version": "0.32.1rc1"}),
        (None, {"version": "dev"}),
        (None, {"version": "nightly"}),
        # For MTP it depends on the number of drafted tokens.
        ("1", {"speculative_config__method": "mtp", "speculative_config__num_speculative_tokens": 1}),
        (None, {"speculative_config__method": "mtp"}),
        (None, {"speculative_config__method": "mtp", "speculative_config__num_speculative_tokens": ...}),
    ],
)
def test_the_lookahead_is_derived_or_unknown(expected: str | None, changes: dict[str, Any]) -> None:
    assert derived(**changes) == expected


@pytest.mark.parametrize("server", captures(lambda each: each.version == "0.33.0" and "rust" not in each.case))
def test_it_equals_the_block_hashes_of_captured_servers(server: Capture) -> None:
    (info,) = replies(server.answers, ["/server_info?config_format=json"])
    (version,) = replies(server.answers, ["/version"])
    found = lookahead_setting({**info.settings, **version.settings})

    assert found is not None
    assert found.value == str(lookahead(server))


def test_the_reported_number_is_a_setting_only_where_it_cannot_be_derived() -> None:
    full, brief = (read_answer(provider_answer(EAGLE_CAPTURE, full=full)) for full in (True, False))

    assert LOOKAHEAD not in values(full)
    assert values(brief)[LOOKAHEAD] == "1"
    assert brief.settings is read_answer(provider_answer(EAGLE_CAPTURE, full=False)).settings, (
        "shared by equal replicas"
    )
    assert LOOKAHEAD not in values(read_answer(provider_answer(capture("llama"), full=False)))
