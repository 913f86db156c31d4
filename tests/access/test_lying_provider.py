"""Sign-in at an OpenID provider that lies, errs or is forged."""

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt as signing
from joserfc.jwk import KeySet, RSAKey
from joserfc.jws import serialize_compact

from dashboard.access.oidc import OpenIdProvider
from dashboard.access.visitor import Identity, NotSignedInError, UnavailableError
from tests.access.openid import BEGUN, CALLBACK, CLIENT, DASHBOARD, SECRET, UNUSED, options, run
from tests.sources.polling.hostile import CERTIFICATE, HostileServer, answers

KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one"})


@pytest.fixture
def liar(server: HostileServer) -> HostileServer:
    publish(server)
    give(server, id_token(server))
    return server


def publish(server: HostileServer, **more: Any) -> None:
    found = {
        "issuer": server.address,
        "authorization_endpoint": f"{server.address}/auth",
        "token_endpoint": f"{server.address}/token",
        "jwks_uri": f"{server.address}/keys",
        "userinfo_endpoint": f"{server.address}/me",
        **more,
    }
    usable = {name: value for name, value in found.items() if value is not None}
    server.routes["/.well-known/openid-configuration"] = answers(json.dumps(usable).encode())
    server.routes["/keys"] = answers(json.dumps(KeySet([KEY]).as_dict()).encode())


def give(server: HostileServer, token: str | None, **more: Any) -> None:
    tokens = {"access_token": "access", "token_type": "Bearer", "id_token": token, **more}
    server.routes["/token"] = answers(json.dumps(tokens).encode())


def claims(server: HostileServer, **more: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {
        "iss": server.address,
        "aud": CLIENT,
        "sub": "ann",
        "exp": now + 300,
        "iat": now,
        "nonce": BEGUN.nonce,
        "email": "ann@example.com",
        "groups": ["sre"],
    }
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


def id_token(server: HostileServer, key: Any = KEY, alg: str = "RS256", **more: Any) -> str:
    return signing.encode({"alg": alg, "kid": "one"}, claims(server, **more), key, algorithms=[alg])


def redeemed(server: HostileServer, answer: Mapping[str, str] = UNUSED, **more: Any) -> Identity:
    return run(OpenIdProvider(options(server.address, **more)).redeem(answer, BEGUN, CALLBACK))


def unsigned(server: HostileServer) -> str:
    return f"{header(alg='none')}.{id_token(server).split('.')[1]}."


def by_shared_secret(server: HostileServer) -> str:
    """Sign with the published key as if it were a shared secret."""
    text = f"{header(alg='HS256', kid='one')}.{id_token(server).split('.')[1]}"
    return f"{text}.{base64url(hmac.digest(KEY.as_pem(private=False), text.encode(), 'sha256'))}"


def header(**fields: str) -> str:
    return base64url(json.dumps(fields).encode())


def base64url(text: bytes) -> str:
    return urlsafe_b64encode(text).decode().rstrip("=")


FORGED: Mapping[str, Callable[[HostileServer], str]] = {
    "alg none": unsigned,
    "shared secret": by_shared_secret,
    "another key": lambda server: id_token(server, OTHER_KEY),
    "another issuer": lambda server: id_token(server, iss="https://evil.example.com"),
    "another audience": lambda server: id_token(server, aud="other"),
    "several audiences, no party": lambda server: id_token(server, aud=[CLIENT, "other"], azp="other"),
    "another nonce": lambda server: id_token(server, nonce="of another sign-in"),
    "no nonce": lambda server: id_token(server, nonce=None),
    "no subject": lambda server: id_token(server, sub=None),
    "no issue time": lambda server: id_token(server, iat=None),
    "no end": lambda server: id_token(server, exp=None),
    "over": lambda server: id_token(server, exp=int(time.time()) - 61),
    "of tomorrow": lambda server: id_token(server, iat=int(time.time()) + 120),
    "nested too deep": lambda _: serialize_compact({"alg": "RS256", "kid": "one"}, b"[" * 50_000, KEY),
    "two parts": lambda server: ".".join(id_token(server).split(".")[:2]),
    "other letters": lambda _: "é.ü.\0",
    "nothing": lambda _: "..",
}


def test_the_tokens_of_these_tests_are_accepted_where_nothing_is_forged(liar: HostileServer) -> None:
    assert redeemed(liar).groups == {"sre"}
    give(liar, id_token(liar, exp=int(time.time()) - 30))
    assert redeemed(liar).groups == {"sre"}, "a minute is no difference of clocks"
    give(liar, id_token(liar, aud=[CLIENT, "other"], azp=CLIENT))
    assert redeemed(liar).groups == {"sre"}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_id_token_signs_nobody_in(liar: HostileServer, name: str) -> None:
    give(liar, FORGED[name](liar))

    with pytest.raises(NotSignedInError) as refused:
        redeemed(liar)
    assert str(refused.value).isascii()


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_id_token_of_a_refresh_changes_no_groups(liar: HostileServer, name: str) -> None:
    """The nonce is not that of a sign-in any more."""
    give(liar, FORGED[name](liar), refresh_token="new")
    known = Identity(liar.address, "ann", "ann", frozenset({"ml"}), "old", "")
    found = run(OpenIdProvider(options(liar.address)).refresh(known))

    expected = frozenset({"sre"} if name.endswith("nonce") else {"ml"})
    assert (found.groups, found.refresh_token) == (expected, "new")


def test_a_refresh_that_answers_about_somebody_else_changes_no_groups(liar: HostileServer) -> None:
    known = Identity(liar.address, "bob", "bob", frozenset({"ml"}), "old", "")

    assert run(OpenIdProvider(options(liar.address)).refresh(known)).groups == {"ml"}


def test_the_tokens_of_another_provider_are_never_sent(liar: HostileServer) -> None:
    """A reload may name another one."""
    known = Identity("https://old.example.com:443", "ann", "ann", frozenset({"ml"}), "old", "")

    with pytest.raises(NotSignedInError, match="Another provider"):
        run(OpenIdProvider(options(liar.address)).refresh(known))
    assert liar.asked == []


def test_userinfo_about_somebody_else_signs_nobody_in(liar: HostileServer) -> None:
    give(liar, id_token(liar, groups=None))
    liar.routes["/me"] = answers(json.dumps({"sub": "root", "groups": ["admins"]}).encode())

    with pytest.raises(NotSignedInError, match="somebody else"):
        redeemed(liar)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"error": "access_denied"}, "The provider ended the sign-in (access_denied). Sign in again."),
        ({"error": "<script>"}, "The provider ended the sign-in. Sign in again."),
        ({}, "The provider ended the sign-in. Sign in again."),
        (
            {"code": "x", "iss": "https://evil.example.com"},
            "The answer is not from the configured provider. Sign in again.",
        ),
    ],
)
def test_an_answer_without_a_code_or_of_another_provider_is_not_redeemed(
    liar: HostileServer, answer: Mapping[str, str], sentence: str
) -> None:
    with pytest.raises(NotSignedInError) as refused:
        redeemed(liar, answer)

    assert str(refused.value) == sentence
    assert "/token" not in [each.path for each in liar.asked]


