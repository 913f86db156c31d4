"""Targets from file_sd files: read again when they change, kept as stale when they fail."""

import json
import os
from pathlib import Path

import pytest

from dashboard.config import FileSdOptions
from dashboard.fleet import Credentials, FailureKind, Target
from dashboard.sources.file_sd import FileSd


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


def ids(targets: list[Target]) -> list[str]:
    return [target.id for target in targets]


def test_globs_are_read_in_order_of_glob_and_name() -> None:
    write("b.json", group("b1", "b2"))
    write("a.json", group("a1"))
    Path("z.yaml").write_text("- targets: [z]\n")
    targets, failures = file_sd("z.yaml", "*.json").read()
    assert ids(targets) == ["http://z:80", "http://a1:80", "http://b1:80", "http://b2:80"]
    assert failures == []


def test_a_target_has_its_labels_over_those_of_the_options_and_the_credentials() -> None:
    write("a.json", group("a", pool="chat", __scheme__="https"), group("http://b:1", __scheme__="https"))
    targets, _ = file_sd("a.json", pool="other", site="north").read()
    assert ids(targets) == ["https://a:443", "http://b:1"]
    assert [target.labels for target in targets] == [
        {"pool": "chat", "site": "north"},
        {"pool": "other", "site": "north"},
    ]
    assert targets[0].credentials == Credentials(token_env="TOKEN")


def test_an_entry_that_is_no_address_is_shown_and_harms_no_other() -> None:
    write("a.json", group("a", "not an address", None, "http://u:hunter2@b", "c"))
    targets, failures = file_sd("a.json").read()
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


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again() -> None:
    write("a.json", group("a"))
    os.utime("a.json", ns=(1, 1))
    found = file_sd("a.json")
    found.read()
    write("next", group("b"))
    os.utime("next", ns=(1, 1))
    Path("next").rename("a.json")
    assert ids(found.read()[0]) == ["http://b:80"]


@pytest.mark.parametrize("half", [b'[{"targets": ["a"', b"", b'{"targets": []}', b"\xff"])
def test_a_file_that_is_half_written_keeps_its_targets_as_stale_until_it_is_whole(half: bytes) -> None:
    write("a.json", group("a", "b"))
    write("other.json", group("c"))
    found = file_sd("*.json")
    found.read()
    Path("a.json").write_bytes(half)
    for _ in range(2):
        targets, failures = found.read()
        assert [(target.id, target.stale) for target in targets] == [
            ("http://a:80", True),
            ("http://b:80", True),
            ("http://c:80", False),
        ]
        assert len(failures) == 1
        assert failures[0].startswith("a.json: ")
        assert failures[0].endswith("; keeping its last targets (2), marked stale")
    write("a.json", group("b"))
    targets, failures = found.read()
    assert [(target.id, target.stale) for target in targets] == [("http://b:80", False), ("http://c:80", False)]
    assert failures == []


def test_a_file_that_is_gone_keeps_its_targets_as_stale_until_it_is_back() -> None:
    write("a.json", group("a"))
    found = file_sd("*.json")
    found.read()
    Path("a.json").rename("away")
    targets, failures = found.read()
    assert [target.stale for target in targets] == [True]
    assert failures == ["a.json: No such file or directory; keeping its last targets (1), marked stale"]
    Path("away").rename("a.json")
    targets, failures = found.read()
    assert [target.stale for target in targets] == [False]
    assert failures == []


def test_what_is_no_regular_file_is_not_opened(folder: Path) -> None:
    os.mkfifo("pipe.json")
    (folder / "folder.json").mkdir()
    _, failures = file_sd("*.json").read()
    assert failures == ["folder.json: not a regular file", "pipe.json: not a regular file"]
