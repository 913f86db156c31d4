"""Hosts as the options name them: globs of names, and networks with ports."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

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
