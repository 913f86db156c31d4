"""Mode proxy: who a request is from, by the headers of an authenticating proxy; and its client behind proxies.

A peer is the address of the connection, None on a unix socket. Headers count only from a trusted peer, and only once:
a proxy that adds a header instead of replacing it passes on what the visitor sent.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

from dashboard.access.visitor import Means, NotSignedInError, Visitor
from dashboard.config.access import UNIX, AccessOptions

FORWARDED_FOR, FORWARDED_PROTO = "x-forwarded-for", "x-forwarded-proto"
HTTPS = frozenset({"https", "wss"})
LONGEST_NAME = 200  # characters of a user
MOST_HOPS = 50  # of X-Forwarded-For, from the right
KNOWN_PEERS = 4096  # of 100 bytes


def peer_of(scope: Scope) -> str | None:
    """Return the address of the connection; None on a unix socket, empty where it is unknown.

    Of a TCP connection that is closed already the server knows no address: only its own socket shows that it is unix.
    """
    place, port = scope.get("server") or ("", 0)
    if port is None and place.startswith("/"):
        return None
    return scope["client"][0] if scope.get("client") else ""


@lru_cache(KNOWN_PEERS)
def is_trusted(peer: str | None, trusted: tuple[str, ...]) -> bool:
    """Return whether the headers of a peer count; `trusted` are `trusted_proxies`."""
    if peer is None:
        return UNIX in trusted
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:  # of a socket for both versions
        address = address.ipv4_mapped
    return any(address in ip_network(each) for each in trusted if each != UNIX)


def client_of(peer: str | None, headers: Headers, access: AccessOptions) -> str:
    """Return the address of the client: the last one in X-Forwarded-For that is no trusted proxy, else the peer."""
    client = UNIX if peer is None else peer
    if not is_trusted(peer, access.trusted_proxies):
        return client
    hops = ",".join(headers.getlist(FORWARDED_FOR)).rsplit(",", MOST_HOPS)[-MOST_HOPS:]
    for hop in reversed(hops):
        address = _address(hop)
        if not address:
            break
        client = address
        if not is_trusted(client, access.trusted_proxies):
            break
    return client


def _address(hop: str) -> str:
    """Return the address of a hop, which may have a port; empty where it is none."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return "" if "%" in text else str(ip_address(text))  # a zone is any text
    except ValueError:
        return ""


def is_https(scope: Scope, access: AccessOptions) -> bool:
    """Return whether the browser speaks https, with this server or with a trusted proxy."""
    if scope.get("scheme") in HTTPS:
        return True
    said = Headers(scope=scope).getlist(FORWARDED_PROTO)
    return said == ["https"] and is_trusted(peer_of(scope), access.trusted_proxies)


def without_underscores(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers without those whose name some servers read as another: X_Forwarded_User."""
    return [each for each in headers if b"_" not in each[0]]


async def visitor_of(peer: str | None, headers: Headers, access: AccessOptions) -> Visitor:
    """Return who the proxy says that a request is from; raise NotSignedInError."""
    if not is_trusted(peer, access.trusted_proxies):
        where = UNIX if peer is None else peer or "The peer"
        raise NotSignedInError(f"{where} is not in access.trusted_proxies. Use the address of the proxy.")
    if access.proxy.jwt is None:
        name = _needed(headers, access.proxy.user_header)
        groups = _text(headers, access.proxy.groups_header).split(",")
    else:
        try:
            from dashboard.access import jwt  # noqa: PLC0415  an extra
        except ImportError:
            raise NotSignedInError("access.proxy.jwt needs joserfc: pip install -r requirements-auth.txt.") from None
        name, groups = await jwt.verified(_needed(headers, access.proxy.jwt.header), access.proxy.jwt)
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise NotSignedInError(f"The name of the user is empty, unprintable or longer than {LONGEST_NAME} characters.")
    own = frozenset(each.strip() for each in groups if each.strip())
    return Visitor(name.strip(), Means.PROXY, own, client=client_of(peer, headers, access))


def _needed(headers: Headers, header: str) -> str:
    text = _text(headers, header)
    if not text:
        raise NotSignedInError(f"The proxy sent no header {header}. Sign in at the proxy.")
    return text


def _text(headers: Headers, header: str) -> str:
    """Return the value of a header, empty without it; raise NotSignedInError where it is doubled or unreadable."""
    values = headers.getlist(header)
    if len(values) > 1:
        raise NotSignedInError(f"Header {header} was sent twice. The proxy must replace it, not add to it.")
    try:
        return "".join(values).encode("latin-1").decode().strip()
    except UnicodeDecodeError:
        raise NotSignedInError(f"Header {header} is not UTF-8.") from None
