"""The one spelling of a replica's address: its id."""

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from dashboard.fleet.formatting import one_line

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_ADDRESS_CHARACTERS = 2048  # what browsers and proxies commonly accept as a URL
_SHOWN_CHARACTERS = 100
ENDPOINTS = ("/metrics", "/v1", "/v1/models")  # of a vLLM, which a prefix never ends with

_URL = re.compile(r"(?:(?P<scheme>[^:/?#@]+)://)?(?P<authority>[^/?#]*)(?P<path>/[!-~]*)?")
_AUTHORITY = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<host>(?!https?:$)[^\[\]:]+))(?::(?P<port>[0-9]{0,5}))?")
_HOST = re.compile(r"[a-z0-9_.-]*[a-z0-9_-][a-z0-9_.-]*")


def replica_id(text: str) -> str:
    """Return `scheme://host:port` plus the path prefix: two spellings of one address give one id.

    Scheme and host are lower case, `http` without a scheme, the port always written, no trailing slash, IPv6 in
    brackets. A path keeps its case. Raise ValueError for another text, with a sentence without
    password and query.
    """
    url = _split(text.strip())
    scheme = (url["scheme"] or "http").lower()
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"{shown(text)!r} has a scheme other than http and https; write http://host:port")
    authority = _AUTHORITY.fullmatch(url["authority"].lower())
    if authority is None:
        if url["authority"].count(":") > 1 and "[" not in url["authority"]:
            raise ValueError(
                f"{shown(text)!r} has several colons; write an IPv6 address in brackets: http://[::1]:8000"
            )
        is_without_host = not url["authority"] or url["authority"].startswith(":")
        what = "has no host" if is_without_host else "is no address"
        raise ValueError(f"{shown(text)!r} {what}; write http://host:port")
    if (url["path"] or "").startswith("//"):
        raise ValueError(f"{shown(text)!r} is no address; write http://host:port")
    path = (url["path"] or "").rstrip("/")
    if path.endswith(ENDPOINTS):
        raise ValueError(f"{shown(text)!r} has the path of an endpoint; leave it out: write http://host:port")
    host = _ipv6(text, authority["ipv6"]) if authority["ipv6"] else _host(text, authority["host"])
    port = int(authority["port"] or DEFAULT_PORTS[scheme])
    if not 0 < port < 2**16:
        raise ValueError(f"{shown(text)!r} has a port outside 1 to 65535; write http://host:port")
    return f"{scheme}://{host}:{port}{path}"


