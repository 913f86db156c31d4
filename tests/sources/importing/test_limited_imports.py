"""Imports and large snapshots are read by a process of its own, with limited memory and seconds."""

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.load import read_snapshot
from dashboard.config import Options, policy_of
from dashboard.errors import SnapshotError
from dashboard.sources.importing import File, import_files, imported
from dashboard.store import Snapshots, child, snapshots
from dashboard.store.notes_file import describe_fleet
from dashboard.store.packing import content_of, id_of, packed
from dashboard.vllm.redaction import adopt, also_redact, in_force, redact_keys
from tests.captured import SERVER_INFO, capture
from tests.saved_fleets import built_of_captures

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
ANSWER = capture("llama").answers[SERVER_INFO]


def most_memory() -> int:
    """Return the most memory that this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def bomb() -> bytes:
    """Return 84 KB of gzip that hold 56 MiB of tiny objects."""
    return gzip.compress(b"[" + b'{"":{}},' * (7 * 2**20) + b"{}]")


def test_a_bomb_of_tiny_objects_is_refused_without_memory_of_this_process() -> None:
    raw = bomb()
    assert len(raw) < 90_000
    before = most_memory()
    found = import_files([File("fleet.json.gz", raw)], AT, "x")
    assert most_memory() - before < 50_000_000
    assert found.fleets == ()
    (refused,) = found.refused
    assert refused == (
        "fleet.json.gz",
        "It has more than 5,000,000 JSON nodes; save one pool at a time: poll --format json --full --pool NAME.",
    )


def test_the_limited_process_has_the_same_additional_secrets() -> None:
    answer = ANSWER.replace(b'"runner"', b'"licence": "ACME-4711-X", "echo": "our-key-7Qz2", "runner"', 1)
    assert answer != ANSWER
    before = in_force()
    try:
        also_redact(["licence"], [])
        redact_keys(["our-key-7Qz2"])
        (fleet,) = import_files([File("a.json", answer)], AT, "x").fleets
    finally:
        adopt(before)

    assert b"ACME-4711-X" not in fleet.content
    assert b"our-key-7Qz2" not in fleet.content


def test_the_process_that_reads_has_600_mb_and_a_minute() -> None:
    assert child.run_limited("tests.sources.importing.hungry", b"") == b"600000000 60\n"


def test_a_process_that_takes_more_memory_ends_with_a_sentence() -> None:
    with pytest.raises(SnapshotError) as refused:
        child.run_limited("tests.sources.importing.hungry", b"eat")
    assert str(refused.value) == (
        "Reading it takes more than 600 MB of memory or 60 s; "
        "save one pool at a time: poll --format json --full --pool NAME."
    )


def test_the_limited_process_gives_the_same_result() -> None:
    files = [
        File("chat-1.json", ANSWER),
        File("broken.json", b"{"),
        File("old.json", content_of(built_of_captures(capture("llama")))),
    ]
    policy = policy_of(Options())
    there = import_files(files, AT, "x", policy=policy, ignore=("a.*",))
    here = imported(files, AT, "x", policy=policy, ignore=("a.*",))
    assert there.refused == here.refused
    assert [(file, content, carried) for file, content, _, carried in there.fleets] == [
        (file, content_of(fleet), carried) for file, fleet, carried in here.fleets
    ]
    assert [each.metadata for each in there.fleets] == [describe_fleet(fleet, "", AT) for _, fleet, _ in here.fleets]


def test_the_nodes_of_a_snapshot_are_limited(tmp_path: Path) -> None:
    content = b"[" + b'{"":{}},' * 1_300_000 + b"1]"
    (tmp_path / f"{id_of(content)}.json.gz").write_bytes(packed(content))
    with pytest.raises(SnapshotError, match="more than 5,000,000 JSON nodes; save one pool at a time"):
        Snapshots(tmp_path).fleet(id_of(content))


def test_a_large_snapshot_opens_where_a_limited_process_can_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Snapshots(tmp_path)
    fleet = built_of_captures(capture("llama"))
    stored = store.freeze(fleet, "x", AT)
    monkeypatch.setattr(snapshots, "TRIAL_NODES", 10)
    assert same(store.fleet(stored.id), read_snapshot(content_of(fleet)))
    monkeypatch.setattr(child, "MEMORY_BYTES", 50_000_000)
    with pytest.raises(SnapshotError, match="Reading it takes more than 50 MB"):
        store.fleet(stored.id)


def same(one: Fleet, other: Fleet) -> bool:
    return replace(one, snapshot=None, generation=0).replicas == replace(other, generation=0).replicas
