"""Failures: kind and sentence."""

import errno

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from dashboard.fleet import Failure, FailureKind
from dashboard.sources.http.credentials import Key
from dashboard.sources.http.failures import Asked, of_error, of_status, unread

ASKED = Asked("http://10.0.0.7:8000", "/v1/models")
SOMEWHERE = ConnectionKey(
    "10.0.0.7", 8000, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


def not_connected(number: int) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(SOMEWHERE, OSError(number, "text of the system"))


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (not_connected(errno.ECONNREFUSED), "refused", "refused the connection. Is vLLM running there?"),
        (not_connected(errno.EHOSTUNREACH), "refused", "cannot be reached: there is no route to that host."),
        (
            not_connected(errno.EMFILE),
            "refused",
            "cannot be reached: this machine has too many files open; raise its limit (ulimit -n).",
        ),
        (not_connected(errno.ETIMEDOUT), "timeout", "did not accept a connection in time."),
        (
            aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer"),
            "protocol",
            "closed the connection before it answered /v1/models.",
        ),
        (
            aiohttp.InvalidUrlClientError("http://"),
            "target",
            "is no address that can be asked; correct it where it is listed.",
        ),
    ],
)
def test_an_error_of_the_system_has_a_kind_and_a_sentence(error: Exception, kind: str, sentence: str) -> None:
    assert of_error(ASKED, error) == Failure(FailureKind(kind), f"10.0.0.7:8000 {sentence}")


@pytest.mark.parametrize(
    ("status", "key", "kind", "sentence"),
    [
        (401, Key(missing="no key is set"), "unauthorized", "wants an API key for /v1/models and no key is set."),
        (403, Key("hush"), "unauthorized", "refuses the given API key for /v1/models (status 403)."),
        (302, Key(), "status", "answered /v1/models with status 302: redirects to another place are not followed."),
        (404, Key(), "status", "has no /v1/models (status 404). Is it a vLLM server?"),
        (503, Key(), "status", "answered /v1/models with status 503."),
    ],
)
def test_a_status_has_a_kind_and_a_sentence(status: int, key: Key, kind: str, sentence: str) -> None:
    assert of_status(ASKED, status, key) == Failure(FailureKind(kind), f"10.0.0.7:8000 {sentence}")


def test_an_internal_error_is_named_without_the_answer() -> None:
    failure = unread(ASKED, KeyError("api_key=hush"))
    assert failure.kind is FailureKind.DECODE
    assert "KeyError" in failure.detail
    assert "hush" not in failure.detail
