"""The signed header of a proxy: keys from a real server, their cache and rotation, and every way to forge a token."""

import asyncio
import base64
import json
import sys
import time
from typing import Any

import pytest
from joserfc import jwt as signing
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from starlette.datastructures import Headers

import dashboard.access as packages
from dashboard.access import jwt, proxy
from dashboard.access.visitor import NotSignedInError, Visitor
from dashboard.config.access import AccessOptions
from tests.sources.polling.hostile import BAD_ANSWERS, CERTIFICATE, HostileServer, answers

ISSUER, AUDIENCE, HEADER = "https://issuer.example.com", "fleet", "x-goog-iap-jwt-assertion"
KEY = ECKey.generate_key("P-256", {"kid": "one"})
NEXT = ECKey.generate_key("P-256", {"kid": "two"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
UNVERIFIED = "The signature of the token cannot be verified."


@pytest.fixture(autouse=True)
def _published(server: HostileServer) -> None:
    publish(server, KEY, RSA)
    jwt._published.cache_clear()


def publish(server: HostileServer, *keys: Any) -> None:
    server.routes["/keys"] = answers(json.dumps(KeySet([*keys]).as_dict()).encode())


def access(server: HostileServer) -> AccessOptions:
    signed = {"header": HEADER, "jwks_url": f"{server.address}/keys", "issuer": ISSUER, "audience": AUDIENCE}
    return AccessOptions.model_validate(
        {
            "mode": "proxy",
            "trusted_proxies": ["127.0.0.1"],
            "roles": {"viewer": ["*"]},
            "proxy": {"jwt": signed},
        }
    )


def token(key: Any = KEY, alg: str = "ES256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Sign the usual claims, with others in their place; a claim that is None is left out."""
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": now + 300,
        "iat": now,
        "email": "ann@example.com",
        "groups": ["sre"],
    }
    found = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return signing.encode(header or {"alg": alg, "kid": key.kid}, found, key, algorithms=[alg])


def visitor(server: HostileServer, text: str, *more: tuple[str, str]) -> Visitor:
    raw = [(name.encode(), value.encode()) for name, value in ((HEADER, text), *more)]
    return asyncio.run(proxy.visitor_of("127.0.0.1", Headers(raw=raw), access(server)))


def refused(server: HostileServer, text: str) -> str:
    with pytest.raises(NotSignedInError) as raised:
        visitor(server, text)
    return str(raised.value)


def test_name_and_groups_are_those_that_were_signed_and_plain_headers_do_not_count(server: HostileServer) -> None:
    found = visitor(server, token(), ("x-forwarded-user", "root"), ("x-forwarded-groups", "admins"))

    assert (found.name, found.groups) == ("ann@example.com", frozenset({"sre"}))
    with pytest.raises(NotSignedInError, match=f"no header {HEADER}"):
        asyncio.run(proxy.visitor_of("127.0.0.1", Headers({"x-forwarded-user": "root"}), access(server)))


@pytest.mark.parametrize(("key", "alg"), [(KEY, "ES256"), (RSA, "RS256"), (RSA, "PS512")])
def test_signatures_of_public_keys_are_accepted(server: HostileServer, key: Any, alg: str) -> None:
    assert visitor(server, token(key, alg)).name == "ann@example.com"


def unsigned(header: dict[str, Any]) -> str:
    _, payload, _ = token().split(".")
    return f"{base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip('=')}.{payload}."


def test_a_token_that_no_published_key_signed_is_refused(server: HostileServer) -> None:
    public = json.dumps(KEY.as_dict(private=False)).encode()
    head, payload, signature = token().split(".")
    other = token(email="root@example.com").split(".")[1]
    forged = {
        "none": unsigned({"alg": "none"}),
        "None": unsigned({"alg": "None", "kid": "one"}),
        "no algorithm": unsigned({"kid": "one"}),
        "public key as secret": token(OctKey.import_key(public), "HS256", {"alg": "HS256", "kid": "one"}),
        "own key with the id of another": token(NEXT, header={"alg": "ES256", "kid": "one"}),
        "own key in the token": token(NEXT, header={"alg": "ES256", "kid": "one", "jwk": NEXT.as_dict(private=False)}),
        "key of another kind": token(RSA, "RS256", {"alg": "RS256", "kid": "one"}),
        "unknown key": token(NEXT),
        "no key id, several keys": token(header={"alg": "ES256"}),
        "key id that is no text": unsigned({"alg": "ES256", "kid": ["one"]}),
        "claims of another": f"{head}.{other}.{signature}",
        "cut": f"{head}.{payload}",
        "no signature": f"{head}.{payload}.",
        "five parts": f"{head}.{payload}.{signature}.a.b",
        "text": "ann@example.com",
        "dots": "..",
        "not base64": "é.é.é",
        "list": f"{base64.urlsafe_b64encode(b'[]').decode()}.{payload}.{signature}",
        "long": "a" * 200_000,
    }

    assert {name: refused(server, text) for name, text in forged.items()} == dict.fromkeys(forged, UNVERIFIED)


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"iss": "https://other.example.com"}, "The token has a missing or wrong claim: iss."),
        ({"iss": None}, "The token has a missing or wrong claim: iss."),
        ({"aud": "other"}, "The token has a missing or wrong claim: aud."),
        ({"aud": None}, "The token has a missing or wrong claim: aud."),
        ({"aud": ["other", "another"]}, "The token has a missing or wrong claim: aud."),
        ({"exp": None}, "The token has a missing or wrong claim: exp."),
        ({"exp": "tomorrow"}, "The token has a missing or wrong claim: exp."),
        ({"exp": True}, "The token has a missing or wrong claim: exp."),
        ({"nbf": time.time() + 3600}, "The token has a missing or wrong claim: nbf."),
        ({"iat": time.time() + 3600}, "The token has a missing or wrong claim: iat."),
        ({"email": None}, "The token of the proxy has no claim email. Set access.proxy.jwt."),
        ({"email": ["ann"]}, "The token of the proxy has no claim email. Set access.proxy.jwt."),
        ({"email": " "}, "The name of the user is empty, unprintable or longer than 200 characters."),
    ],
)
def test_a_wrong_or_missing_claim_is_named(server: HostileServer, claims: dict[str, Any], sentence: str) -> None:
    assert refused(server, token(**claims)) == sentence


