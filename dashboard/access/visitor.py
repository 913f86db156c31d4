"""Who a request is from, and what a role may do."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_urlsafe
from typing import NamedTuple

from dashboard.config.access import AccessOptions, AccessRole
from dashboard.errors import DashboardError
from dashboard.fleet.formatting import one_line
from dashboard.store.packing import LONGEST_AUTHOR

VISITOR_HEADER = "X-Fleet-Visitor"  # from the gate to pages and routes; what a client sends under this name is dropped


UNKNOWN = "unknown"  # name where nobody is known: without a role, though everybody may have one
LONGEST_PATH = 2_000  # of a page to go back to; longer ones are the first page
SECRET_BYTES = 32
_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")  # of this server: no //host, no \, no control characters


class Means(StrEnum):
    """How somebody was recognized."""

    NOBODY = "anonymous"
    PROXY = "proxy"
    OIDC = "oidc"
    BEARER = "token"


# The lowest role for each action of a visitor, by its name in the audit log. An action that is not here is refused.
ACTIONS: Mapping[str, AccessRole] = {
    "export": AccessRole.VIEWER,
    "save": AccessRole.EDITOR,
    "note": AccessRole.EDITOR,
    "rename": AccessRole.EDITOR,
    "accept": AccessRole.EDITOR,
    "undo": AccessRole.EDITOR,
    "rename_of_another": AccessRole.ADMIN,
    "undo_of_another": AccessRole.ADMIN,
    "delete": AccessRole.ADMIN,
    "import": AccessRole.ADMIN,
    "revoke": AccessRole.ADMIN,
}


class NotSignedInError(DashboardError):
    """Nobody is recognized; the sentence has cause and action, and may be shown to anybody.

    `who` is the owner of a token that has expired.
    """

    def __init__(self, sentence: str, who: "Visitor | None" = None) -> None:
        super().__init__(sentence)
        self.who = who


class UnavailableError(DashboardError):
    """The OpenID provider cannot be asked, or refuses this dashboard; the sentence has cause and action."""


class ForbiddenError(DashboardError):
    """A role does not include an action, or somebody has none."""


@dataclass(frozen=True)
class Visitor:
    """Somebody whom the gate let in. `session` is the id of the sign-in; empty without one.

    `fixed` is the role of a token, or of everybody in mode none; else the groups decide.
    """

    name: str
    means: Means
    groups: frozenset[str] = frozenset()
    session: str = ""
    fixed: AccessRole | None = None
    client: str = ""  # address; behind trusted proxies the forwarded one

    @property
    def author(self) -> str:
        """Return the name on what the visitor saves; that of a token is no person's. Empty without a sign-in."""
        name = f"{self.name} (token)" if self.means is Means.BEARER else self.name
        return "" if self.means is Means.NOBODY else one_line(name)[:LONGEST_AUTHOR]

    def role(self, access: AccessOptions) -> AccessRole | None:
        """Return the role by today's options; None: nobody gets in without one."""
        if self.fixed is not None or self.means in {Means.NOBODY, Means.BEARER}:
            return self.fixed
        return access.role_of(self.groups)

    def to_header(self) -> str:
        """Return the value of VISITOR_HEADER, in ASCII."""
        fixed = self.fixed.word if self.fixed is not None else None
        return json.dumps({**vars(self), "groups": sorted(self.groups), "fixed": fixed})

    @classmethod
    def from_header(cls, text: str) -> "Visitor":
        """Return the visitor of a value that `to_header` wrote."""
        found = json.loads(text)
        fixed = AccessRole[found["fixed"].upper()] if found["fixed"] else None
        return cls(**{**found, "means": Means(found["means"]), "groups": frozenset(found["groups"]), "fixed": fixed})


class PendingSignIn(NamedTuple):
    """A sign-in that has begun; only the browser that began it can end it."""

    state: str
    nonce: str
    verifier: str  # of PKCE
    next: str  # path of the page to go back to

    @classmethod
    def begin(cls, path: str) -> "PendingSignIn":
        state, nonce, verifier = (token_urlsafe(SECRET_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, safe_path(path))


@dataclass(frozen=True)
class Identity:
    """Who signed in, and the tokens that the provider gave; the refresh token is empty where it gives none."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]
    refresh_token: str = field(repr=False)
    id_token: str = field(repr=False)


# A request whose connection is gone: no role.
UNKNOWN_VISITOR = Visitor(UNKNOWN, Means.NOBODY)


def safe_path(text: str) -> str:
    """Return the path and query of a page of this server; `/` for anything else, such as the URL of another."""
    return text if len(text) <= LONGEST_PATH and _PATH.fullmatch(text) and not text.startswith("/auth/") else "/"


def no_role(name: str) -> str:
    """Return why somebody who signed in does not get in."""
    return f"No role for {name}. Ask an administrator."


def missing_role(action: str, role: AccessRole | None) -> str:
    """Return which role an action needs, where a role does not include it; else empty."""
    needed = ACTIONS.get(action)
    if needed is not None and role is not None and role >= needed:
        return ""
    return f"Needs role {(needed or AccessRole.ADMIN).word}; yours is {role.word if role else 'none'}."
