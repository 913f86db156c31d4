"""Unusable files are refused with a reason, within limits."""

import gzip
import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.sources import importing
from dashboard.sources.importing import KINDS
from tests.captured import SERVER_INFO
from tests.sources.importing.dropped import LLAMA, drop, fleet_of, why


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.json", bytes(2**22))
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "It is empty"),
        (b" \n", "It is empty"),
        (b"<!doctype html><title>502</title>", "web page or XML"),
        (zipped(), "ZIP archive; unpack it"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "compressed twice"),
        (gzip.compress(b"{}", mtime=0)[:-9], "is cut off"),
        (b"\x1f\x8bnonsense", "not a complete gzip file"),
        (b"hello", "neither JSON nor a /metrics page"),
        (b"\xff\xfe{\x00}\x00", "neither a saved fleet nor a known answer"),
        (b"\xff\xfe{\x00}", "not valid UTF-16"),
        (b'{"vllm_config": "\xff"}', "not JSON (line 1, column 18)"),
        (b'{"vllm_config": ', "is cut off"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[]", "It is JSON, but only a list: neither a saved fleet nor an answer"),
        (b"null\n", "It is JSON, but only null: neither a saved fleet nor an answer"),
        (b"true", "It is JSON, but only true:"),
        (b"-1.5e3", "It is JSON, but only a number:"),
        (b'"vllm:x"', "It is JSON, but only a string:"),
        (b"NaN", "neither JSON nor a /metrics page"),
        (b"{}", "neither a saved fleet nor a known answer"),
        (b'{"hello": "world"}', "chat-1.server_info.json"),
        (b'{"vllm_config": "model=llama"}', "save that of /server_info?config_format=json"),
        (b'{"vllm_config": 3}', "JSON of another shape"),
        (b'{"vllm_config": {"cache_config": NaN}}', "NaN"),
        (b'{"schema_version": "1.0", "replicas": []}', "without --full"),
        (b'{"schema_version": 2, "replicas": []}', "schema version 2"),
        (b'{"data": 3}', "JSON of another shape"),
    ],
)
def test_an_unusable_file_is_refused_with_its_kind_and_the_next_step(content: bytes, words: str) -> None:
    reason = why(content)

    assert words in reason
    assert reason.endswith(".")
    assert "\n" not in reason


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_encodings_with_a_byte_order_mark_are_read(mark: bytes) -> None:
    encoding = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}[mark]
    answer = LLAMA.answers[SERVER_INFO].decode()
    marked, plain = (
        fleet_of(("chat-1.json", content)) for content in (mark + answer.encode(encoding), answer.encode())
    )

    assert marked.documents == plain.documents
    assert [each.state for each in marked.replicas] == [each.state for each in plain.replicas]


def test_unpacking_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MAX_FILE_BYTES", 2**20)

    assert "larger than 1 MiB" in why(gzip.compress(bytes(2**27)))
    assert "larger than 1 MiB" in why(b" " * (2**20 + 1))


def test_usable_files_are_imported_with_unusable_ones() -> None:
    (fleet,), refused = drop(
        ("a.json", b"nonsense"), ("chat-1.json", LLAMA.answers[SERVER_INFO]), ("b.json", b"<html>"), ("c.json", b"{}")
    )

    assert [each.name for each in refused] == ["a.json", "b.json", "c.json"]
    assert [each.name for each in fleet.replicas] == ["chat-1"]


def test_files_and_bytes_of_an_import_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MAX_FILES", 3)
    (fleet,), refused = drop(*[(f"chat-{number}.json", LLAMA.answers[SERVER_INFO]) for number in range(9)])
    assert len(fleet.replicas) == 3
    assert "limit of an import is 3 files" in refused[0].why

    monkeypatch.setattr(importing, "MAX_TOTAL_BYTES", 3 * len(LLAMA.answers[SERVER_INFO]) // 2)
    (fleet,), refused = drop(*[(f"chat-{number}.json", LLAMA.answers[SERVER_INFO]) for number in range(2)])
    assert len(fleet.replicas) == 1
    assert "import it separately" in refused[0].why


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_bytes_under_any_name_are_imported_or_refused(content: bytes, name: str) -> None:
    fleets, refused = drop((name, content))

    assert len(fleets) + len(refused) == 1


@given(st.sampled_from(sorted(KINDS)), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_under_any_path_is_imported_or_refused(kind: str, content: object) -> None:
    fleets, refused = drop((f"chat-1.{kind}.json", json.dumps(content).encode()))

    assert len(fleets) + len(refused) >= 1
