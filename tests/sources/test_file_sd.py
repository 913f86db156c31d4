"""Targets from file_sd files: reread on change, kept as stale on failure."""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config import FileSdOptions
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, FailureKind, Target
from dashboard.sources.source import MAX_TARGETS
from dashboard.sources.target_groups import FileSd, read_targets


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *groups: object) -> None:
    Path(name).write_text(json.dumps(groups))


def group(*addresses: object, **labels: str) -> object:
    return {"targets": addresses, "labels": labels}


def file_sd(*files: str, **labels: str) -> FileSd:
    return FileSd(FileSdOptions(files=files, labels=labels), Credentials(token_env="TOKEN"))


def targets_of(raw: bytes, *, is_json: bool) -> tuple[Target, ...]:
    return read_targets(raw, "place", {}, None, is_json=is_json)


def read(found: FileSd) -> tuple[list[Target], list[str]]:
    """All targets, and the failures."""
    files = asyncio.run(found.read())
    return [target for file in files for target in file.targets], [file.failure for file in files if file.failure]


def ids(targets: list[Target]) -> list[str]:
    return [target.id for target in targets]


def test_globs_are_read_in_order_of_glob_and_name() -> None:
    write("b.json", group("b1", "b2"))
    write("a.json", group("a1"))
    Path("z.yaml").write_text("- targets: [z]\n")
    targets, failures = read(file_sd("z.yaml", "*.json"))
    assert ids(targets) == ["http://z:80", "http://a1:80", "http://b1:80", "http://b2:80"]
    assert failures == []


def test_labels_in_a_file_win_over_those_of_the_options() -> None:
    write("a.json", group("a", pool="chat", __scheme__="https"), group("http://b:1", __scheme__="https"))
    targets, _ = read(file_sd("a.json", pool="other", site="north"))
    assert ids(targets) == ["https://a:443", "http://b:1"]
    assert [target.labels for target in targets] == [
        {"pool": "chat", "site": "north"},
        {"pool": "other", "site": "north"},
    ]
    assert targets[0].credentials == Credentials(token_env="TOKEN")


def test_an_invalid_entry_is_a_failed_target() -> None:
    write("a.json", group("a", "not an address", None, "http://u:hunter2@b", "c"))
    targets, failures = read(file_sd("a.json"))
    assert ids(targets) == [
        "http://a:80",
        "not an address",
        "a.json: group 1, target 3",
        "***@b",
        "http://c:80",
    ]
    kinds = [target.failure and target.failure.kind for target in targets]
    assert kinds == [None, FailureKind.TARGET, FailureKind.TARGET, FailureKind.TARGET, None]
    assert "hunter2" not in repr(targets)
    assert failures == []


def test_a_replaced_file_of_the_same_size_and_time_is_read_again() -> None:
    write("a.json", group("a"))
    os.utime("a.json", ns=(1, 1))
    found = file_sd("a.json")
    read(found)
    write("next", group("b"))
    os.utime("next", ns=(1, 1))
    Path("next").rename("a.json")
    assert ids(read(found)[0]) == ["http://b:80"]


@pytest.mark.parametrize("half", [b'[{"targets": ["a"', b"", b'{"targets": []}', b"\xff"])
def test_an_unreadable_file_keeps_its_targets_as_stale(half: bytes) -> None:
    write("a.json", group("a", "b"))
    write("other.json", group("c"))
    found = file_sd("*.json")
    read(found)
    Path("a.json").write_bytes(half)
    for _ in range(2):
        targets, failures = read(found)
        assert [(target.id, target.stale) for target in targets] == [
            ("http://a:80", True),
            ("http://b:80", True),
            ("http://c:80", False),
        ]
        assert len(failures) == 1
        assert failures[0].startswith("a.json: ")
        assert failures[0].endswith("; keeping its last targets (2), marked stale")
    write("a.json", group("b"))
    targets, failures = read(found)
    assert [(target.id, target.stale) for target in targets] == [("http://b:80", False), ("http://c:80", False)]
    assert failures == []


def test_a_missing_file_keeps_its_targets_as_stale() -> None:
    write("a.json", group("a"))
    found = file_sd("*.json")
    read(found)
    Path("a.json").rename("away")
    targets, failures = read(found)
    assert [target.stale for target in targets] == [True]
    assert failures == ["a.json: No such file or directory; keeping its last targets (1), marked stale"]
    Path("away").rename("a.json")
    targets, failures = read(found)
    assert [target.stale for target in targets] == [False]
    assert failures == []


def test_only_regular_files_are_opened(folder: Path) -> None:
    os.mkfifo("pipe.json")
    (folder / "folder.json").mkdir()
    _, failures = read(file_sd("*.json"))
    assert failures == ["folder.json: not a regular file", "pipe.json: not a regular file"]


def test_json_and_yaml_give_the_same_groups() -> None:
    as_json = b'\xef\xbb\xbf[{"targets": ["a:1", "b"], "labels": {"rack": 1.10, "spare": true, "none": null, "x": ""}}]'
    as_yaml = b"- targets: ['a:1', b]\n  labels:\n    rack: 1.10\n    spare: true\n    none:\n    x: ''\n"
    labels = {"rack": "1.10", "spare": "true"}
    expected = (Target("http://a:1", labels), Target("http://b:80", labels))
    assert targets_of(as_json, is_json=True) == targets_of(as_yaml, is_json=False) == expected


def test_half_a_surrogate_pair_is_replaced() -> None:
    (target,) = targets_of(b'[{"targets": ["a"], "labels": {"\\ud800": "\\udfff!"}}]', is_json=True)
    assert target.labels == {"?": "?!"}


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
def test_another_shape_is_refused_with_a_sentence(raw: bytes, is_json: bool, sentence: str) -> None:  # noqa: FBT001
    with pytest.raises(UnreadableError) as caught:
        targets_of(raw, is_json=is_json)
    assert caught.value.detail == sentence


foreign = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["targets", "labels", "__scheme__", "x"]), inner)
    ),
    max_leaves=8,
)


@given(foreign)
def test_any_json_is_refused_or_gives_text_labels(value: object) -> None:
    targets: tuple[Target, ...] = ()
    with suppress(UnreadableError):
        targets = targets_of(json.dumps([{"targets": ["a"], "labels": value}, value]).encode(), is_json=True)
    labels = [pair for target in targets for pair in target.labels.items()]
    assert all(not name.startswith("__") and f"{name}={text}".encode() for name, text in labels)
