"""A saved fleet comes back as it was, with equal findings; whatever else the file holds ends in one sentence."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dashboard.errors import SnapshotError
from dashboard.fleet import Fleet, build_fleet, inspected, only_pool
from dashboard.models import Basis, Device, Fingerprint, KVCacheGroup, ReplicaState, Role, Setting, Source, State
from dashboard.report import load
from dashboard.report.document import FullFleetDocument, to_document, to_json
from dashboard.report.findings_document import findings_document
from dashboard.report.load import read_snapshot
from dashboard.report.table import to_table
from dashboard.rules.domain import Declared, Router
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from tests import builders
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, VERSION, capture, captures, snapshot
from tests.collect.hostile import changed_metrics
from tests.provider_answers import with_provider

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.captured import Capture

INTERVAL = timedelta(seconds=30)
LAST_DAY = date(2026, 11, 20)  # of the simulated fleet's poll
POLICY = Policy(
    pools={"chat-*": Declared(router=Router.NONE)},
    rules={"RT-01": RuleChange(severity=Severity.INFO)},
    suppressions=(Suppression("RT-01", "ana", "a test of sizes", LAST_DAY, pool="chat-70b", number=1),),
)


def saved(fleet: Fleet, indent: int | None = None) -> bytes:
    return to_json(to_document(fleet, AT, full=True), indent=indent)


def without_answers(fleet: Fleet) -> list[Any]:
    """The replicas without the answers of their probes, which nobody saves."""
    return [replace(replica, probes=()) for replica in fleet.replicas]


def test_the_findings_of_a_saved_fleet_are_those_of_the_poll(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet, indent=2), demo_fleet.policy)

    assert demo_fleet.inspection.findings
    assert back.inspection == demo_fleet.inspection


def test_the_whole_fleet_comes_back(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet))

    assert without_answers(back) == without_answers(demo_fleet)
    assert back.documents == demo_fleet.documents
    assert back.pools == demo_fleet.pools
    assert back.polled_at == demo_fleet.polled_at
    assert back.name == demo_fleet.name
    for one, other in zip(back.frames, demo_fleet.frames, strict=True):
        assert one.equals(other)


def test_all_that_a_replica_can_hold_comes_back() -> None:
    told = builders.document()
    nested = Setting('{"c":[1,0.5,null,true]}', State.REPORTED, Source.PLUGIN)
    full = builders.replica(
        document=told,
        role=Role.PREFILL,
        started_at=AT - timedelta(days=3, microseconds=1),
        identity={"instance_id": builders.setting("x"), "a.b": nested},
        adapters=("sql", "fr"),
        engines=(
            builders.engine(None, reason="Nobody tells.", basis=Basis.UNKNOWN),
            builders.engine(dp_rank=1, fingerprint=Fingerprint("c1", "e1")),
            builders.engine(dp_rank=2, fingerprint=Fingerprint(reason="It hashes no blocks.")),
        ),
        devices=(Device(1, 0, "H100", 2**36, "9.0", 132, 1, 2),),
        kv_cache_groups=(KVCacheGroup(0, 0, "MambaSpec", 16, 1, 2, 3, 4, 5, 6, 7, "bfloat16", "all", 8, 9),),
        same_process=("http://elsewhere:8000",),
    )
    fleet = builders.fleet([full, builders.down()], [told])

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)


def test_a_file_that_was_saved_before_there_were_fingerprints_is_read() -> None:
    told = builders.document()
    fleet = builders.fleet([builders.replica(document=told)], [told])
    older = json.loads(saved(fleet))
    for part in older["engines"]:
        del part["fingerprint"]
    for part in older["devices"]:
        for name in ("compute_units", "tensor_parallel_rank", "pipeline_parallel_rank"):
            del part[name]

    back = read_snapshot(json.dumps(older).encode())

    assert without_answers(back) == without_answers(fleet)


def test_what_the_provider_said_comes_back_and_who_said_it() -> None:
    answers = with_provider(capture("llama_dp2"), fingerprints=("a", "b"))
    fleet = build_fleet("one", [snapshot(answers)], polled_at=AT, interval=INTERVAL)

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)
    assert back.inspection == fleet.inspection
    sources = {each.path: each.reply.source for each in back.replicas[0].probes if each.reply}
    assert sources[INFERENCE_CONFIG] is Source.PROVIDER


def test_a_policy_judges_the_saved_fleet_as_it_would_have_judged_the_poll(demo_fleet: Fleet) -> None:
    assert demo_fleet.polled_at is not None
    judged = inspected(replace(demo_fleet, policy=POLICY), demo_fleet.polled_at)

    back = read_snapshot(saved(demo_fleet), POLICY)

    assert judged.inspection.suppressed
    assert back.inspection == judged.inspection
    assert back.policy is POLICY


def test_a_fleet_with_ignored_paths_is_compared_and_judged_without_them() -> None:
    without = built_of_captures(ignore=("cache_config.*",))

    back = read_snapshot(saved(without))

    assert back.ignored == ("cache_config.*",)
    assert (back.pools, back.inspection) == (without.pools, without.inspection)


def built_of_captures(*given: Capture, **more: Any) -> Fleet:
    """Every capture read in full and on the open endpoints only, in one pool each, some in a common one."""
    told: list[Capture] = list(given) or [each.values[0] for each in captures()]
    snapshots = []
    for number, each in enumerate(told):
        labels = {"pool": "mixed"} if number % 3 == 0 else {}
        for address, paths in enumerate((None, (METRICS, VERSION, MODELS))):
            target = f"http://10.{address}.0.{number}:8000"
            snapshots.append(snapshot(each.answers, paths, target=target, labels=labels))
    return build_fleet("captures", snapshots, **{"polled_at": AT, "interval": INTERVAL, **more})


@pytest.mark.parametrize("captured", captures())
def test_what_a_real_server_said_comes_back(captured: Capture) -> None:
    fleet = built_of_captures(captured)

    back = read_snapshot(saved(fleet))

    assert without_answers(back) == without_answers(fleet)
    assert (back.pools, back.inspection) == (fleet.pools, fleet.inspection)


def test_all_real_servers_in_one_fleet_are_judged_alike_before_and_after() -> None:
    fleet = built_of_captures()

    assert read_snapshot(saved(fleet)).inspection == fleet.inspection


def test_sources_that_contradict_each_other_and_one_process_behind_two_addresses_come_back() -> None:
    answers = {**capture("llama").answers, METRICS: changed_metrics(block_size=32)}
    twice = [snapshot(answers, target=f"http://10.0.0.{number}:8000") for number in (1, 2)]
    fleet = build_fleet("odd", twice, polled_at=AT, interval=INTERVAL)

    back = read_snapshot(saved(fleet))

    assert all(replica.contradictions and replica.same_process for replica in back.replicas)
    assert without_answers(back) == without_answers(fleet)
    assert back.inspection == fleet.inspection


def test_one_pool_saved_alone_is_judged_as_it_was(demo_fleet: Fleet) -> None:
    part = only_pool(demo_fleet, "chat-70b")

    assert read_snapshot(saved(part), part.policy).inspection.findings == part.inspection.findings


def test_replicas_that_were_stale_when_the_fleet_was_saved_still_are() -> None:
    later = AT + 10 * INTERVAL
    fleet = built_of_captures(capture("llama"), polled_at=later)

    back = read_snapshot(saved(fleet))

    assert [replica.fresh for replica in back.replicas] == [False, False]
    assert back.inspection == fleet.inspection


def test_a_probe_that_was_answered_says_so_and_one_that_failed_says_why(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet))

    for before, after in zip(demo_fleet.replicas, back.replicas, strict=True):
        assert [(each.path, each.status, each.failure, each.reply is None) for each in after.probes] == [
            (each.path, each.status, each.failure, each.reply is None) for each in before.probes
        ]
    assert any(each.state is ReplicaState.DOWN for each in back.replicas)


def test_a_suppression_expires_on_the_day_on_which_somebody_looks_not_on_that_of_the_poll(demo_fleet: Fleet) -> None:
    raw = saved(demo_fleet)

    on_the_day = read_snapshot(raw, POLICY, LAST_DAY)
    a_day_later = read_snapshot(raw, POLICY, LAST_DAY + timedelta(days=1))

    assert [each.rule for each in on_the_day.inspection.suppressed] == ["RT-01"]
    assert a_day_later.inspection.suppressed == ()
    assert any(each.expired for each in a_day_later.inspection.findings)


def test_a_rollout_that_went_on_when_the_fleet_was_saved_still_does_a_year_later(demo_fleet: Fleet) -> None:
    back = read_snapshot(saved(demo_fleet), today=date(2027, 11, 20))

    assert back.inspection.rollouts
    assert back.inspection.rollouts == demo_fleet.inspection.rollouts


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
    raw = to_json(to_document(demo_fleet, AT))

    assert refusal(raw) == "The snapshot was saved without --full; save it with poll --format json --full."


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "is no JSON"),
        (b"Fleet demo, 42 replicas", "is no JSON"),
        (b'{"schema_version": 2, "replicas": [', "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"schema_version": 2, "replicas": NaN}', "is no JSON"),
        (b"\xff\xfe{}", "is no JSON"),
        (b"[]", "holds no fleet"),
        (b"null", "holds no fleet"),
        (b'{"status": "ok"}', "holds no fleet"),
        (b'{"schema_version": 1, "replicas": []}', "is of schema version 1, and this program reads 2"),
        (b'{"schema_version": "\\u001b[31m", "replicas": []}', "is of schema version"),
        (b'{"schema_version": 2, "replicas": [], "documents": {}}', "is damaged at"),
    ],
)
def test_what_is_no_saved_fleet_is_said_to_be_none(raw: bytes, told: str) -> None:
    assert told in refusal(raw)


def test_a_document_of_findings_is_no_saved_fleet(demo_fleet: Fleet) -> None:
    assert "holds no fleet" in refusal(to_json(findings_document(demo_fleet, AT)))


def test_a_file_beyond_the_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_BYTES", 2**20)

    said = refusal(b" " * 2**21)

    assert "is larger than the 1 MiB that are read" in said
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
        (_twice("replicas"), "replicas: http://10.0.0.0:8000 stands there twice"),
        (_twice("engines"), "engines: http://10.0.0.0:8000, 0 stands there twice"),
        (lambda told: told.pop("engines"), "engines: Field required"),
        (lambda told: told["replicas"][0].pop("identity"), "replicas[0].identity: Field required"),
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
        FullFleetDocument.model_validate_json(raw, strict=True)

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
    assert to_json(to_document(fleet, datetime.fromisoformat("2026-11-20T12:00:00Z"), full=True))
    assert to_table(fleet, width=100, colour=False)


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
