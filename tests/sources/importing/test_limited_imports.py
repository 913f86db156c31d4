"""Imports are read by a process of its own, with limited memory and seconds."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from dashboard.config import Options, policy_of
from dashboard.errors import SnapshotError
from dashboard.sources import child
from dashboard.sources.importing import File, import_files, imported
from dashboard.store.packing import content_of, describe_fleet
from dashboard.store.snapshots import Snapshots
from tests.captured import SERVER_INFO, capture
from tests.saved_fleets import built_of_captures
from vllm_fleet_provider.shared.redaction import adopt, also_redact, in_force, redact_keys

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
ANSWER = capture("llama").answers[SERVER_INFO]
HUNGRY = "tests.sources.importing.hungry"


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
    fleets, refused = import_files([File("fleet.json.gz", raw)], AT, "x")
    assert most_memory() - before < 50_000_000
    assert fleets == []
    assert refused == [
        (
            "fleet.json.gz",
            "It has more than 5,000,000 JSON nodes; save one pool at a time: poll --format json --full --pool NAME.",
        )
    ]


def test_the_limited_process_has_the_same_additional_secrets() -> None:
    answer = ANSWER.replace(b'"runner"', b'"licence": "ACME-4711-X", "echo": "our-key-7Qz2", "runner"', 1)
    assert answer != ANSWER
    before = in_force()
    try:
        also_redact(["licence"], [])
        redact_keys(["our-key-7Qz2"])
        (fleet,), _ = import_files([File("a.json", answer)], AT, "x")
    finally:
        adopt(before)

    assert b"ACME-4711-X" not in fleet.content
    assert b"our-key-7Qz2" not in fleet.content


def run(sent: bytes) -> bytes:
    return child.run_limited(HUNGRY, lambda: sent)


def test_the_process_that_reads_has_600_mb_and_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "container_memory", lambda: None)
    assert run(b"") == b"600000000 60\n"


def test_in_a_container_it_has_at_most_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 MB beside a server of 500 in a pod of 1 GiB: the kernel killed both."""
    monkeypatch.setattr(child, "container_memory", lambda: 2**30)
    assert run(b"") == b"536870912 60\n"


@pytest.mark.parametrize(
    ("own", "files", "memory"),
    [
        ("0::/\n", {"memory.max": "1073741824\n"}, 2**30),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/pods/a\n", {"memory.max": "max\n", "pods/memory.max": "4096\n", "pods/a/memory.max": "max\n"}, 4096),
        ("0::/pods/a\n", {"pods/memory.max": "4096\n", "pods/a/memory.max": "1024\n"}, 1024),
        ("1:cpu:/\n4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "2048\n"}, 2048),
        ("4:memory:/host/a\n", {"memory/memory.limit_in_bytes": "2048\n"}, 2048),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, 2**63 - 4096),
        ("", {}, None),
        ("no cgroup", {"memory.max": "4096"}, None),
    ],
)
def test_the_memory_of_the_container_is_the_lowest_limit_of_its_control_groups(
    tmp_path: Path, own: str, files: dict[str, str], memory: int | None
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert child.container_memory(tmp_path / "own", tmp_path) == memory
    assert child.container_memory(tmp_path / "missing", tmp_path) is None


def test_a_process_that_takes_more_memory_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "container_memory", lambda: None)
    with pytest.raises(SnapshotError) as refused:
        run(b"eat")
    assert str(refused.value) == (
        "Reading it takes more than 600 MB of memory or 60 s; "
        "save one pool at a time: poll --format json --full --pool NAME."
    )


def test_one_process_reads_at_a_time_a_few_wait_and_the_others_are_refused() -> None:
    """Eight imports at once took 2.3 GB. Each that waits keeps its files in memory."""
    began, may_end, order = Event(), Event(), list[int]()

    def first() -> bytes:
        began.set()
        may_end.wait()
        return b""

    def later(number: int) -> bytes:
        order.append(number)
        return b""

    with ThreadPoolExecutor(1 + child.MOST_WAITING) as pool:
        done = [pool.submit(child.run_limited, HUNGRY, first)]
        began.wait()
        for number in range(child.MOST_WAITING):
            waits = Event()
            done.append(pool.submit(child.run_limited, HUNGRY, partial(later, number), wait=waits.set))
            waits.wait()
        with pytest.raises(SnapshotError, match=r"^Another import is being read; try again in a minute\.$"):
            child.run_limited(HUNGRY, bytes)
        assert order == []
        may_end.set()
        assert len({each.result() for each in done}) == 1
    assert sorted(order) == list(range(child.MOST_WAITING))


def test_who_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "WAIT_SECONDS", 0.01)

    def outer() -> bytes:
        with pytest.raises(SnapshotError, match=r"^Another import is being read; try again in a minute\.$"):
            child.run_limited(HUNGRY, bytes)
        return b""

    assert child.run_limited(HUNGRY, outer)
    assert child.run_limited(HUNGRY, bytes), "its place is free again"


def test_the_limited_process_gives_the_same_result() -> None:
    files = [
        File("chat-1.json", ANSWER),
        File("broken.json", b"{"),
        File("old.json", content_of(built_of_captures(capture("llama")))),
    ]
    options: dict[str, Any] = {"policy": policy_of(Options()), "ignore": ("a.*",)}
    fleets, refused = import_files(files, AT, "x", **options)
    assert (fleets, refused) == imported(files, AT, "x", **options)
    assert (len(fleets), len(refused)) == (2, 1)


def test_the_nodes_of_a_snapshot_are_limited(tmp_path: Path) -> None:
    content = b"[" + b'{"":{}},' * 1_300_000 + b"1]"
    with pytest.raises(SnapshotError, match="more than 5,000,000 JSON nodes; save one pool at a time"):
        Snapshots(tmp_path).keep(content, describe_fleet(built_of_captures(capture("llama")), "x", AT))
