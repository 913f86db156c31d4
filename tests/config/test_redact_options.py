"""What the operator calls secret is redacted; a pattern that could stop the program is refused where it is written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config import load_options
from dashboard.config.model import checked
from dashboard.errors import OptionsError
from dashboard.vllm.redaction import MARKER, also_redact, is_secret, redact, redact_prose


@pytest.fixture(autouse=True)
def _only_here() -> Iterator[None]:
    yield
    also_redact((), ())


def test_names_and_patterns_of_the_options_are_redacted(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("redact:\n  names: [license_id]\n  patterns: ['ACME-[0-9]{4,8}', 'corp_\\w+']\n")
    assert redact({"vendorLicenseId": "x", "note": "ACME-1234"}) == {"vendorLicenseId": "x", "note": "ACME-1234"}
    options = load_options(file).redact

    also_redact(options.names, options.patterns)

    told = {"vendorLicenseId": "x", "license_id": 7, "license": "y", "note": "see ACME-1234.", "z": ["corp_a b"]}
    assert redact(told) == {
        "vendorLicenseId": MARKER,
        "license_id": 7,
        "license": "y",
        "note": f"see {MARKER}.",
        "z": [f"{MARKER} b"],
    }
    assert redact_prose("license_id: x, ACME-99999") == f"license_id: {MARKER}, {MARKER}"
    also_redact((), ())
    assert not is_secret("license_id")
    assert redact({"note": "ACME-1234"}) == {"note": "ACME-1234"}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not a regular expression of Python (missing ), unterminated subpattern at position 0)"),
        ("x" * 201, "longer than 200 characters"),
        ("", "matches an empty text"),
        ("a{0,3}", "matches an empty text"),
        (r"\b", "matches an empty text"),
        (r"\s", "matches an empty text or a blank"),
        ("(?:a{1,9}){1,9}b", "repeats a group"),
        ("(?:a|b){2}c", "repeats a group"),
        ("a*b", "has * or + before its end"),
        ("ab{2,}c", "has * or + before its end"),
        (r"(ab)\1", "has a back reference"),
        ("(?=a)b", "has an unsupported kind of group"),
        ("a{0,50}a{0,50}b", "in too many ways"),
        ("x?" * 20 + "y", "in too many ways"),
    ],
)
def test_a_pattern_that_is_invalid_or_may_take_too_long_is_refused_with_its_line(
    pattern: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.yaml"
    quoted = pattern.replace("'", "''")
    file.write_text(f"redact:\n  patterns:\n    - 'fine'\n    - '{quoted}'\n")

    with pytest.raises(OptionsError, match=re.escape(why)) as refused:
        load_options(file)
    assert str(refused.value).startswith(f"{file}:4: redact.patterns[1]: ")


@pytest.mark.parametrize(
    "pattern",
    ["ACME-[0-9]{8}", r"(?i)lic_[a-z0-9]{16,64}", r"(?:foo|bar)_\w+", "[]a]{2}", r"a\{b{}", "ab?c{2}d*"],
)
def test_a_pattern_that_takes_time_in_proportion_to_the_text_is_accepted(pattern: str) -> None:
    assert checked(pattern) == pattern


@pytest.mark.parametrize("name", ["a", "cache_config.license", "*", "x" * 101])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(f"redact:\n  names: ['{name}']\n")

    with pytest.raises(OptionsError, match=r"fleet\.yaml:2: redact\.names\[0\]: not the name of a setting"):
        load_options(file)
