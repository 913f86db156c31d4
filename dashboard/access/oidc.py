"""Mode oidc: the OpenID provider, asked for who signs in and for the groups of those who are signed in.

The authorization code flow with PKCE (S256), state and nonce. Only the sentences of errors are shown: no text of the
provider, no token, no secret.
"""

import asyncio
import logging
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus, urlencode

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from dashboard.access.jwt import LEEWAY_SECONDS, PublishedKeys, claims_of
from dashboard.access.visitor import Identity, NotSignedInError, PendingSignIn, UnavailableError
from dashboard.config.access import OidcOptions
from dashboard.config.address import service_url
from dashboard.errors import UnreadableError
from dashboard.sources.http import credentials
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey
from dashboard.sources.http.failures import OK, endpoint_of
from dashboard.vllm.reading import parse_json

log = logging.getLogger(__name__)

DISCOVERY = "/.well-known/openid-configuration"
ASK_SECONDS = 10.0
REREAD_SECONDS = 5.0  # between two reads of the discovery document
MAX_BYTES, MAX_NODES, MAX_HEADERS = 256 * 2**10, 20_000, 128  # of an answer; large ones have 20 KB
FIRST_SERVER_ERROR = 500
LONGEST_NAME, LONGEST_GROUP, MOST_GROUPS = 200, 200, 1_000
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
USERINFO, END_SESSION = "userinfo_endpoint", "end_session_endpoint"
_CODE = re.compile(r"[a-z_]{1,40}")  # of an error, in RFC 6749


