"""A flood of records, tracebacks included, cannot fill the log."""

import logging
from collections.abc import Callable, Iterator

import pytest

from dashboard.web.limits import MOST_RECORDS, MOST_TRACEBACKS, PERIOD_SECONDS, LogLimit, kind_of

logger = logging.getLogger("tests.flood")


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> Iterator[LogLimit]:
    """A limit on the loggers of these tests."""
    limit = LogLimit(clock)
    limit.attach()
    yield limit
    limit.detach()


def send(text: str) -> None:
    logger.warning("bad request %s", text)


def send_formatted(text: str) -> None:
    logger.warning(f"bad request {text}")  # noqa: G004  as libraries do


def fail(error: Exception) -> None:
    try:
        raise error  # noqa: TRY301  each from the same place
    except Exception as caught:
        logger.error("Uncaught app execution", exc_info=caught)  # noqa: TRY400  as Streamlit does


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("sender", [send, send_formatted])
def test_records_of_one_kind_are_suppressed_whatever_values_they_contain(
    sender: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        sender(str(number))
    logger.warning("another")

    assert len(caplog.messages) == MOST_RECORDS + 1
    assert caplog.messages[-2:] == [
        f"bad request {MOST_RECORDS - 1} (similar records are suppressed for up to 60 s)",
        "another",
    ]


@pytest.mark.usefixtures("limit")
def test_tracebacks_are_suppressed_by_the_type_and_place_of_their_exception(caplog: pytest.LogCaptureFixture) -> None:
    """A link with an error in it wrote 16 GB of tracebacks a day."""
    for number in range(1000):
        fail(TypeError(f"value {number}"))
    fail(KeyError("x"))

    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [TypeError] * MOST_TRACEBACKS + [
        KeyError
    ]


def test_the_number_of_suppressed_records_is_logged_after_the_period(
    limit: LogLimit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MOST_RECORDS + 7):
        send(str(number))
    limit.report()
    assert len(caplog.messages) == MOST_RECORDS
    kind = kind_of(caplog.records[0])
    clock.now = PERIOD_SECONDS
    limit.report()
    limit.report()

    assert caplog.messages[MOST_RECORDS:] == [f"Suppressed 7 records of {kind} in 60 s"]
    assert str(kind).startswith("tests.flood (test_log_limit.py:")


@pytest.mark.usefixtures("limit")
def test_a_flood_that_goes_on_is_reported_each_period(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for second in range(150):
        clock.now = float(second)
        send(str(second))

    reported = [each for each in caplog.messages if each.startswith("Suppressed")]
    assert [each.split()[1] for each in reported] == ["40", "40"]
    assert len(caplog.messages) == 3 * MOST_RECORDS + 2


def test_the_kind_of_a_traceback_has_its_exception(
    limit: LogLimit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(MOST_TRACEBACKS + 1):
        fail(TypeError("x"))
    logger.error("not raised", exc_info=ValueError("x"))
    clock.now = PERIOD_SECONDS
    limit.report()

    assert ": TypeError at test_log_limit.py:" in caplog.messages[-1]
    assert kind_of(caplog.records[-2]).raised_at == ""


@pytest.mark.usefixtures("limit")
def test_a_refused_websocket_was_answered(caplog: pytest.LogCaptureFixture) -> None:
    logger.error("ASGI callable returned without completing handshake.")

    assert caplog.messages == []
