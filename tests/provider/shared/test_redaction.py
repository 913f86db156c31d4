"""Secrets are redacted by name, shape and known key; other text is unchanged."""

import base64
import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.vllm.field_reference import known_flags, known_paths
from tests.captured import FOLDER
from tests.secrets_listed import ARGUMENTS, BROKEN, HEADERS, NESTED, listed
from tests.strategies import json_named, texts
from vllm_fleet_provider.shared import redaction
from vllm_fleet_provider.shared.redaction import (
    MARKER,
    also_redact,
    holds_known,
    is_secret,
    redact,
    redact_keys,
    redact_known,
    redact_prose,
    redact_text,
)

SECRET = "SESAME7QX"
HF_TOKEN = "hf_" + "a1B2" * 8 + "zz"
NAMES, SHAPES, SETTINGS = listed("names"), listed("shapes"), listed("settings")


@pytest.mark.parametrize("name", [*NAMES, pytest.param("x" * 500 + "_password", id="long")])
def test_a_text_under_a_secret_name_is_redacted(name: str) -> None:
    assert redact({"a": {name: "plain words"}}) == {"a": {name: MARKER}}


@pytest.mark.parametrize("name", [*SETTINGS, ""])
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret(name)
    assert redact({name: "sha256"}) == {name: "sha256"}


def test_lists_and_objects_below_a_secret_name_are_redacted() -> None:
    content = {"credentials": {"user": "bob", "tries": 3, "more": [{"pin": "1234"}]}, "api_key": ["one", "two", 3]}

    assert redact(content) == {
        "credentials": {"user": MARKER, "tries": 3, "more": [{"pin": MARKER}]},
        "api_key": [MARKER, MARKER, 3],
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", [*ARGUMENTS, *NESTED])
def test_a_secret_after_its_name_is_redacted_in_every_value(name: str, place: str) -> None:
    content = {"content": {**ARGUMENTS, **NESTED}[place](name, SECRET)}

    assert SECRET in json.dumps(content)
    assert SECRET not in json.dumps(redact(content))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", [*HEADERS, *BROKEN])
def test_a_secret_after_its_name_is_redacted_in_other_text(name: str, place: str) -> None:
    content = {**HEADERS, **BROKEN}[place](name, SECRET)

    assert SECRET in content
    assert SECRET not in redact_prose(content)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_is_redacted_by_its_shape_everywhere(shape: str) -> None:
    content = SHAPES[shape].replace("{}", SECRET)

    for value in (
        content,
        [content],
        {"note": content},
        {content: 1},
        json.dumps({"a": [content]}),
        f"error: {content}",
    ):
        assert SECRET not in json.dumps(redact({"x": value}))
    for text in (content, json.dumps({"a": content})[:-1], json.dumps(json.dumps([content])), f"<p>{content}</p>"):
        assert SECRET not in redact_prose(text)


CAPTURES = [pytest.param(each, id=f"{each.parent.name}-{each.name}") for each in sorted(FOLDER.glob("*/*"))]


@pytest.mark.parametrize("folder", CAPTURES)
def test_no_value_of_a_captured_answer_is_redacted(folder: Path) -> None:
    """Except the key on the command line of one server."""
    for file in folder.glob("*.json"):
        content = json.loads(file.read_bytes())
        with_key = file.name == "launch.json" and "--api-key" in json.dumps(content)

        assert json.dumps(redact(content)).count(MARKER) == with_key, file.name
        assert (redact(content) == content) is not with_key, file.name


@pytest.mark.parametrize("folder", CAPTURES)
def test_no_text_of_a_captured_server_is_redacted(folder: Path) -> None:
    for file in (*folder.glob("metrics.txt"), *folder.glob("*info*.json")):
        assert redact_prose(file.read_text()) == file.read_text(), file.name


SECRETS = {
    "--hf-token",
    "allow_credentials",
    "api_key",
    "env.S3_ACCESS_KEY_ID",
    "env.S3_ENDPOINT_URL",
    "env.S3_SECRET_ACCESS_KEY",
    "env.VLLM_API_KEY",
    "model_config.hf_token",
    "watermark_config.key",
}


def test_no_other_setting_or_flag_of_vllm_has_a_secret_name() -> None:
    names = {*known_paths(), *known_flags().values()}

    assert {name for name in names if is_secret(name)} == SECRETS


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("redis://bob:s3cr3t@cache:6379/0", f"redis://{MARKER}@cache:6379/0"),
        ("redis://:s3cr3t@cache", f"redis://{MARKER}@cache"),
        ("https://bob:p@ss:word@host/x", f"https://{MARKER}@host/x"),
        ("Bearer abcdef.ghi-jkl", f"Bearer {MARKER}"),
        (f"--hf {HF_TOKEN}!", f"--hf {MARKER}!"),
    ],
)
def test_urls_and_tokens_are_redacted_by_shape(text: str, left: str) -> None:
    assert redact_text(text) == left
    assert redact([{"note": text}]) == [{"note": left}]
    assert redact({text: 1}) == {left: 1}


