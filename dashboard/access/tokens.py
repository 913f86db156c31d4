"""Bearer tokens of programs."""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256

from starlette.types import Scope

from dashboard import service
from dashboard.access.visitor import Means, NotSignedInError, Visitor
from dashboard.config.access import TokenOptions

SCHEME = "bearer"
IN_URL = frozenset({"token", "access_token"})  # of a query: RFC 6750, 2.3
OUR_TOKEN = re.compile(r"fleet_[\w-]{40,}")


def bearer(authorizations: Sequence[str]) -> str | None:
    """Return the token of Authorization headers; empty for a malformed or doubled one, None without one.

    Proxies pass signed tokens (JWT) of their own, which have dots: these are none of ours.
    """
    found = [each.partition(" ")[2].strip() for each in authorizations if each.lower().partition(" ")[0] == SCHEME]
    if len(found) == 1 and "." in found[0]:
        return None
    return None if not found else found[0] if len(found) == 1 else ""


def is_in_url(scope: Scope) -> bool:
    """Return whether the URL of a request has a token: addresses are in logs, histories and bookmarks."""
    query = scope.get("query_string", b"").decode("latin-1")
    names = {part.partition("=")[0].lower() for part in query.split("&")}
    return not names.isdisjoint(IN_URL) or OUR_TOKEN.search(f"{scope['path']}?{query}") is not None


def find_token(text: str, tokens: Sequence[TokenOptions]) -> TokenOptions:
    """Return the valid token that a text is; the time of a comparison does not depend on it. Raise NotSignedInError."""
    digest = sha256(text.encode(errors="replace")).hexdigest()
    equal = [each for each in tokens if hmac.compare_digest(each.sha256, digest)]
    if not equal:
        raise NotSignedInError("the token is unknown.")
    if valid := [each for each in equal if is_valid(each)]:
        return valid[0]
    old = equal[0]
    who = Visitor(old.name, Means.BEARER, fixed=old.role)
    raise NotSignedInError(f"token {old.name} expired on {old.expires}.", who)


def is_valid(token: TokenOptions) -> bool:
    """Return whether a token has not expired; it is valid on its last day (UTC)."""
    return token.expires is None or service.utc_now().date() <= token.expires
