"""The file_sd shape: what Prometheus takes, and a sentence for what it does not."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.sources.file_sd import MAX_TARGETS, Group, read_groups


def test_json_and_yaml_say_the_same() -> None:
    as_json = b'\xef\xbb\xbf[{"targets": ["a:1", "b"], "labels": {"rack": 1.10, "spare": true, "none": null, "x": ""}}]'
    as_yaml = b"- targets: ['a:1', b]\n  labels:\n    rack: 1.10\n    spare: true\n    none:\n    x: ''\n"
    expected = [Group(("a:1", "b"), {"rack": "1.10", "spare": "true"}, None)]
    assert read_groups(as_json, is_json=True) == read_groups(as_yaml, is_json=False) == expected


def test_half_a_surrogate_pair_does_not_reach_the_pages() -> None:
    group = read_groups(b'[{"targets": [], "labels": {"\\ud800": "\\udfff!"}}]', is_json=True)[0]
    assert group.labels == {"?": "?!"}


@pytest.mark.parametrize(
    ("raw", "is_json", "sentence"),
    [
        (b"", True, "line 1: not JSON: Expecting value"),
        (b'[{"targets": ["a"],\n', True, "line 2: not JSON: Expecting property name enclosed in double quotes"),
        (b"[" * 100_000, True, "not JSON of this shape: nested too deep"),
        (b'["\xff"]', True, "not UTF-8"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), True, "larger than 8 MiB"),
        (b"", False, "not a list of groups {targets: [...], labels: {...}}"),
        (b"a: [", False, "line 1: not YAML: did not find expected node content"),
        (b"- targets: [a]\n  targets: [b]", False, "line 2: [0].targets: duplicate of line 1; keep one"),
        (b"targets: [a]", False, "not a list of groups {targets: [...], labels: {...}}"),
        (b"- a", False, "group 1 is not a mapping with a list of targets"),
        (b"- targets: []\n- targets: a", False, "group 2 is not a mapping with a list of targets"),
        (b"- labels: {}", False, "group 1 is not a mapping with a list of targets"),
        (b"- targets: []\n  labels: [a]", False, "group 1 has labels that are not a mapping"),
        (b"- targets: []\n  labels: {a: [b]}", False, "group 1, label 'a' is not a string"),
        (
            b"- targets: []\n  labels: {a: " + b"x" * 1001 + b"}",
            False,
            "group 1, label 'a' is longer than 1000 characters",
        ),
        (b"[{targets: [" + b"a," * (MAX_TARGETS + 1) + b"]}]", False, "more than 50,000 targets"),
    ],
)
def test_another_shape_gets_a_sentence(raw: bytes, is_json: bool, sentence: str) -> None:  # noqa: FBT001
    with pytest.raises(UnreadableError) as caught:
        read_groups(raw, is_json=is_json)
    assert caught.value.detail == sentence


foreign = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["targets", "labels", "__scheme__", "x"]), inner)
    ),
    max_leaves=8,
)


@given(foreign)
def test_any_json_is_read_or_refused_and_then_holds_only_text(value: object) -> None:
    groups: list[Group] = []
    with suppress(UnreadableError):
        groups = read_groups(json.dumps([{"targets": ["a"], "labels": value}, value]).encode(), is_json=True)
    labels = [pair for group in groups for pair in group.labels.items()]
    assert all(not name.startswith("__") and f"{name}={text}".encode() for name, text in labels)
