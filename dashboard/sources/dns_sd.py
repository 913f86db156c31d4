"""Targets from DNS: A, AAAA or SRV records. A name that fails keeps its last targets, marked stale."""

import asyncio
import time
from collections.abc import Callable

import dns.asyncresolver
from dns.exception import DNSException, Timeout
from dns.rdtypes.IN.SRV import SRV
from dns.resolver import NXDOMAIN, NoAnswer, NoNameservers, NoResolverConfiguration

from dashboard.config import DnsSdOptions, PollOptions
from dashboard.config.address import host_port
from dashboard.fleet import Credentials
from dashboard.sources.source import Listing, keep_targets, make_target


class DnsSd:
    """One `dns_sd` entry of the options. Names are resolved as this machine resolves them."""

    kind = "dns_sd"

    def __init__(
        self,
        options: DnsSdOptions,
        credentials: Credentials | None,
        limits: PollOptions,
        clock: Callable[[], float] = time.monotonic,
        make_resolver: Callable[[], dns.asyncresolver.Resolver] = dns.asyncresolver.Resolver,
    ) -> None:
        """Resolve nothing yet. `clock` is monotonic, in seconds; resolvers are made anew, as resolv.conf may change."""
        self.name = ", ".join(options.names)
        self._options = options
        self._credentials = credentials
        self._seconds = limits.probe_timeout_seconds
        self._clock = clock
        self._due = clock()
        self._make_resolver = make_resolver
        self._listings = [Listing(each, ()) for each in options.names]

    async def read(self) -> list[Listing]:
        """Return a listing of each name; they are resolved again after `refresh_seconds`."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._options.refresh_seconds
            self._listings = list(await asyncio.gather(*map(self._resolve, self._listings)))
        return self._listings

    async def _resolve(self, last: Listing) -> Listing:
        kind = self._options.type
        try:
            answer = await self._make_resolver().resolve(last.name, kind, lifetime=self._seconds, search=True)
        except (DNSException, OSError, ValueError) as error:  # the last two of a damaged resolv.conf
            return keep_targets(last, self._sentence(error))
        hosts = sorted({self._host(record) for record in answer} - {""})
        targets = [
            make_target(f"{self._options.scheme}://{host}", self._options.labels, self._credentials) for host in hosts
        ]
        return Listing(last.name, tuple(targets))

    def _host(self, record: object) -> str:
        """Return host and port of a record, an IPv6 address in brackets; empty for a service that is not offered."""
        if isinstance(record, SRV):
            name = record.target.to_text(omit_final_dot=True)
            return "" if name == "." else f"{name}:{record.port}"  # RFC 2782
        return host_port(str(record), str(self._options.port))

    def _sentence(self, error: Exception) -> str:
        match error:
            case NXDOMAIN():
                return "no such name in DNS"
            case NoAnswer():
                return f"no {self._options.type} record in DNS"
            case Timeout():
                return f"DNS timed out after {self._seconds:.3g} s"
            case NoNameservers():
                return "no name server has an answer"
            case NoResolverConfiguration() | OSError() | ValueError():
                return "/etc/resolv.conf of this machine names no DNS server that can be used"
        return f"cannot be resolved ({type(error).__name__})"
