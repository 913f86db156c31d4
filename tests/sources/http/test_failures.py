"""Failures: kind and sentence."""

import httpx2
import pytest

from dashboard.fleet import Failure, FailureKind
from dashboard.sources.http.credentials import ApiKey
from dashboard.sources.http.failures import (
    Endpoint,
    HeadersTooLargeError,
    NotConnectedError,
    of_error,
    of_status,
    unread,
)

ASKED = Endpoint("http://10.0.0.7:8000", "/v1/models")


@pytest.mark.parametrize(
    ("error", "began", "kind", "sentence"),
    [
        (NotConnectedError(FailureKind.REFUSED), False, "refused", "refused the connection. Is vLLM running there?"),
        (
            NotConnectedError(FailureKind.REFUSED, "there is no route to that host"),
            False,
            "refused",
            "cannot be reached: there is no route to that host.",
        ),
        (
            NotConnectedError(FailureKind.TLS),
            False,
            "tls",
            "does not speak TLS as expected. Should its address begin with http://?",
        ),
        (httpx2.ConnectTimeout("late"), False, "timeout", "did not accept a connection in time."),
        (httpx2.ReadError("reset"), False, "protocol", "closed the connection before it answered /v1/models."),
        (
            httpx2.ReadError("reset"),
            True,
            "protocol",
            "closed the connection in the middle of its answer to /v1/models.",
        ),
        (
            httpx2.RemoteProtocolError("bad"),
            False,
            "protocol",
            "answered /v1/models with something that is no HTTP. Should its address begin with https://?",
        ),
        (
            HeadersTooLargeError("many"),
            False,
            "too_large",
            "answered /v1/models with more or longer headers than are read.",
        ),
        (
            httpx2.InvalidURL("http://"),
            False,
            "target",
            "is no address that can be asked; correct it where it is listed.",
        ),
    ],
)
def test_an_error_has_a_kind_and_a_sentence(error: Exception, kind: str, sentence: str, *, began: bool) -> None:
    assert of_error(ASKED, error, began=began) == Failure(FailureKind(kind), f"10.0.0.7:8000 {sentence}")


@pytest.mark.parametrize(
    ("status", "key", "kind", "sentence"),
    [
        (401, ApiKey(missing="no key is set"), "unauthorized", "wants an API key for /v1/models and no key is set."),
        (403, ApiKey("hush"), "unauthorized", "refuses the given API key for /v1/models (status 403)."),
        (302, ApiKey(), "status", "answered /v1/models with status 302: redirects to another place are not followed."),
        (404, ApiKey(), "status", "has no /v1/models (status 404). Is it a vLLM server?"),
        (503, ApiKey(), "status", "answered /v1/models with status 503."),
    ],
)
def test_a_status_has_a_kind_and_a_sentence(status: int, key: ApiKey, kind: str, sentence: str) -> None:
    assert of_status(ASKED, status, key) == Failure(FailureKind(kind), f"10.0.0.7:8000 {sentence}")


def test_an_internal_error_is_named_without_the_answer() -> None:
    failure = unread(ASKED, KeyError("api_key=hush"))
    assert failure.kind is FailureKind.DECODE
    assert "KeyError" in failure.detail
    assert "hush" not in failure.detail
