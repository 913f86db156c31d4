"""Whatever a file holds that is no saved fleet, or a damaged one, ends in one sentence."""

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents import load
from dashboard.analysis.documents.findings import findings_json
from dashboard.analysis.documents.fleet import fleet_json, fleet_object
from dashboard.analysis.documents.load import read_snapshot
from dashboard.errors import SnapshotError
from dashboard.render.terminal import to_terminal
from dashboard.views.poll import poll_view
from tests.captured import AT, capture
from tests.saved_fleets import built_of_captures, saved


def refusal(raw: bytes) -> str:
    """The one sentence in which reading ends."""
    with pytest.raises(SnapshotError) as raised:
        read_snapshot(raw)
    said = str(raised.value)
    assert said.startswith("The snapshot ")
    assert said.endswith(".")
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 600
    return said


def test_a_file_saved_without_full_is_told_how_to_save_it(demo_fleet: Fleet) -> None:
    raw = fleet_json(demo_fleet, AT)

    assert refusal(raw) == "The snapshot was saved without --full; save it with poll --format json --full."


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "is cut off; copy it once more, or save one with poll --format json --full."),
        (b"Fleet demo, 42 replicas", "is not JSON"),
        (b'{"schema_version": 2, "replicas": [', "is cut off"),
        (b"[" * 100_000, "is JSON that is nested too deep"),
        (b'{"schema_version": 2, "replicas": NaN}', "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[]", "has no fleet"),
        (b"null", "has no fleet"),
        (b'{"status": "ok"}', "has no fleet"),
        (b'{"schema_version": 1, "replicas": []}', "has schema version 1, this program reads 2"),
        (b'{"schema_version": "\\u001b[31m", "replicas": []}', "has schema version"),
        (b'{"schema_version": 2, "replicas": [], "documents": {}}', "is damaged at"),
    ],
)
def test_what_is_no_saved_fleet_is_said_to_be_none(raw: bytes, told: str) -> None:
    assert told in refusal(raw)


def test_a_document_of_findings_is_no_saved_fleet(demo_fleet: Fleet) -> None:
    assert "has no fleet" in refusal(findings_json(demo_fleet, AT))


def test_a_file_of_too_many_nodes_is_not_parsed() -> None:
    said = refusal(b"[" + b'"",' * 5_000_001 + b"1]")

    assert said == (
        "The snapshot has more than 5,000,000 JSON nodes; "
        "save one pool at a time, with poll --format json --full --pool."
    )


def test_a_file_beyond_the_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_BYTES", 2**20)

    said = refusal(b" " * 2**21)

    assert "is larger than the limit of 1 MiB" in said
    assert "--pool" in said


def small() -> Any:
    """A saved fleet of two replicas, as native JSON."""
    return deepcopy(_small())


@cache
def _small() -> Any:
    return json.loads(saved(built_of_captures(capture("llama"))))


def _twice(name: str) -> Callable[[Any], object]:
    return lambda told: told[name].append(told[name][0])


def _set(*place: Any) -> Callable[[Any], object]:
    """Return what sets the value at a place: all but the last are the steps, the last is the value."""
    *steps, last, value = place

    def change(told: Any) -> None:
        for step in steps:
            told = told[step]
        told[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set("replicas", 1, "state", "upp"), "replicas[1].state: Input should be 'up', 'partial' or 'down'"),
        (_set("replicas", 0, "fresh", "yes"), "replicas[0].fresh: Input should be a valid boolean"),
        (
            _set("replicas", 0, "started_at", "2026-03-02T11:42:05"),
            "replicas[0].started_at: Input should have timezone info",
        ),
        (
            _set("replicas", 0, "started_at", "9999-01-01T00:00:00Z"),
            "replicas[0].started_at: Input should be less than",
        ),
        (_set("data_as_of", None), "data_as_of: "),
        (_set("engines", 0, "num_gpu_blocks", 2**70), "engines[0].num_gpu_blocks: "),
        (_set("engines", 0, "replica", "http://nobody:1"), "engines[0].replica: there is no replica http://nobody:1"),
        (_set("replicas", 0, "document", "abc"), "replicas[0].document: there is no document abc"),
        (_set("replicas", 0, "secret", "x"), "replicas[0].secret: Extra inputs are not permitted"),
        (_twice("replicas"), "replicas: duplicate http://10.0.0.0:8000"),
        (_twice("engines"), "engines: duplicate http://10.0.0.0:8000, 0"),
        (lambda told: told.pop("engines"), "engines: Field required"),
        (lambda told: told["replicas"][0].pop("identity"), "replicas[0]: identity is missing"),
    ],
)
def test_the_sentence_says_where_a_file_is_damaged(change: Callable[[Any], object], told: str) -> None:
    document = small()
    change(document)

    assert told in refusal(json.dumps(document).encode())


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999999"])
def test_a_number_that_no_server_can_mean_is_refused(number: str) -> None:
    document = small()
    settings = next(iter(document["documents"].values()))
    settings["cache_config.block_size"]["value"] = "HERE"

    said = refusal(json.dumps(document).replace('"HERE"', number).encode())

    assert "cache_config.block_size" in said


def test_millions_of_mistakes_are_not_collected() -> None:
    document = small()
    document["replicas"] = [1] * 100_000
    raw = json.dumps(document).encode()

    with pytest.raises(ValidationError) as raised:
        fleet_object(full=True).load(raw)

    assert raised.value.error_count() == 1
    assert "replicas[0]: " in refusal(raw)


STRANGE = st.sampled_from(
    [None, True, -1, 0, 0.5, 2**63, 10**30, 1e308, "", "x", "\x1b[31m<script>", "null", [], {}, [[1]], {"a": {"b": 1}}]
)


@given(st.data())
def test_a_file_changed_anywhere_is_either_refused_or_judged(data: st.DataObject) -> None:
    """Nothing else ever comes out: no other exception, on reading, judging or writing."""
    document = small()
    for _ in range(data.draw(st.integers(1, 3))):
        _change(data, document)

    try:
        fleet = read_snapshot(json.dumps(document).encode())
    except SnapshotError:
        return
    assert fleet_json(fleet, datetime.fromisoformat("2026-11-20T12:00:00Z"), full=True)
    assert to_terminal(poll_view(fleet), width=100, colour=False)


def _change(data: st.DataObject, part: Any) -> None:
    """Walk down at random; then leave one entry out, put it there twice, or write something else."""
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(part[key], (dict, list)) or data.draw(st.integers(0, 9)) == 0:
            break
        part = part[key]
    what = data.draw(st.sampled_from(["drop", "again", "write"]))
    if what == "drop":
        del part[key]
    elif what == "again" and isinstance(part, list):
        part.append(part[key])
    else:
        part[key] = data.draw(STRANGE)