@pytest.mark.parametrize("text", listed("harmless_texts"))
def test_hashes_paths_and_names_are_no_secrets(text: str) -> None:
    assert redact_text(text) == text
    assert redact_prose(text) == text


@pytest.mark.parametrize("text", listed("similar_texts"))
def test_similar_texts_are_unchanged(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("text", listed("prose"))
def test_secrets_in_prose_are_redacted(text: str) -> None:
    left = redact_prose(text)

    assert "SECRET" not in left
    assert MARKER in left


@pytest.mark.parametrize("text", listed("harmless_prose"))
def test_prose_without_secrets_is_unchanged(text: str) -> None:
    assert redact_prose(text) == text


@pytest.mark.parametrize(
    "word",
    [
        "a",
        "api_key",
        "'token':",
        '"token": "',
        "s3_",
        "://",
        "://a:",
        "bearer ",
        '"',
        '\\"',
        "api_key: ",
        'secret":["',
        "hf_",
    ],
)
def test_redaction_takes_linear_time(word: str) -> None:
    text = word * (200_000 // len(word))

    assert len(redact_prose(text)) <= 3 * len(text)


@given(json_named(st.one_of(texts, st.sampled_from(NAMES))))
def test_redaction_is_idempotent(value: Any) -> None:
    assert redact(redact(value)) == redact(value)


@given(
    st.recursive(
        st.just("sesame"),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1), st.dictionaries(st.sampled_from(["a", "b"]), inner, min_size=1)
        ),
    ),
    st.sampled_from(NAMES),
)
def test_no_nesting_hides_a_secret(value: Any, name: str) -> None:
    once = redact({"config": [{name: value}]})

    assert "sesame" not in json.dumps(once)
    assert redact(once) == once


@given(st.text(alphabet="abc:/@\"'=[]{}, \\\n\thf_Bearpiky01"))
def test_redaction_of_prose_is_idempotent(text: str) -> None:
    once = redact_prose(text)

    assert redact_prose(once) == once


@pytest.mark.parametrize("key", ["our-own-key-4Zq8x", 'our/own"key<4Zq8>\\+x'])
def test_a_sent_key_is_redacted_in_every_form(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_also", redaction._Additions())
    pairs = [base64.b64encode(f"{user}:{key}".encode()).decode() for user in ("", "a", "ab", "abc")]
    content = [key, quote(key, safe=""), html.escape(key), f"Basic {pairs[1]}", {f"x {key} y": [1, None, key]}, *pairs]
    assert redact_known(content) == content
    assert not holds_known(json.dumps(content))

    redact_keys([key, "short", key])
    left = redact_known(content)

    assert holds_known(json.dumps(content))
    assert left[:3] == [MARKER] * 3
    assert left[4] == {f"x {MARKER} y": [1, None, MARKER]}
    assert all(len(text.replace(MARKER, "")) <= 12 for text in left[5:]), "the user, and what base64 shares with it"
    assert redact_prose(f"it is {key}") == f"it is {MARKER}"
    assert redact_known("short") == "short"
    redact_keys([key])


def test_the_number_of_known_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_also", redaction._Additions())
    redact_keys(f"key-number-{number:04}" for number in range(redaction.MOST_KNOWN + 1))

    assert not holds_known("key-number-0000")
    assert holds_known("key-number-0001")


def test_caches_of_names_and_texts_are_limited() -> None:
    for number in range(2 * redaction.MAX_REMEMBERED):
        redact({f"field {number}": f"text {number}"})

    assert len(redaction._NAMES) <= redaction.MAX_REMEMBERED
    assert len(redaction._CLEAN) <= redaction.MAX_REMEMBERED


@pytest.mark.parametrize("text", listed("harmless_values"))
def test_a_setting_without_secrets_is_unchanged(text: str) -> None:
    assert redact_text(text) == text


def test_another_process_can_adopt_the_additions() -> None:
    nothing = redaction.in_force()
    also_redact(["licence"], [])
    ours = redaction.in_force()
    redaction.adopt(nothing)
    assert redact({"licence": "x"}) == {"licence": "x"}

    redaction.adopt(ours)
    assert redact({"licence": "x"}) == {"licence": MARKER}
    redaction.adopt(nothing)


def test_additional_names_and_patterns_are_redacted() -> None:
    before = redaction.in_force()
    also_redact(["licence"], ["ACME-[0-9]{4}"])
    clean = redact({"the_licence": "x", "note": "ACME-1234"}), redact_text("licence=x")
    redaction.adopt(before)

    assert clean == ({"the_licence": MARKER, "note": MARKER}, f"licence={MARKER}")
    assert redact({"the_licence": "x", "note": "ACME-1234"}) == {"the_licence": "x", "note": "ACME-1234"}
