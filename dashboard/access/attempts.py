"""How often a client failed to sign in, with bounded memory."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

MOST_FAILURES = 10  # of a client in a period
PERIOD_SECONDS = 60.0
MOST_CLIENTS = 4096  # the longest known are forgotten
IPV6_NETWORK = 64  # bits: a client has at least a network of this size


class FailureCounts:
    """Counts failures by client."""

    def __init__(self, most: int = MOST_FAILURES, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any. `most` failures in a period are answered; `clock` gives seconds."""
        self._most = most
        self._clock = clock
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # number, and when their period began

    def add(self, client: str) -> float:
        """Count a failure; return for how many seconds this client is limited, 0 where it is not."""
        key, now = _network(client), self._clock()
        number, began = self._counts.pop(key, (0, now))
        if now - began >= PERIOD_SECONDS:
            number, began = 0, now
        self._counts[key] = (number + 1, began)
        while len(self._counts) > MOST_CLIENTS:
            self._counts.popitem(last=False)
        return began + PERIOD_SECONDS - now if number >= self._most else 0.0


def _network(client: str) -> str:
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((int(address), IPV6_NETWORK), strict=False))
    return client
