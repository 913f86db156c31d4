"""Hosts and ports that replicas tell, and which hosts mean another machine to each who reads them."""

import re
from collections.abc import Iterable
from typing import Any

from dashboard.fleet import Replica

DP_SIZE = "parallel_config.data_parallel_size"
DP_RANK = "parallel_config.data_parallel_rank"
MAX_PORT = 65_535

_ID = re.compile(r"[a-z]+://(\[[^\]]*\]|[^:/]*)")
_ENDPOINT = re.compile(r"tcp://(?P<host>\[[^\]]*\]|[^\s:]*|::):(?P<port>\d{1,5})", re.ASCII)
_EVERYWHERE = frozenset({"", "*", "0.0.0.0", "::", "[::]"})  # noqa: S104  told by replicas, nothing binds here
_HERE = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?", re.ASCII)


def host_of(replica: str) -> str:
    """Return the host in a replica's id; empty if it has none."""
    found = _ID.match(replica)
    return found[1] if found else ""


def is_own(host: str) -> bool:
    """Tell whether a host stands for the machine that says it: a wildcard or the loopback."""
    return host in _EVERYWHERE or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Tell whether a host is the loopback, of whichever machine."""
    return _HERE.fullmatch(host) is not None


def endpoint_of(value: Any) -> tuple[str, int] | None:
    """Return host and port of `tcp://host:port`; None for all else, and for port 0: the system chooses one."""
    found = _ENDPOINT.fullmatch(value) if isinstance(value, str) else None
    return (found["host"], port) if found and (port := port_of(int(found["port"]))) else None


def port_of(value: Any) -> int | None:
    """Return a port that somebody can listen at; None for all else."""
    is_port = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT
    return value if is_port else None


def rank_of(size: Any, rank: Any) -> int | None:
    """Return the rank of a replica that is a part of a data-parallel engine; None for one that is a whole engine."""
    whole = (size, rank)
    if any(isinstance(each, bool) or not isinstance(each, int) for each in whole) or size <= 1 or rank < 0:
        return None
    return int(rank)


def processes(replicas: Iterable[str], known: Iterable[Replica]) -> tuple[str, ...]:
    """Return the addresses, sorted, of different processes: of those that share one only the first."""
    wanted = set(replicas)
    same = {each.id: each.same_process for each in known if each.id in wanted}
    return tuple(sorted(each for each, others in same.items() if not any(it < each and it in wanted for it in others)))
