"""What polls no longer use is forgotten."""

import gc
import weakref

import pytest

from dashboard.fleet import Source
from dashboard.vllm import canonical
from dashboard.vllm.canonical import Recent
from dashboard.vllm.fields import flatten_config


def test_a_result_is_made_once_and_again_after_a_poll_that_did_not_use_it() -> None:
    known: Recent[object] = Recent()
    first = known.get("a", object)
    assert known.get("a", object) is first
    canonical.forget_unused()
    assert known.get("a", object) is first
    canonical.forget_unused()
    canonical.forget_unused()
    assert known.get("a", object) is not first


def test_a_program_that_never_polls_keeps_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MOST", 2)
    known: Recent[object] = Recent()
    first = known.get(0, object)
    for number in range(1, 6):
        known.get(number, object)
    assert known.get(0, object) is not first


def test_a_configuration_is_forgotten_with_the_last_reply_that_has_it() -> None:
    config = {"model_config": {"dtype": "x", "nonce": 12345}}
    settings, _ = flatten_config(config, {}, Source.SERVER_INFO)
    same, _ = flatten_config(config, {}, Source.SERVER_INFO)
    assert same is settings
    assert isinstance(settings, canonical.Settings)
    gone = weakref.ref(settings)
    del settings, same
    gc.collect()
    assert gone() is None
