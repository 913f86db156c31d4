"""Wrong tokens are limited for each client, with bounded memory."""

from starlette.testclient import TestClient

from dashboard.access.attempts import MOST_CLIENTS, MOST_FAILURES, PERIOD_SECONDS, FailureCounts
from tests.access.test_gate import bearer, entry, gated


def test_after_ten_failures_in_a_minute_a_client_is_limited_until_the_minute_is_over() -> None:
    now = 0.0
    attempts = FailureCounts(clock=lambda: now)

    assert [attempts.add("192.0.2.1") for _ in range(MOST_FAILURES)] == [0.0] * MOST_FAILURES
    now = 20.0
    assert attempts.add("192.0.2.1") == PERIOD_SECONDS - 20.0
    assert attempts.add("192.0.2.2") == 0.0
    now = PERIOD_SECONDS
    assert attempts.add("192.0.2.1") == 0.0


def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    attempts = FailureCounts()

    assert any(attempts.add(f"2001:db8::{number:x}") for number in range(MOST_FAILURES + 1))
    assert attempts.add("2001:db8:0:1::1") == 0.0


def test_ten_thousand_failures_from_many_addresses_take_bounded_memory() -> None:
    attempts = FailureCounts()
    for number in range(10_000):
        attempts.add(f"10.{number >> 8}.{number & 255}.1")

    assert len(attempts._counts) == MOST_CLIENTS


def test_too_many_wrong_tokens_get_429_and_a_right_one_still_passes() -> None:
    """Prometheus may share the address of a proxy with somebody who guesses."""
    client = TestClient(gated({"tokens": [entry()]}))
    answers = [client.get("/", headers=bearer(f"fleet_{number}")) for number in range(MOST_FAILURES + 2)]

    assert [each.status_code for each in answers] == [401] * MOST_FAILURES + [429] * 2
    assert 0 < int(answers[-1].headers["retry-after"]) <= PERIOD_SECONDS
    assert answers[-1].json()["detail"].startswith("Too many requests: 10 wrong tokens in a minute; try again in")
    assert client.get("/", headers=bearer()).status_code == 200