class OpenIdProvider:
    """The provider that `access.oidc` names. It is asked for its discovery document at the first sign-in."""

    def __init__(self, options: OidcOptions) -> None:
        self.options = options
        self._metadata: Mapping[str, Any] = {}
        self._read_at = float("-inf")
        self._failure = ""  # of the last read
        self._reading = asyncio.Lock()
        self._keys: PublishedKeys | None = None

    async def authorization_url(self, begun: PendingSignIn, callback: str, *, again: bool = False) -> str:
        """Return where to send the browser; `again`: somebody else wants to sign in. Raise UnavailableError."""
        metadata = await self._discover(again=True)  # else the browser is sent to a provider that does not answer
        found: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            client_id=self.options.client_id,
            response_type="code",
            redirect_uri=callback,
            scope=self._scopes(metadata),
            state=begun.state,
            nonce=begun.nonce,
            code_challenge=create_s256_code_challenge(begun.verifier),
            code_challenge_method="S256",
            **({"prompt": "login"} if again else {}),
        )
        return found

    async def redeem(self, answer: Mapping[str, str], begun: PendingSignIn, callback: str) -> Identity:
        """Return who signed in, by the parameters of the callback; its state is that of the sign-in.

        Raise NotSignedInError, or UnavailableError.
        """
        metadata = await self._discover()
        is_named = bool(metadata.get("authorization_response_iss_parameter_supported"))
        if answer.get("iss", None if is_named else metadata["issuer"]) != metadata["issuer"]:  # RFC 9207
            raise NotSignedInError("The answer is not from the configured provider. Sign in again.")
        if "error" in answer or not answer.get("code"):
            raise NotSignedInError(f"The provider ended the sign-in{_reason(answer)}. Sign in again.")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": callback,
            "code_verifier": begun.verifier,
        }
        tokens = await self._tokens(form)
        if not _text(tokens, "id_token"):
            raise UnavailableError("The provider sent no ID token. access.oidc.scopes needs openid.")
        claims = await self._claims(tokens, nonce=begun.nonce)
        groups = groups_of(claims.get(self.options.groups_claim))
        kept = _text(tokens, "refresh_token"), _text(tokens, "id_token")
        return Identity(self.options.issuer, claims["sub"], self._name(claims), groups, *kept)

    async def refresh(self, known: Identity) -> Identity:
        """Return who signed in, with the groups of today.

        Raise NotSignedInError where the provider has ended the sign-in, UnavailableError where it does not answer.
        """
        if known.issuer != self.options.issuer:
            raise NotSignedInError("Another provider is configured now. Sign in again.")
        tokens = await self._tokens({"grant_type": "refresh_token", "refresh_token": known.refresh_token})
        known = replace(
            known,
            refresh_token=_text(tokens, "refresh_token") or known.refresh_token,
            id_token=_text(tokens, "id_token") or known.id_token,
        )
        try:
            claims = await self._claims(tokens, subject=known.subject)
        except (UnavailableError, NotSignedInError) as error:  # the old token is used up: the new one must be kept
            log.warning("groups are not refreshed: %s", error)
            return known
        return replace(known, groups=groups_of(claims.get(self.options.groups_claim)))

    async def sign_out_url(self, id_token: str, back: str) -> str:
        """Return where the browser signs out at the provider, which sends it back; empty where that is not offered.

        Raise UnavailableError.
        """
        endpoint = (await self._discover(again=True)).get(END_SESSION)  # as above
        if not endpoint:
            return ""
        hint = {"id_token_hint": id_token} if id_token else {}
        asked = {**hint, "client_id": self.options.client_id, "post_logout_redirect_uri": back}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    def _scopes(self, metadata: Mapping[str, Any]) -> str:
        """Return the scopes; of the default ones those that the provider lists, because some refuse others."""
        wanted, listed = self.options.scopes, metadata.get("scopes_supported")
        if "scopes" not in self.options.model_fields_set and isinstance(listed, list):
            wanted = tuple(each for each in wanted if each == "openid" or each in listed)
        return " ".join(wanted)

    async def _discover(self, *, again: bool = False) -> Mapping[str, Any]:
        """Return the discovery document, read once, or `again` after some seconds. Raise UnavailableError."""
        if self._metadata and not again:
            return self._metadata
        async with self._reading:  # visitors without a session ask for it: one read serves all
            if time.monotonic() - self._read_at >= REREAD_SECONDS:
                try:
                    await self._read()
                    self._failure = ""
                except UnavailableError as error:
                    self._failure = str(error)
                self._read_at = time.monotonic()
        if self._failure:
            raise UnavailableError(self._failure)
        return self._metadata

    async def _read(self) -> None:
        status, document = await self._ask(f"{self.options.issuer.rstrip('/')}{DISCOVERY}")
        if status != OK:
            raise UnavailableError(f"{self._where} has no OpenID configuration (status {status}).")
        self._check(document)
        if self._keys is None or self._keys.url != document["jwks_uri"]:
            self._keys = PublishedKeys(document["jwks_uri"], ca_file=self.options.ca_file)
        self._metadata = document

    @property
    def _where(self) -> str:
        return endpoint_of(self.options.issuer).where

    def _check(self, document: Mapping[str, Any]) -> None:
        """Raise UnavailableError unless a discovery document is of this issuer, with endpoints that can be asked."""
        try:
            is_own = service_url(str(document.get("issuer"))).rstrip("/") == self.options.issuer.rstrip("/")
        except ValueError:
            is_own = False
        if not is_own:
            raise UnavailableError(f"{self._where} is another issuer than access.oidc.issuer. Correct the option.")
        scheme = self.options.issuer.partition("://")[0]
        for name in (*ENDPOINTS, USERINFO, END_SESSION):
            if name not in ENDPOINTS and name not in document:
                continue
            try:
                url = service_url(str(document.get(name)))
            except ValueError:
                url = ""
            if not url or (scheme == "https" and not url.startswith("https://")):
                raise UnavailableError(f"{self._where} publishes no usable {name}.")

    async def _ask(
        self, url: str, *, key: ApiKey | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of an answer, also of a refusal; with `form` it is a POST.

        Raise UnavailableError where there is no such answer.
        """
        endpoint = endpoint_of(url)
        async with Client(connections=1, max_answer_bytes=MAX_BYTES, max_headers=MAX_HEADERS) as client:
            answer = await client.fetch(
                endpoint,
                ASK_SECONDS,
                limit=MAX_BYTES,
                key=key,
                ca_file=self.options.ca_file,
                is_named=True,
                form=urlencode(form).encode() if form is not None else None,
            )
        if answer.status is None or answer.status >= FIRST_SERVER_ERROR:
            raise UnavailableError(answer.failure.detail if answer.failure else f"{endpoint.where} did not answer.")
        try:
            document = parse_json(answer.body, MAX_NODES)
        except UnreadableError as error:
            cause = answer.failure.detail if answer.failure else f"{endpoint.where} {error.detail}."
            raise UnavailableError(cause) from None
        if not isinstance(document, dict):
            raise UnavailableError(f"{endpoint.where} answered {endpoint.path} with JSON that is no object.")
        return answer.status, document

    async def _tokens(self, form: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the answer of the token endpoint; raise NotSignedInError for a refused grant, UnavailableError."""
        metadata = await self._discover()
        key, own = self._credentials(metadata)
        status, document = await self._ask(metadata["token_endpoint"], key=key, form={**form, **own})
        if status == OK:
            return document
        if document.get("error") == "invalid_grant":
            raise NotSignedInError("The sign-in expired, ended or was used before. Sign in again.")
        said = f"The provider refuses this dashboard{_reason(document)}"
        raise UnavailableError(f"{said}. Check client_id and client secret of access.oidc.")

    def _credentials(self, metadata: Mapping[str, Any]) -> tuple[ApiKey | None, Mapping[str, str]]:
        """Return how this client authenticates: by HTTP's Basic scheme, or by fields of the form."""
        options = self.options
        if options.secret is None:
            return None, {"client_id": options.client_id}
        found = credentials.find(options.secret)
        if found.token is None:
            raise UnavailableError(f"No client secret: {found.missing}.")
        methods = metadata.get("token_endpoint_auth_methods_supported")
        if isinstance(methods, list) and "client_secret_post" in methods and "client_secret_basic" not in methods:
            return None, {"client_id": options.client_id, "client_secret": found.token}
        pair = f"{quote_plus(options.client_id)}:{quote_plus(found.token)}"  # RFC 6749, 2.3.1
        return ApiKey(b64encode(pair.encode()).decode(), scheme="Basic"), {}

    async def _claims(self, tokens: Mapping[str, Any], *, nonce: str = "", subject: str = "") -> Mapping[str, Any]:
        """Return what tokens say: the ID token, and userinfo where that lacks the name or the groups.

        `nonce` is that of a sign-in, `subject` that of who is signed in. Raise NotSignedInError, UnavailableError.
        """
        claims: Mapping[str, Any] = {}
        if id_token := _text(tokens, "id_token"):
            claims = await self._checked(id_token, nonce)
            subject = subject or claims["sub"]
        endpoint = self._metadata.get(USERINFO)
        if not {self.options.name_claim, self.options.groups_claim} <= claims.keys() and endpoint:
            status, found = await self._ask(endpoint, key=credentials.check_key(_text(tokens, "access_token"), ""))
            if status != OK:
                raise UnavailableError(f"{endpoint_of(endpoint).where} answered userinfo with status {status}.")
            if found.get("sub") != subject:
                raise NotSignedInError("The provider answers about somebody else. Sign in again.")
            claims = {**found, **claims}
        if not claims:  # at a refresh
            raise UnavailableError("The provider sends neither ID token nor userinfo at a refresh.")
        if claims.get("sub") != subject:
            raise NotSignedInError("The provider answers about somebody else. Sign in again.")
        return claims

    async def _checked(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims of a valid ID token; raise NotSignedInError."""
        assert self._keys is not None  # noqa: S101  read with the discovery document
        client = self.options.client_id
        claims = await claims_of(id_token, self._keys, self._metadata["issuer"], client)
        try:
            CodeIDToken(claims, {}, params={"nonce": nonce, "client_id": client}).validate(leeway=LEEWAY_SECONDS)
        except JoseError as error:
            log.warning("ID token refused: %s", type(error).__name__)
            raise NotSignedInError("The ID token has a missing or wrong claim. Sign in again.") from None
        return claims

    def _name(self, claims: Mapping[str, Any]) -> str:
        """Return the name of a visitor; raise UnavailableError without one, NotSignedInError for an unverified one."""
        claim = self.options.name_claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name.strip().isprintable() or not 0 < len(name.strip()) <= LONGEST_NAME:
            raise UnavailableError(f"The provider sends no {claim}. Set access.oidc.name_claim or scopes.")
        if claim == "email" and claims.get("email_verified") is False:
            raise NotSignedInError("The provider has not verified your email address.")
        return name.strip()


def groups_of(claim: object) -> frozenset[str]:
    """Return the groups of a claim: a list of names, or one name. Those that no role can name are left out."""
    names = claim if isinstance(claim, list) else [claim]
    usable = [each for each in names if isinstance(each, str) and 0 < len(each) <= LONGEST_GROUP]
    return frozenset(usable[:MOST_GROUPS])


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _reason(document: Mapping[str, Any]) -> str:
    """Return the error code of an answer in parentheses; empty without a plain one."""
    code = document.get("error")
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
