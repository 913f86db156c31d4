"""Sign-in at a real OpenID provider, and what is taken from its answers."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.access.oidc import OpenIdProvider, groups_of
from dashboard.access.visitor import Identity, NotSignedInError, PendingSignIn, UnavailableError, safe_path
from tests.access.openid import (
    BEGUN,
    CALLBACK,
    CLIENT,
    DASHBOARD,
    SECRET,
    UNUSED,
    OpenIdServer,
    at_provider,
    options,
    run,
    sign_in,
)
from tests.serving import free_port


def signed_in(provider: OpenIdProvider, login: str, begun: PendingSignIn | None = None) -> Identity:
    begun = begun or PendingSignIn.begin("/")
    answer = at_provider(run(provider.authorization_url(begun, CALLBACK)), login)
    assert answer["state"] == begun.state
    return run(provider.redeem(answer, begun, CALLBACK))


def test_who_signs_in_has_the_name_and_the_groups_of_the_provider(openid: OpenIdServer) -> None:
    openid.control(accounts={"ann": {"groups": ["sre", "ml"]}})
    found = signed_in(OpenIdProvider(options(openid.url)), "ann")

    assert (found.subject, found.name, found.groups) == ("ann", "ann@example.com", frozenset({"sre", "ml"}))
    assert found.refresh_token
    assert found.refresh_token not in repr(found)
    assert found.id_token not in repr(found)


def test_the_browser_is_sent_with_a_challenge_state_and_nonce_and_never_with_the_verifier(openid: OpenIdServer) -> None:
    begun = PendingSignIn.begin("/findings?pool=chat")
    url = run(OpenIdProvider(options(openid.url)).authorization_url(begun, CALLBACK))
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}

    assert (asked["state"], asked["nonce"], asked["redirect_uri"]) == (begun.state, begun.nonce, CALLBACK)
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert begun.verifier not in url
    assert SECRET not in url
    assert begun.next not in url
    assert PendingSignIn.begin("/").state != PendingSignIn.begin("/").state


def test_groups_that_only_userinfo_has_count(openid: OpenIdServer) -> None:
    openid.control(accounts={"bob": {"groups": ["ml"]}}, userinfo_only=True)
    try:
        found = signed_in(OpenIdProvider(options(openid.url)), "bob")
    finally:
        openid.control(userinfo_only=False)

    assert (found.name, found.groups) == ("bob@example.com", frozenset({"ml"}))


@pytest.mark.parametrize("is_userinfo_only", [False, True])
def test_a_refresh_has_the_groups_of_today_and_a_new_refresh_token(
    openid: OpenIdServer,
    is_userinfo_only: bool,  # noqa: FBT001
) -> None:
    openid.control(accounts={"cid": {"groups": ["sre"]}}, userinfo_only=is_userinfo_only)
    try:
        provider = OpenIdProvider(options(openid.url))
        found = signed_in(provider, "cid")
        openid.control(accounts={"cid": {"groups": []}})
        later = run(provider.refresh(found))
    finally:
        openid.control(userinfo_only=False)

    assert (found.groups, later.groups, later.name) == (frozenset({"sre"}), frozenset(), found.name)
    assert later.refresh_token not in {"", found.refresh_token}


def test_a_refresh_token_that_was_used_before_ends_the_sign_in(openid: OpenIdServer) -> None:
    provider = OpenIdProvider(options(openid.url))
    found = signed_in(provider, "dan")
    run(provider.refresh(found))

    with pytest.raises(NotSignedInError, match=r"^The sign-in expired, ended or was used before\. Sign in again\.$"):
        run(provider.refresh(found))


def test_a_code_is_redeemed_once_and_only_with_the_verifier_of_its_sign_in(openid: OpenIdServer) -> None:
    provider, begun = OpenIdProvider(options(openid.url)), PendingSignIn.begin("/")
    with httpx2.Client(trust_env=False, timeout=30) as browser:
        url = run(provider.authorization_url(begun, CALLBACK))
        first, second = (sign_in(browser, url, "eve", CALLBACK) for _ in range(2))
    assert run(provider.redeem(first, begun, CALLBACK)).name == "eve@example.com"

    for answer, used in ((first, begun), (second, PendingSignIn.begin("/"))):
        with pytest.raises(NotSignedInError, match="used before"):
            run(provider.redeem(answer, used, CALLBACK))


def test_a_rotated_key_is_read_when_a_token_is_signed_with_it(openid: OpenIdServer) -> None:
    """Two of its reads are ten seconds apart: the provider here has not signed in anybody yet."""
    signed_in(OpenIdProvider(options(openid.url)), "fay")
    provider = OpenIdProvider(options(openid.url))
    run(provider.authorization_url(PendingSignIn.begin("/"), CALLBACK))
    openid.control(rotate="only")

    assert signed_in(provider, "fay").name == "fay@example.com"
    assert provider._keys is not None
    provider._keys._tried_at = float("-inf")  # ten seconds later
    openid.control(rotate="only")
    assert signed_in(provider, "fay").name == "fay@example.com"


@pytest.mark.parametrize("seconds", [55, -55])
def test_a_clock_that_differs_by_a_minute_is_no_obstacle(openid: OpenIdServer, seconds: int) -> None:
    openid.control(skew_seconds=seconds)
    try:
        assert signed_in(OpenIdProvider(options(openid.url)), "gil").name == "gil@example.com"
    finally:
        openid.control(skew_seconds=0)


@pytest.mark.parametrize("seconds", [90, -690])
def test_a_clock_that_differs_by_more_is_refused(openid: OpenIdServer, seconds: int) -> None:
    """Tokens of this provider are valid for ten minutes."""
    openid.control(skew_seconds=seconds)
    try:
        with pytest.raises(NotSignedInError):
            signed_in(OpenIdProvider(options(openid.url)), "hal")
    finally:
        openid.control(skew_seconds=0)


def test_a_wrong_client_secret_is_the_mistake_of_the_operator(
    openid: OpenIdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, begun = OpenIdProvider(options(openid.url)), PendingSignIn.begin("/")
    answer = at_provider(run(provider.authorization_url(begun, CALLBACK)), "ida")
    monkeypatch.setenv("OIDC_SECRET", "wrong")
    with pytest.raises(UnavailableError) as refused:
        run(provider.redeem(answer, begun, CALLBACK))
    monkeypatch.delenv("OIDC_SECRET")
    with pytest.raises(UnavailableError) as missing:
        run(provider.redeem(answer, begun, CALLBACK))

    said = "The provider refuses this dashboard (invalid_client). Check client_id and client secret of access.oidc."
    assert str(refused.value) == said
    assert "environment variable OIDC_SECRET" in str(missing.value)


def test_sign_out_at_the_provider_names_the_sign_in_and_the_way_back(openid: OpenIdServer) -> None:
    url = run(OpenIdProvider(options(openid.url)).sign_out_url("the token", f"{DASHBOARD}/auth/signed-out"))

    assert url.startswith(f"{openid.url}/session/end?")
    assert parse_qs(urlsplit(url).query) == {
        "id_token_hint": ["the token"],
        "client_id": [CLIENT],
        "post_logout_redirect_uri": [f"{DASHBOARD}/auth/signed-out"],
    }


def test_a_provider_that_is_down_is_a_sentence_and_signed_in_visitors_keep_their_groups() -> None:
    port = free_port()
    provider = OpenIdProvider(options(f"http://127.0.0.1:{port}"))
    known = Identity(f"http://127.0.0.1:{port}", "ann", "ann", frozenset({"sre"}), "refresh", "")
    for work in (
        lambda: provider.authorization_url(BEGUN, CALLBACK),
        lambda: provider.redeem(UNUSED, BEGUN, CALLBACK),
        lambda: provider.refresh(known),
        lambda: provider.sign_out_url("", DASHBOARD),
    ):
        with pytest.raises(UnavailableError, match=rf"^127\.0\.0\.1:{port} refused the connection\.$"):
            run(work())


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        (["a", "b"], {"a", "b"}),
        ("a", {"a"}),
        (["a", 7, None, "", "x" * 201, ["b"]], {"a"}),
        (None, set()),
        ({"a": 1}, set()),
        ([f"g{number}" for number in range(2_000)], {f"g{number}" for number in range(1_000)}),
    ],
)
def test_groups_are_the_names_of_a_claim(claim: object, groups: set[str]) -> None:
    assert groups_of(claim) == groups


@pytest.mark.parametrize("path", ["/", "/findings", "/findings?pool=chat&x=%2F%2Fevil", "/a/b#c", "/.//evil.com"])
def test_a_page_of_this_server_is_where_a_sign_in_ends(path: str) -> None:
    assert safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "findings",
            "//evil.com",
            "///evil.com",
            "/\\evil.com",
            "\\\\evil.com",
            "https://evil.com",
            "/\t/evil.com",
        ),
        *(
            "javascript:alert(1)",
            "/a\r\nSet-Cookie: x=1",
            "/é",
            " /a",
            "/a b",
            "/" + "a" * 2_000,
            "/auth/logout",
            "/\0",
        ),
    ],
)
def test_any_other_text_ends_at_the_first_page(path: str) -> None:
    assert safe_path(path) == "/"


@given(st.text(max_size=30) | st.text("/\\.:@%?#htp\t\n", max_size=12))
def test_no_text_leads_to_another_server(text: str) -> None:
    url = httpx2.URL("http://fleet.example.com/").join(safe_path(text))

    assert (url.scheme, url.host, url.userinfo) == ("http", "fleet.example.com", b"")
