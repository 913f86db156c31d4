"""Answers of something that may be Prometheus, from a real server on loopback: bounded, kept as stale, one sentence."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config import Options, PollOptions, PrometheusOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import STALE_SECONDS, Target
from dashboard.sources.discovery import discover_once
from dashboard.sources.prometheus.answers import QueryResult, read_answer, read_by_labels
from dashboard.sources.prometheus.server import replicas_query
from dashboard.sources.prometheus.source import Prometheus
from tests.sources.polling.hostile import BAD_ANSWERS, Exchange, HostileServer, answers, silent

NOW = 1_800_000_000.0
PATH = "/api/v1/query"
SMALLEST = 2**16  # bytes of max_answer_bytes


def series(instance: str, age: float = 0.0, *, is_down: bool = False, **labels: str) -> dict[str, Any]:
    return {
        "metric": {"instance": instance, "job": "vllm", **labels},
        "value": [NOW, "0" if is_down else str(NOW - age)],
    }


def success(*result: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **more}).encode()


def source(server: HostileServer, **more: Any) -> Prometheus:
    options = PrometheusOptions(url=server.address, **{"timeout_seconds": 2, "max_answer_bytes": SMALLEST, **more})
    return Prometheus(options, None, PollOptions())


def read(found: Prometheus) -> tuple[tuple[Target, ...], str]:
    (listing,) = asyncio.run(found.read())
    return listing.targets, listing.failure or ""


def failure_of(server: HostileServer, body: bytes, status: int = 200) -> str:
    server.routes[PATH] = answers(body, status)
    return read(source(server))[1]


def of_series(server: HostileServer, *result: Any) -> list[tuple[str, dict[str, str], bool]]:
    server.routes[PATH] = answers(success(*result))
    return [(each.id, dict(each.labels), each.stale) for each in read(source(server))[0]]


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_keeps_the_targets_as_stale(server: HostileServer, name: str) -> None:
    server.routes[PATH] = answers(success(series("a:1"), series("b:1")))
    found = source(server)
    fresh, _ = read(found)
    server.routes[PATH] = BAD_ANSWERS[name][0]
    stale, failure = read(found)

    assert [each.id for each in stale] == [each.id for each in fresh] == ["http://a:1", "http://b:1"]
    assert all(each.stale for each in stale)
    assert failure.startswith(f"{server.address}: ")
    assert failure.endswith("; keeping its last targets (2), marked stale")
    assert len(failure) < 500
    assert not {"vLLM", "<script>"} & {*failure.split()}


def test_an_error_of_prometheus_is_quoted_without_secrets_and_length(server: HostileServer) -> None:
    error = {"status": "error", "errorType": "execution", "error": "token=hunter2hunter2 \x1b[31m" + "x" * 5000}
    failure = failure_of(server, json.dumps(error).encode(), 422)

    assert "answered /api/v1/query with status 422: answers with an error: token=" in failure
    assert "hunter2" not in failure
    assert "\x1b" not in failure
    assert len(failure) < 500
    assert "answers with an error: no" in failure_of(server, b'{"status": "error", "error": "no"}')


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[]", "JSON that is not of Prometheus' API"),
        (b'{"status": "success"}', "JSON that is not of Prometheus' API"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', "another type of result"),
        (success(1), "a series of another shape"),
        (success({"metric": {}, "value": [1]}), "a series of another shape"),
        (success({"metric": [], "value": [1, "2"]}), "a series without a time"),
        (success({"metric": {}, "value": [1, "NaN"]}), "a series without a time"),
        (success({"metric": {}, "value": [1, "1e300"]}), "a series without a time"),
        (success({"metric": {}, "value": [1, "-1"]}), "a series without a time"),
        (success({"metric": {"a": 1}, "value": [1, "2"]}), "a label that is no text"),
    ],
)
def test_another_shape_is_named(server: HostileServer, body: bytes, sentence: str) -> None:
    assert sentence in failure_of(server, body)


LABELS = st.dictionaries(
    st.text(max_size=8), st.text(max_size=8) | st.just('},"value":[1,"2"]},{"metric":{'), max_size=3
)
TIMES = st.floats(0, 1e11) | st.integers(0, 2**34)
BAD = ("-1", "NaN", "1e300", "1_0", " 1", "", "1.2.3", "x")


@given(
    st.lists(st.tuples(LABELS, TIMES, TIMES.map(str) | st.sampled_from(BAD)), max_size=4),
    st.sampled_from(({}, {"warnings": ["a store is down"]})),
)
def test_an_answer_is_the_same_in_prometheus_own_spelling_and_in_any_other(
    found: list[tuple[dict[str, str], float, str]], more: dict[str, Any]
) -> None:
    answer: dict[str, Any] = {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": a, "value": [at, b]} for a, at, b in found]},
        **more,
    }
    known: dict[bytes, Mapping[str, str]] = {}
    own = json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()

    whole = outcome_of(json.dumps(answer).encode(), {})
    assert outcome_of(own, known) == whole
    assert outcome_of(own, known) == whole, "also where the labels are known"


@given(st.integers(0, 500), st.binary(max_size=3))
def test_a_broken_answer_is_refused_as_in_any_other_spelling(place: int, noise: bytes) -> None:
    own = success(series("a:1"), series("b:1", 1), series("c:1", 2)).replace(b", ", b",").replace(b": ", b":")
    broken = own[:place] + noise + own[place:]

    assert outcome_of(broken, {}) == outcome_of(b" " + broken, {})


@given(st.lists(st.tuples(LABELS, st.sampled_from(("", "vllm:a", 'a"b', "é")), st.text(max_size=5)), max_size=4))
def test_samples_of_many_metrics_are_the_same_in_any_spelling(found: list[tuple[dict[str, str], str, str]]) -> None:
    names = [{"__name__": name} if name else {} for _, name, _ in found]
    result: list[dict[str, Any]] = [
        {"metric": own | labels, "value": [NOW, value]} for own, (labels, _, value) in zip(names, found, strict=True)
    ]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    own = json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()

    def samples(body: bytes) -> list[str]:
        return sorted(
            f"{name!r} {sorted((label, text) for label, text in labels.items() if label != '__name__')}"
            for labels, values in read_by_labels(body)
            for name, _ in values
        )

    assert samples(own) == samples(json.dumps(answer).encode())


def outcome_of(body: bytes, known: dict[bytes, Mapping[str, str]]) -> QueryResult | str:
    try:
        return read_answer(body, known)
    except UnreadableError as error:
        return error.detail.partition(" (")[0]  # without line and column


def test_equal_labels_of_two_answers_are_one_object() -> None:
    known: dict[bytes, Mapping[str, str]] = {}
    own = success(series("a:1"), series("b:1")).replace(b", ", b",").replace(b": ", b":")
    first, second = (read_answer(own, known).samples[0].labels for _ in range(2))

    assert first is second


DIGESTS: dict[str, Any] = {"engine": "0", "scheme": "1", "document": "d"}


def test_all_labels_are_asked_for_only_where_digests_or_capacity_changed(server: HostileServer) -> None:
    async def behave(exchange: Exchange) -> None:
        query = parse_qs(exchange.asked.body.decode())["query"][0]
        asked.append(query)
        more: dict[str, Any] = {} if query.startswith("max by") else {"block_size": "16"}
        await exchange.reply(
            success(
                *(series(each, engine="0", num_gpu_blocks=number, **more) for each, number in blocks.items()),
                *(series(each, **DIGESTS) for each in blocks),
            )
        )

    def queries(**changed: str) -> list[str]:
        blocks.update({f"{name}:1": number for name, number in changed.items()})
        asked.clear()
        targets, failure = read(found)
        assert not failure
        assert all(each.scraped for each in targets)
        lines = [each.scraped.lines for each in targets if each.scraped]
        expected = [f'num_gpu_blocks="{number}"'.encode() for number in blocks.values()]
        assert all(each in own for each, own in zip(expected, lines, strict=True))
        return [*asked]

    blocks = {"a:1": "10", "b:1": "20"}
    asked: list[str] = []
    server.routes[PATH] = behave
    found = source(server)
    first, second, third = queries(), queries(), queries(b="30")

    assert [len(each) for each in (first, second, third)] == [2, 1, 2]
    assert all(each[0].startswith("max by (instance, ") for each in (first, second, third))
    assert r"a\x{3a}1|b" in first[1] or "a:1|b:1" in first[1]
    assert 'instance=~"b:1"' in third[1]


def test_partial_data_is_kept_and_what_it_lacks_is_stale(server: HostileServer) -> None:
    server.routes[PATH] = answers(success(series("a:1"), series("b:1")))
    found = source(server)
    read(found)
    server.routes[PATH] = answers(success(series("b:1"), warnings=["store 10.0.0.9 is down", 1]))
    targets, failure = read(found)

    assert {each.id: each.stale for each in targets} == {"http://b:1": False, "http://a:1": True}
    assert failure == f"{server.address}: answers with partial data: store 10.0.0.9 is down"


def test_a_series_that_is_scraped_no_more_is_stale(server: HostileServer) -> None:
    found = of_series(server, series("a:1", STALE_SECONDS), series("b:1", STALE_SECONDS + 1))

    assert [(name, stale) for name, _, stale in found] == [("http://a:1", False), ("http://b:1", True)]


def test_an_address_belongs_to_the_pod_that_was_scraped_last(server: HostileServer) -> None:
    old = series("a:1", 100, pod="old", node="n1", pool="x"), series("a:1", 101, pod="old", scheme="1")
    new = series("a:1", 1, pod="new"), series("a:1", is_down=True, pod="old")

    assert of_series(server, *old, *new) == [("http://a:1", {"job": "vllm", "pod": "new"}, False)]


def test_two_jobs_that_scrape_one_pod_are_one_target_with_constant_labels(server: HostileServer) -> None:
    jobs = series("a:1", 1, job="b", pod="p"), series("a:1", 2, job="a", pod="p", pool="chat")
    labels = {"job": "a", "pod": "p", "pool": "chat"}

    assert of_series(server, *jobs) == of_series(server, *reversed(jobs)) == [("http://a:1", labels, False)]


def test_an_impossible_address_is_a_failed_target_and_a_long_label_is_cut(server: HostileServer) -> None:
    server.routes[PATH] = answers(success(series("a b"), series("c:1", pod="x" * 5000)))
    targets, _ = read(source(server))

    assert [each.failure is not None for each in targets] == [True, False]
    assert len(targets[1].labels["pod"]) == 1000


def test_a_server_that_is_slow_costs_its_limit_only(server: HostileServer) -> None:
    server.routes[PATH] = silent
    assert "timed out after 0.2 s on /api/v1/query" in read(source(server, timeout_seconds=0.2))[1]


def test_an_answer_whose_parts_are_too_large_is_one_sentence(server: HostileServer) -> None:
    async def behave(exchange: Exchange) -> None:
        query = parse_qs(exchange.asked.body.decode())["query"][0]
        is_list = query.startswith("group by")
        await exchange.reply(
            success(*([series("a:1"), series("b:1")] if is_list else [])) + b" " * SMALLEST * (not is_list)
        )

    server.routes[PATH] = behave
    assert read(source(server))[1].endswith("the smallest answer has more than 65,536 bytes; raise max_answer_bytes")
    server.routes[PATH] = answers(b" " * SMALLEST * 2)
    assert read(source(server))[1].endswith("the smallest answer has more than 65,536 bytes; raise max_answer_bytes")


def test_token_or_password_and_tenant_are_sent(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OURS", "s3cret")
    (tmp_path / "password").write_text("pass word\n")
    server.routes[PATH] = answers(success(series("a:1")))
    server.asked.clear()
    read(source(server, authorization={"token_env": "OURS"}, tenant="team-a"))
    basic = {"username": "me", "password_file": tmp_path / "password"}
    read(source(server, authorization=basic))
    read(source(server))

    headers = [each.headers for each in server.asked if each.path == PATH]
    others = [each.headers for each in server.asked if each.path != PATH]  # for the external labels
    assert [each.get("authorization") for each in others] == [each.get("authorization") for each in headers]
    assert [each.get("authorization") for each in headers] == ["Bearer s3cret", "Basic bWU6cGFzcyB3b3Jk", None]
    assert [each.get("x-scope-orgid") for each in headers] == ["team-a", None, None]


@pytest.mark.parametrize(
    ("authorization", "sentence"),
    [
        (None, "none is given; set authorization of this prometheus entry"),
        ({"ca_file": "/x"}, "none is given; set authorization of this prometheus entry"),
        ({"token_file": "/none"}, "the file /none cannot be read"),
        ({"username": "me", "password_file": "/none"}, "the file /none cannot be read"),
        ({"username": "me", "password_file": "/dev/null"}, "the file /dev/null that should hold the password is empty"),
    ],
)
def test_a_missing_key_is_named(server: HostileServer, authorization: Any, sentence: str) -> None:
    server.routes[PATH] = answers(b"", 401)
    assert sentence in read(source(server, authorization=authorization))[1]


def test_the_path_of_the_url_is_kept_and_discovery_lists_it(server: HostileServer) -> None:
    server.routes[f"/mimir{PATH}"] = answers(success(series("a:1")))
    found = discover_once(Options.model_validate({"prometheus": [{"url": f"{server.address}/mimir/"}]}))

    assert [each.id for each in found.targets] == ["http://a:1"]
    assert [(each.name, each.kind) for each in found.sources] == [(f"{server.address}/mimir", "prometheus")]


def test_addresses_are_matched_as_they_are() -> None:
    query = replicas_query('{job="x"}', "instance", ["10.0.0.1:1", 'a"\\|é:2'])

    assert query.startswith(
        r'timestamp(vllm:cache_config_info{job="x",instance=~"10\\x{2e}0\\x{2e}0\\x{2e}1:1|a\\x{22}\\x{5c}\\x{7c}\\x{e9}:2"})'
    )
