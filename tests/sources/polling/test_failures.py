"""Failures: kind and sentence."""

import errno

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from dashboard.fleet import FailureKind
from dashboard.sources.polling.credentials import Key
from dashboard.sources.polling.failures import Asked, of_error, of_status, unread

ASKED = Asked("http://10.0.0.7:8000", "/v1/models")
SOMEWHERE = ConnectionKey(
    "10.0.0.7", 8000, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


def not_connected(number: int) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(SOMEWHERE, OSError(number, "text of the system"))


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            not_connected(errno.ECONNREFUSED),
            FailureKind.REFUSED,
            "10.0.0.7:8000 refused the connection. Is vLLM running there?",
        ),
        (
            not_connected(errno.EHOSTUNREACH),
            FailureKind.REFUSED,
            "10.0.0.7:8000 cannot be reached: there is no route to that host.",
        ),
        (
            not_connected(errno.EMFILE),
            FailureKind.REFUSED,
            "10.0.0.7:8000 cannot be reached: this machine has too many files open; raise its limit (ulimit -n).",
        ),
        (not_connected(errno.ETIMEDOUT), FailureKind.TIMEOUT, "10.0.0.7:8000 did not accept a connection in time."),
        (
            aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer"),
            FailureKind.PROTOCOL,
            "10.0.0.7:8000 closed the connection before it answered /v1/models.",
        ),
        (
            aiohttp.InvalidUrlClientError("http://"),
            FailureKind.TARGET,
            "10.0.0.7:8000 is no address that can be asked; correct it where it is listed.",
        ),
    ],
    ids=lambda value: value if isinstance(value, FailureKind) else None,
)
def test_an_error_of_the_system_has_a_kind_and_a_sentence(error: Exception, kind: FailureKind, sentence: str) -> None:
    failure = of_error(ASKED, error)
    assert (failure.kind, failure.detail) == (kind, sentence)


@pytest.mark.parametrize(
    ("status", "key", "kind", "sentence"),
    [
        (
            401,
            Key(),
            FailureKind.UNAUTHORIZED,
            (
                "10.0.0.7:8000 wants an API key for /v1/models and none is given;"
                " set credentials in fleet.yaml, or name the key's variable in FLEET_CREDENTIALS__TOKEN_ENV."
            ),
        ),
        (
            401,
            Key(missing="the environment variable KEY that should hold it is not set or empty"),
            FailureKind.UNAUTHORIZED,
            (
                "10.0.0.7:8000 wants an API key for /v1/models and the environment variable KEY that should hold it"
                " is not set or empty."
            ),
        ),
        (
            403,
            Key("hush"),
            FailureKind.UNAUTHORIZED,
            "10.0.0.7:8000 refuses the given API key for /v1/models (status 403).",
        ),
        (
            302,
            Key(),
            FailureKind.STATUS,
            "10.0.0.7:8000 answered /v1/models with status 302: redirects to another place are not followed.",
        ),
        (404, Key(), FailureKind.STATUS, "10.0.0.7:8000 has no /v1/models (status 404). Is it a vLLM server?"),
        (503, Key(), FailureKind.STATUS, "10.0.0.7:8000 answered /v1/models with status 503."),
    ],
)
def test_a_status_has_a_kind_and_a_sentence(status: int, key: Key, kind: FailureKind, sentence: str) -> None:
    failure = of_status(ASKED, status, key)
    assert failure is not None
    assert (failure.kind, failure.detail) == (kind, sentence)


def test_an_internal_error_is_named_without_the_answer() -> None:
    failure = unread(ASKED, KeyError("api_key=hush"))
    assert failure.kind is FailureKind.DECODE
    assert "KeyError" in failure.detail
    assert "hush" not in failure.detail
