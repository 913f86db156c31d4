"""The option `access`: how visitors sign in, which role they have, and the tokens of programs."""

import re
from datetime import date
from enum import IntEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dashboard.config import sources
from dashboard.config.address import page_url, service_url
from dashboard.config.document import read_file
from dashboard.config.rules import Name, Part, read_entries
from dashboard.fleet import Credentials

EVERYBODY = "*"  # in `roles`: everybody who signed in
UNIX = "unix"  # in `trusted_proxies`: who connects to the socket of the dashboard
HOUR_SECONDS = 3600.0
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")  # without _: servers read X_User as X-User
_SHA256 = re.compile(r"[0-9a-f]{64}")


class AccessRole(IntEnum):
    """What somebody may do; a higher role includes those below."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


def _role(value: object) -> object:
    """Return the role of a name; raise ValueError for another text."""
    if not isinstance(value, str):
        return value
    try:
        return AccessRole[value.upper()]
    except KeyError:
        raise ValueError(f"not a role; write {', '.join(each.word for each in AccessRole)}") from None


def _header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise ValueError("not the name of a header; write letters, digits and -")
    return name.lower()


def _peer(text: str) -> str:
    """Return the network of trusted proxies in CIDR form, or `unix`."""
    if text == UNIX:
        return text
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(f"not a network; write one such as 10.0.0.0/8, an address, or {UNIX}") from None


def _digest(text: str) -> str:
    if not _SHA256.fullmatch(text.lower()):
        raise ValueError("not a SHA-256; python -m dashboard token new prints the line to add")
    return text.lower()


RoleName = Annotated[AccessRole, BeforeValidator(_role, json_schema_input_type=Literal["viewer", "editor", "admin"])]
Header = Annotated[str, AfterValidator(_header)]
Peer = Annotated[str, AfterValidator(_peer)]
Digest = Annotated[str, AfterValidator(_digest)]
Claim = Annotated[str, Field(min_length=1, max_length=100)]
Group = Annotated[str, Field(min_length=1, max_length=200)]
WebUrl = Annotated[str, AfterValidator(service_url)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class TokenOptions(Part):
    """A token of a program: its SHA-256, never the token."""

    name: Name
    role: RoleName
    sha256: Digest
    expires: date | None = None


class TokensFile(Part):
    """The content of `tokens_file`."""

    tokens: tuple[TokenOptions, ...] = ()


def load_tokens(file: Path) -> tuple[TokenOptions, ...]:
    """Return the tokens of a file; raise OptionsError where it is missing, unreadable or wrong."""
    raw = read_file(file, "name a file under access.tokens_file")
    return read_entries(raw, file, TokensFile, "tokens").tokens


class JwtOptions(Part):
    """The signed header of a proxy, such as that of Google IAP, Cloudflare Access or Pomerium."""

    header: Header
    jwks_url: WebUrl
    issuer: str
    audience: str
    user_claim: Claim = "email"
    groups_claim: Claim = "groups"
    ca_file: sources.PathFromFile | None = None


class ProxyOptions(Part):
    """The headers of an authenticating proxy; the defaults are those of oauth2-proxy."""

    user_header: Header = "x-forwarded-user"
    groups_header: Header = "x-forwarded-groups"
    sign_out_url: Annotated[str, Field(pattern=r"^(https?:/)?/[!-.0-\[\]-~][!-~]*$")] | None = None
    jwt: JwtOptions | None = None


class OidcOptions(Part):
    """The OpenID provider, and this dashboard as its client."""

    issuer: WebUrl
    client_id: Annotated[str, Field(min_length=1, max_length=200)]
    client_secret_env: Variable | None = None
    client_secret_file: sources.PathFromFile | None = None
    scopes: tuple[str, ...] = ("openid", "profile", "email", "groups")
    name_claim: Claim = "email"
    groups_claim: Claim = "groups"
    refresh_seconds: Annotated[float, Field(ge=30, le=sources.DAY_SECONDS)] = 900
    url: Annotated[str, AfterValidator(page_url)] | None = None  # of this dashboard, behind a proxy that hides it
    ca_file: sources.PathFromFile | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.client_secret_env and self.client_secret_file:
            raise ValueError("client_secret_env and client_secret_file are both set; keep one")
        if self.url and "/" in self.url.partition("://")[2]:
            raise ValueError("url has a path; the dashboard needs a host name of its own: write https://host")
        return self

    @property
    def secret(self) -> Credentials | None:
        """Return the place of the client secret; None for a public client."""
        has_place = self.client_secret_env is not None or self.client_secret_file is not None
        return Credentials(self.client_secret_env, self.client_secret_file) if has_place else None


class SessionOptions(Part):
    """How long a sign-in lasts, and the keys that sign its cookie."""

    idle_seconds: Annotated[float, Field(ge=60, le=30 * sources.DAY_SECONDS)] = 8 * HOUR_SECONDS
    absolute_seconds: Annotated[float, Field(ge=60, le=90 * sources.DAY_SECONDS)] = sources.DAY_SECONDS
    key_file: sources.PathFromFile | None = None
    key_env: Variable | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key_file and self.key_env:
            raise ValueError("key_file and key_env are both set; keep one")
        if self.idle_seconds > self.absolute_seconds:
            raise ValueError("idle_seconds is longer than absolute_seconds; raise absolute_seconds")
        return self


class AccessOptions(Part):
    """Who may use the dashboard, and how."""

    mode: Literal["none", "proxy", "oidc"] = "none"
    allow_anonymous: RoleName | None = None  # with mode none, on another address than loopback
    trusted_proxies: tuple[Peer, ...] = ()
    proxy: ProxyOptions = Field(default_factory=ProxyOptions)
    oidc: OidcOptions | None = None
    session: SessionOptions = Field(default_factory=SessionOptions)
    roles: dict[RoleName, tuple[Group, ...]] = Field(default_factory=dict)
    tokens: tuple[TokenOptions, ...] = ()
    tokens_file: sources.PathFromFile | None = None

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.mode == "proxy" and not self.trusted_proxies:
            raise ValueError(f"mode proxy needs trusted_proxies: the networks of the proxy, or {UNIX}")
        if self.mode == "oidc" and self.oidc is None:
            raise ValueError("mode oidc needs oidc: with issuer and client_id")
        if self.mode != "none" and self.allow_anonymous is not None:
            raise ValueError("allow_anonymous is for mode none; name everybody as roles: {viewer: ['*']}")
        if self.mode != "none" and not self.roles:
            raise ValueError("no roles: nobody could get in; set roles such as {admin: [sre], viewer: ['*']}")
        return self

    def role_of(self, groups: frozenset[str]) -> AccessRole | None:
        """Return the highest role of somebody who signed in; None: nobody gets in without a role."""
        found = (role for role, named in self.roles.items() if EVERYBODY in named or not groups.isdisjoint(named))
        return max(found, default=None)
