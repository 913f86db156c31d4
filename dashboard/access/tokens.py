"""Bearer tokens of programs."""

import hmac
import re
from collections.abc import Sequence
from datetime import date
from hashlib import sha256

from dashboard.access.visitor import Means, Visitor
from dashboard.config.access import TokenOptions

SCHEME = "bearer"
IN_URL = frozenset({b"token", b"access_token"})  # of a query: RFC 6750, 2.3
OUR_TOKEN = re.compile(rb"fleet_[\w-]{40,}")


def bearer(authorizations: Sequence[str]) -> str | None:
    """Return the token of Authorization headers; empty for a malformed or doubled one, None without one.

    Proxies pass signed tokens (JWT) of their own, which have dots: these are none of ours.
    """
    found = [each.partition(" ")[2].strip() for each in authorizations if each.lower().partition(" ")[0] == SCHEME]
    if len(found) == 1 and "." in found[0]:
        return None
    return None if not found else found[0] if len(found) == 1 else ""


def is_in_url(query: bytes) -> bool:
    """Return whether a query has a token: addresses are in logs, histories and bookmarks."""
    names = {part.partition(b"=")[0].lower() for part in query.split(b"&")}
    return not names.isdisjoint(IN_URL) or OUR_TOKEN.search(query) is not None


def find_token(text: str, tokens: Sequence[TokenOptions], today: date) -> TokenOptions | None:
    """Return the token that a text is, a valid one before others; the time of a comparison does not depend on it."""
    digest = sha256(text.encode(errors="replace")).hexdigest()
    equal = [each for each in tokens if hmac.compare_digest(each.sha256, digest)]
    return max(equal, key=lambda each: is_valid(each, today), default=None)


def is_valid(token: TokenOptions, today: date) -> bool:
    """Return whether a token has not expired; it is valid on its last day (UTC)."""
    return token.expires is None or today <= token.expires


def token_visitor(token: TokenOptions, client: str) -> Visitor:
    """Return the visitor whom a token stands for."""
    return Visitor(token.name, Means.BEARER, fixed=token.role, client=client)