def host_port(host: str, port: int | str) -> str:
    """Return `host:port` as a URL has it, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def service_url(text: str) -> str:
    """Return the URL of a service: `scheme://host:port`, its path, and its query, which may hold a secret.

    Raise ValueError for another text, with a sentence without its query.
    """
    base, mark, query = text.strip().partition("?")
    scheme, _, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    if not re.fullmatch(r"[!-~]*", path + query) or "#" in path + query:
        raise ValueError(f"{shown(text)!r} has a fragment or invalid characters; write spaces as %20")
    return f"{replica_id(f'{scheme}://{authority}')}{slash}{path}{mark}{query}"


def page_url(text: str) -> str:
    """Return a URL for browsers: without a final slash, and without the default port. Raise ValueError as above."""
    url = replica_id(text)
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.removesuffix(f':{DEFAULT_PORTS[scheme]}')}{slash}{path}"


def shown(text: str) -> str:
    """Return an address as it may be shown when it is no id: without credentials, query, control characters, length."""
    before_query = re.split(r"[?#]", text.strip(), maxsplit=1)
    hidden = before_query[0].rpartition("@")
    visible = one_line(f"***@{hidden[2]}" if hidden[1] else hidden[2])
    cut = len(visible) > _SHOWN_CHARACTERS or len(before_query) > 1
    return visible[:_SHOWN_CHARACTERS] + ("…" if cut else "")


def _split(text: str) -> re.Match[str]:
    if not text:
        raise ValueError("the address is empty; write http://host:port")
    if len(text) > MAX_ADDRESS_CHARACTERS:
        raise ValueError(f"{shown(text)!r} is longer than {MAX_ADDRESS_CHARACTERS} characters; shorten it")
    if "@" in text:
        raise ValueError(
            f"{shown(text)!r} contains credentials; use token_env or token_file, and write http://host:port"
        )
    if "?" in text or "#" in text:
        raise ValueError(f"{shown(text)!r} has a query or a fragment; write http://host:port")
    url = _URL.fullmatch(text)
    if url is None:
        raise ValueError(
            f"{shown(text)!r} has a path with spaces or other invalid characters; write them as %20 and so on"
        )
    return url


def _ipv6(text: str, address: str) -> str:
    try:
        return f"[{IPv6Address(address).compressed}]"
    except ValueError:
        raise ValueError(f"{shown(text)!r} has brackets without an IPv6 address; write one as [::1]") from None


def _host(text: str, name: str) -> str:
    """Return the name as DNS knows it: punycode for letters beyond ASCII."""
    try:
        host = name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host):
        raise ValueError(f"{shown(text)!r} has no host; write http://host:port")
    return host


_ENTRY = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:./]+)\]|(?P<host>[^\[\]:]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
_LARGEST_PORT = 2**16 - 1


def host_pattern(text: str) -> str:
    """Return a host name or glob in lower case, without a final dot."""
    if not re.fullmatch(r"[\w*?.-]+", text, re.ASCII):
        raise ValueError("not a host name; write it without scheme, port or path")
    if not re.search(r"\w", text):
        raise ValueError("allows every site; write names, or globs such as *.example.com")
    return text.lower().rstrip(".")


class AllowedTargets(NamedTuple):
    """One entry of `targets_allowed`: a network, or a pattern of names, and a port; None: every port."""

    hosts: IPv4Network | IPv6Network | re.Pattern[str]
    port: int | None

    @classmethod
    def of(cls, text: str) -> "AllowedTargets":
        """Read `10.0.0.0/8`, `[fd00::/8]:8000`, `*.example.com:8000`; raise ValueError with a sentence."""
        entry = _ENTRY.fullmatch(text.strip())
        host = (entry["ipv6"] or entry["host"]) if entry else text.strip()
        port = int(entry["port"]) if entry and entry["port"] else None
        if port is not None and not 0 < port <= _LARGEST_PORT:
            raise ValueError("has a port outside 1 to 65535")
        if (entry and entry["ipv6"]) or "/" in host or ":" in host or re.fullmatch(r"[.*?]*[0-9][0-9.*?]*", host):
            try:
                return cls(ip_network(host), port)
            except ValueError:
                raise ValueError(
                    "not a network; write one such as 10.0.0.0/8, 10.0.0.7:8000 or [fd00::/8]:8000"
                ) from None
        return cls(_name_pattern(host_pattern(host)), port)

    def allows(self, replica: str) -> bool:
        """Return whether a replica's id is inside. A network has written addresses only: a name needs a pattern."""
        url = urlsplit(replica)
        host = (url.hostname or "").rstrip(".")
        if self.port not in {None, url.port}:
            return False
        if isinstance(self.hosts, re.Pattern):
            return self.hosts.fullmatch(host) is not None
        try:
            return ip_address(host) in self.hosts
        except ValueError:
            return False


def _name_pattern(glob: str) -> re.Pattern[str]:
    """Return the expression of a glob: a leading `*.` matches any subdomain, any other `*` no dot.

    Otherwise vllm-* would match vllm-1.example.com.
    """
    first, rest = (r"(?:[^.]+\.)+", glob[2:]) if glob.startswith("*.") else ("", glob)
    wild = {"*": "[^.]*", "?": "[^.]"}
    return re.compile(first + "".join(wild.get(letter, re.escape(letter)) for letter in rest))