def test_a_provider_that_names_itself_in_its_answers_has_to(liar: HostileServer) -> None:
    publish(liar, authorization_response_iss_parameter_supported=True)
    assert redeemed(liar, {"code": "x", "iss": liar.address}).name

    with pytest.raises(NotSignedInError, match="not from the configured provider"):
        redeemed(liar)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example.com"},
        {"issuer": None},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": 7},
        {"end_session_endpoint": "//evil.example.com"},
    ],
)
def test_a_discovery_document_that_cannot_be_used_is_refused(liar: HostileServer, change: dict[str, Any]) -> None:
    publish(liar, **change)

    with pytest.raises(UnavailableError):
        redeemed(liar)
    assert "/token" not in [each.path for each in liar.asked]


def test_visitors_at_once_cost_the_provider_one_read_of_its_configuration(liar: HostileServer) -> None:
    """Whoever reaches the dashboard can begin a sign-in."""

    async def begun(provider: OpenIdProvider) -> list[Any]:
        works = (provider.authorization_url(BEGUN, CALLBACK) for _ in range(50))
        return await asyncio.gather(*works, return_exceptions=True)

    assert len(set(run(begun(OpenIdProvider(options(liar.address)))))) == 1
    assert len(liar.asked) == 1
    liar.routes.clear()
    failed = run(begun(OpenIdProvider(options(liar.address))))
    assert {str(each) for each in failed if isinstance(each, UnavailableError)} == {str(failed[0])}
    assert len(liar.asked) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20) | st.just("http://127.0.0.1:1/x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
METADATA = ("issuer", "token_endpoint", "jwks_uri", "userinfo_endpoint", "scopes_supported", "end_session_endpoint")


@given(
    st.dictionaries(st.sampled_from((*METADATA, "authorization_response_iss_parameter_supported")), JSON, max_size=2),
    st.dictionaries(st.sampled_from(("id_token", "access_token", "refresh_token", "error")), JSON, max_size=2),
    st.dictionaries(st.sampled_from(("sub", "aud", "azp", "exp", "iat", "nbf", "email", "groups")), JSON, max_size=2),
    st.dictionaries(st.sampled_from(("sub", "email", "groups")), JSON) | JSON,
    st.sampled_from((200, 400, 401, 500)),
)
def test_whatever_a_provider_answers_is_a_sentence_or_a_sign_in(
    module_server: HostileServer, metadata: Any, tokens: Any, more: Any, userinfo: Any, status: int
) -> None:
    module_server.routes.clear()
    publish(module_server, **metadata)
    module_server.routes["/me"] = answers(json.dumps(userinfo).encode())
    text = json.dumps({"id_token": id_token(module_server, **more), "access_token": "a", **tokens})
    module_server.routes["/token"] = answers(text.encode(), status)
    provider = OpenIdProvider(options(module_server.address))
    known = Identity(module_server.address, "ann", "ann", frozenset(), "refresh", "")
    for work in (
        lambda: provider.authorization_url(BEGUN, CALLBACK),
        lambda: provider.redeem(UNUSED, BEGUN, CALLBACK),
        lambda: provider.refresh(known),
        lambda: provider.sign_out_url("", DASHBOARD),
    ):
        with suppress(NotSignedInError, UnavailableError):
            run(work())


def test_an_endpoint_of_a_cloud_is_never_asked(liar: HostileServer) -> None:
    publish(liar, token_endpoint="http://169.254.169.254/latest/api/token")

    with pytest.raises(UnavailableError, match="link-local or cloud metadata address"):
        redeemed(liar)


def test_a_provider_behind_tls_is_asked_with_its_ca_and_never_sends_to_plain_http() -> None:
    with HostileServer(tls=True) as server:
        publish(server)
        give(server, id_token(server))
        assert redeemed(server, ca_file=CERTIFICATE).name == "ann@example.com"
        with pytest.raises(UnavailableError, match="is not trusted"):
            redeemed(server)
        publish(server, token_endpoint=server.address.replace("https", "http") + "/token")
        with pytest.raises(UnavailableError, match="no usable token_endpoint"):
            redeemed(server, ca_file=CERTIFICATE)


def test_the_secret_is_sent_as_the_provider_takes_it_and_never_in_a_url(liar: HostileServer) -> None:
    redeemed(liar)
    publish(liar, token_endpoint_auth_methods_supported=["client_secret_post"])
    redeemed(liar)
    redeemed(liar, client_secret_env=None)
    basic, posted, public = (each for each in liar.asked if each.path == "/token")

    assert basic.headers["authorization"] == "Basic ZmxlZXQ6c2VjcmV0LW9mLXRlc3Rz"
    assert SECRET.encode() not in basic.body
    assert f"client_secret={SECRET}".encode() in posted.body
    assert "authorization" not in posted.headers
    assert b"client_id=fleet" in public.body
    assert b"secret" not in public.body
    assert all(SECRET not in each.path for each in liar.asked)


def test_of_the_default_scopes_those_are_asked_for_that_the_provider_lists(liar: HostileServer) -> None:
    publish(liar, scopes_supported=["openid", "email"])

    def scopes(**more: Any) -> str:
        url = run(OpenIdProvider(options(liar.address, **more)).authorization_url(BEGUN, CALLBACK))
        return parse_qs(urlsplit(url).query)["scope"][0]

    assert scopes() == "openid email"
    assert scopes(scopes=["openid", "team"]) == "openid team"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"email": None}, "The provider sends no email. Set access.oidc.name_claim or scopes."),
        ({"email": "a\nb"}, "The provider sends no email. Set access.oidc.name_claim or scopes."),
        ({"email": "x" * 201}, "The provider sends no email. Set access.oidc.name_claim or scopes."),
        ({"email_verified": False}, "The provider has not verified your email address."),
    ],
)
def test_a_visitor_without_a_usable_name_is_not_signed_in(
    liar: HostileServer, more: dict[str, Any], sentence: str
) -> None:
    publish(liar, userinfo_endpoint=None)
    give(liar, id_token(liar, **more))

    with pytest.raises((NotSignedInError, UnavailableError)) as refused:
        redeemed(liar)
    assert str(refused.value) == sentence
