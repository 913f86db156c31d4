"""Every bound and type of the options has a sentence of its own."""

import pytest
from pydantic import ValidationError

from dashboard.config import Options
from dashboard.config.document import no_such_key
from dashboard.config.load import sentence


@pytest.mark.parametrize("key", ["token", "Token", "api_key", "password"])
def test_a_secret_in_clear_text_is_told_where_it_belongs(key: str) -> None:
    assert "token_env or token_file" in no_such_key(key, ["token_env"])


def test_a_sentence_never_repeats_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Options.model_validate({"poll": {"connections": "hunter2"}, "targets": "hunter2", "name": ["hunter2"]})
    told = [sentence(error, Options) for error in caught.value.errors()]
    assert len(told) == 3
    assert "hunter2" not in " ".join(told) + str(caught.value)


def test_an_error_that_pydantic_adds_later_keeps_its_own_words() -> None:
    with pytest.raises(ValidationError) as caught:
        Options.model_validate({"name": "\ud800"})
    assert sentence(caught.value.errors()[0], Options) == caught.value.errors()[0]["msg"]