def test_keys_behind_tls_need_a_trusted_certificate() -> None:
    with HostileServer(tls=True) as server:
        publish(server, KEY)
        own = access(server)
        signed = own.proxy.jwt.model_copy(update={"ca_file": CERTIFICATE}) if own.proxy.jwt else None
        assert refused(server, token()) == UNVERIFIED
        trusting = own.model_copy(update={"proxy": own.proxy.model_copy(update={"jwt": signed})})
        headers = Headers({HEADER: token()})
        assert asyncio.run(proxy.visitor_of("127.0.0.1", headers, trusting)).name == "ann@example.com"


def test_clocks_may_differ_by_a_minute(server: HostileServer) -> None:
    now = int(time.time())

    assert visitor(server, token(exp=now - 50, iat=now + 50, nbf=now + 50)).name == "ann@example.com"
    assert refused(server, token(exp=now - 61)).startswith("The token expired.")


@pytest.mark.parametrize(
    ("groups", "expected"), [(None, set()), ("sre", {"sre"}), (["a,b", 7, None, " "], {"a,b"}), ({"a": 1}, set())]
)
def test_groups_are_the_texts_of_their_claim(server: HostileServer, groups: Any, expected: set[str]) -> None:
    assert visitor(server, token(groups=groups)).groups == expected


def test_without_the_extra_the_sentence_says_what_to_install(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(packages, "jwt")
    monkeypatch.setitem(sys.modules, "dashboard.access.jwt", None)

    assert refused(server, token()).endswith("needs joserfc: pip install -r requirements-auth.txt.")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def known(keys: jwt.PublishedKeys, kid: str) -> bool:
    """Ask for a key, and wait for a read in the background."""
    found = any(each.kid == kid for each in await keys.for_key(kid))
    if keys._reading is not None:
        await keys._reading
    return found


def test_keys_are_read_once_and_again_for_an_unknown_one_at_most_every_ten_seconds(server: HostileServer) -> None:
    async def asked() -> None:
        clock = Clock()
        keys = jwt.PublishedKeys(f"{server.address}/keys", clock)
        assert all(await asyncio.gather(*(known(keys, "one") for _ in range(20))))
        publish(server, NEXT)
        for number in range(20):
            assert not await known(keys, f"made up {number}")
        assert len(server.asked) == 1
        clock.now = jwt.RETRY_SECONDS
        assert await known(keys, "two")
        assert not await known(keys, "one")
        assert len(server.asked) == 2

    asyncio.run(asked())


def test_a_key_that_is_published_no_more_ends_within_ten_minutes(server: HostileServer) -> None:
    async def asked() -> None:
        clock = Clock()
        keys = jwt.PublishedKeys(f"{server.address}/keys", clock)
        assert await known(keys, "one")
        publish(server, NEXT)
        clock.now = jwt.FRESH_SECONDS
        assert await known(keys, "one"), "it waits for no read"
        assert not await known(keys, "one")

    asyncio.run(asked())


@pytest.mark.parametrize("name", ["status 500", "html", "half a JSON", "too deep", "100 MB", "gzip bomb", "hangs up"])
def test_while_keys_cannot_be_read_the_known_ones_count_for_a_day(server: HostileServer, name: str) -> None:
    async def asked() -> None:
        clock = Clock()
        keys = jwt.PublishedKeys(f"{server.address}/keys", clock)
        assert await known(keys, "one")
        server.routes["/keys"] = BAD_ANSWERS[name][0]
        for clock.now in (jwt.FRESH_SECONDS, jwt.LONGEST_SECONDS):
            assert await known(keys, "one")
        clock.now = jwt.LONGEST_SECONDS + jwt.RETRY_SECONDS
        assert not await known(keys, "one")

    asyncio.run(asked())


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": [{"kty": "EC"}]}', b"\xff"]
)
def test_a_document_without_keys_is_one_line_in_the_log(
    server: HostileServer, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server.routes["/keys"] = answers(body)

    assert refused(server, token()) == UNVERIFIED
    where = server.address.removeprefix("http://")
    assert f"Keys of signed tokens: {where} is no JWKS document" in caplog.messages
