"""A file that is not a saved fleet, or is damaged, ends in one sentence."""

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
from dashboard.documents import load
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import read_snapshot
from dashboard.documents.models import reader_of_fleets
from dashboard.errors import SnapshotError
from dashboard.render.terminal import to_terminal
from dashboard.views.command_line import poll_view
from tests.captured import AT, capture
from tests.saved_fleets import built_of_captures, saved
from tests.used import with_traffic


def refusal(raw: bytes) -> str:
    """Return the sentence in which reading ends."""
    with pytest.raises(SnapshotError) as raised:
        read_snapshot(raw)
    sentence = str(raised.value)
    assert (sentence[:13], sentence[-1], len(sentence) < 600) == ("The snapshot ", ".", True)
    assert not {"\n", "\x1b"} & set(sentence)
    return sentence


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is cut off; copy it once more, or save one with poll --format json --full."),
        (b"Fleet demo, 42 replicas", "is not JSON"),
        (b'{"schema_version": "1.0", "replicas": [', "is cut off"),
        (b"[" * 100_000, "is JSON that is nested too deep"),
        (b'{"schema_version": "1.0", "replicas": NaN}', "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[]", "has no fleet"),
        (b"null", "has no fleet"),
        (b'{"status": "ok"}', "has no fleet"),
        (b'{"schema_version": "2.0", "replicas": []}', "has schema version '2.0', this program reads 1.x"),
        (b'{"schema_version": 2, "replicas": []}', "has schema version 2, this program reads 1.x"),
        (b'{"schema_version": "\\u001b[31m", "replicas": []}', "has schema version"),
        (b'{"schema_version": "1.0", "replicas": [], "documents": {}}', "is damaged at"),
        (
            b"[" + b'"",' * 5_000_001 + b"1]",
            "has more than 5,000,000 JSON nodes; save one pool at a time, with poll --format json --full --pool.",
        ),
    ],
    ids=range(14),
)
def test_a_file_that_is_not_a_saved_fleet_is_refused(raw: bytes, words: str) -> None:
    assert words in refusal(raw)


def test_a_document_without_full_or_of_findings_is_refused(demo_fleet: Fleet) -> None:
    without = "The snapshot was saved without --full; save it with poll --format json --full."

    assert refusal(fleet_json(demo_fleet, AT)) == without
    assert "has no fleet" in refusal(findings_json(demo_fleet, AT))


def test_a_file_above_the_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_BYTES", 2**20)

    assert "is larger than the limit of 1 MiB; save one pool at a time, with " in refusal(b" " * 2**21)


def small() -> Any:
    """A saved fleet of two replicas, as native JSON."""
    return deepcopy(_small())


@cache
def _small() -> Any:
    fleet = built_of_captures(capture("llama"))
    return json.loads(saved(with_traffic(fleet, {}, usual=0.5)))


def _twice(name: str) -> Callable[[Any], object]:
    return lambda document: document[name].append(document[name][0])


def _set(*place: Any) -> Callable[[Any], object]:
    """Return what sets the value at a place: all but the last are the steps, the last is the value."""
    *steps, last, value = place

    def change(document: Any) -> None:
        for step in steps:
            document = document[step]
        document[last] = value

    return change


REPLICA = ("replicas", 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("replicas", 1, "state", "upp"), "replicas[1].state: Input should be 'up', 'partial' or 'down'"),
        (_set(*REPLICA, "fresh", "yes"), "replicas[0].fresh: Input should be a valid boolean"),
        (_set(*REPLICA, "started_at", "2026-03-02T11:42:05"), "replicas[0].started_at: Input should have timezone"),
        (_set(*REPLICA, "started_at", "9999-01-01T00:00:00Z"), "replicas[0].started_at: Input should be less than"),
        (_set("data_as_of", None), "data_as_of: "),
        (_set("engines", 0, "num_gpu_blocks", 2**70), "engines[0].num_gpu_blocks: "),
        (_set("engines", 0, "replica", "http://nowhere:1"), "engines[0].replica: there is no replica http://nowhere:1"),
        (_set(*REPLICA, "document", "abc"), "replicas[0].document: there is no document abc"),
        (_set("replicas", [1] * 100_000), "replicas[0]: "),
        (_twice("replicas"), "replicas: duplicate http://10.0.0.0:8000"),
        (_twice("engines"), "engines: duplicate http://10.0.0.0:8000, 0"),
        (_twice("traffic"), "traffic: duplicate http://10.0.0.0:8000, 0"),
        (_set("traffic", 0, "hits", 1e12), "traffic[0]: Value error, hits is larger than queries"),
        (_set("traffic", 0, "external_hits", 5), "external_hits is larger than external_queries"),
        (_set("traffic", 0, "requests", -1), "traffic[0].requests: Input should be greater than or equal to 0"),
        (_set("traffic", 0, "requests", 1e308), "traffic[0].requests: Input should be less than or equal to"),
        (_set("traffic", 0, "requests", "20"), "traffic[0].requests: Input should be a valid number"),
        (_set("traffic", 0, "kv_usage", 40), "traffic[0].kv_usage: Input should be less than or equal to 1"),
        (_set("traffic", 0, "window_seconds", 0), "traffic[0].window_seconds: Input should be greater than"),
        (_set("traffic", 0, "replica", "http://nowhere:1"), "traffic[0].replica: there is no replica http://nowhere:1"),
        (lambda document: document.pop("engines"), "engines: Field required"),
        (lambda document: document.pop("rule_set"), "rule_set: Field required"),
        (lambda document: document["replicas"][0].pop("identity"), "replicas[0].identity: Field required"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place_of_its_first_mistake(
    change: Callable[[Any], object], words: str
) -> None:
    document = small()
    change(document)
    raw = json.dumps(document).encode()

    assert words in refusal(raw)
    if "duplicate" not in words and "there is no" not in words:
        with pytest.raises(ValidationError) as raised:
            reader_of_fleets().validate_json(raw, strict=True)
        assert raised.value.error_count() == 1


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999999"])
def test_a_number_out_of_range_is_refused(number: str) -> None:
    document = small()
    next(iter(document["documents"].values()))["cache_config.block_size"]["value"] = "HERE"

    assert "cache_config.block_size" in refusal(json.dumps(document).replace('"HERE"', number).encode())


STRANGE = st.sampled_from(
    [None, True, -1, 0, 0.5, 2**63, 10**30, 1e308, "", "x", "\x1b[31m<script>", "null", [], {}, [[1]], {"a": {"b": 1}}]
)


@given(st.data())
def test_a_file_changed_anywhere_is_either_refused_or_read(data: st.DataObject) -> None:
    """No other exception is raised by reading, evaluating or writing it."""
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
    """Walk down at random; then remove, repeat or replace an entry."""
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
