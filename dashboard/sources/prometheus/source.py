"""Targets from Prometheus: the replicas whose series of vLLM it has. A failure keeps the last targets, marked stale."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from dashboard.config import PollOptions, PrometheusOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import Credentials, FailureKind, Scraped, Target
from dashboard.sources.groups import MAX_TARGETS, make_target
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import Key, find, find_password
from dashboard.sources.http.failures import Asked
from dashboard.sources.prometheus.answers import Answer, Sample, as_line, kept_labels, read_answer, said_error
from dashboard.sources.prometheus.query import addresses_query, replicas_query
from dashboard.sources.source import Listing, keep_targets

NO_KEY = Key(missing="none is given; set authorization of this prometheus entry in fleet.yaml")
QUERY = "/api/v1/query"
# A series that ends without a mark stays for 5 minutes. Prometheus advises against intervals above 2 minutes
# (https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness); half a minute is for a late scrape.
STALE_SECONDS = 150.0
KEPT = ("job", "namespace", "pod", "node", "pool")  # labels of a series that its target has
MOST_ADDRESSES = 1_000  # of one query that is split: 25 KB of text


class TooLargeError(Exception):
    """The answer is larger than max_answer_bytes."""


class Prometheus:
    """One `prometheus` entry of the options. It is asked at every poll."""

    kind = "prometheus"

    def __init__(self, options: PrometheusOptions, credentials: Credentials | None, limits: PollOptions) -> None:
        """Ask nothing yet. `credentials` are for the targets."""
        self._options = options
        self._credentials = credentials
        self._limits = limits
        self._is_split = False
        self._known: dict[str, Known] = {}
        scheme, _, rest = options.url.partition("://")
        server, slash, path = rest.partition("/")
        self._asked = Asked(f"{scheme}://{server}", f"{slash}{path}{QUERY}", is_replica=False)
        self._listing = Listing(options.url, ())

    async def read(self) -> list[Listing]:
        """Return one listing."""
        limits, most = self._limits, self._options.max_answer_bytes
        async with Client(connections=1, max_answer_bytes=most, max_headers=limits.max_headers) as client:
            ends_at = client.time() + self._options.timeout_seconds
            try:
                answer = await self._ask_for_replicas(client, ends_at)
                self._listing = self._listed(answer)
            except UnreadableError as error:
                self._listing = keep_targets(self._listing, error.detail)
        return [self._listing]

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _ask_for_replicas(self, client: Client, ends_at: float) -> Answer:
        """Return the series of all replicas: by one query, or by several where one answer is too large."""
        options = self._options
        if not self._is_split:
            try:
                return await self._ask(client, replicas_query(options.selector), ends_at)
            except TooLargeError:
                self._is_split = True
        try:
            names = await self._ask(client, addresses_query(options.selector, options.address_label), ends_at)
        except TooLargeError:
            raise self._too_large() from None
        addresses = sorted({each.labels.get(options.address_label, "") for each in names.samples} - {""})
        answers = [names._replace(samples=())]
        for start in range(0, len(addresses), MOST_ADDRESSES):
            answers += await self._ask_in_parts(client, addresses[start : start + MOST_ADDRESSES], ends_at)
        self._is_split = len(answers) > 2  # noqa: PLR2004  the addresses, and one part that is the whole
        warning = next((each.warning for each in answers if each.warning), "")
        return Answer(tuple(sample for each in answers for sample in each.samples), warning)

    async def _ask_in_parts(self, client: Client, addresses: Sequence[str], ends_at: float) -> list[Answer]:
        """Return the series of some addresses, halved until each answer fits."""
        query = replicas_query(self._options.selector, self._options.address_label, addresses)
        try:
            return [await self._ask(client, query, ends_at)]
        except TooLargeError:
            middle = len(addresses) // 2
            if not middle:
                raise self._too_large() from None
            parts = addresses[:middle], addresses[middle:]
            return [each for part in parts for each in await self._ask_in_parts(client, part, ends_at)]

    async def _ask(self, client: Client, query: str, ends_at: float) -> Answer:
        options = self._options
        own = options.authorization
        answer = await client.fetch(
            self._asked,
            max(ends_at - client.time(), 0.0),
            limit=options.max_answer_bytes,
            key=_key(options),
            ca_file=own.ca_file if own else None,
            headers=[(b"X-Scope-OrgID", options.tenant.encode())] if options.tenant else [],
            form=urlencode({"query": query}).encode(),
        )
        if answer.failure is None:
            return read_answer(answer.body)
        if answer.failure.kind is FailureKind.TOO_LARGE and answer.status == 200:  # noqa: PLR2004
            raise TooLargeError
        said = said_error(answer.body)
        raise UnreadableError(answer.failure.kind, f"{answer.failure.detail.removesuffix('.')}{said and f': {said}'}")

    def _too_large(self) -> UnreadableError:
        most = f"{self._options.max_answer_bytes:,}"
        return UnreadableError("too_large", f"the smallest answer has more than {most} bytes; raise max_answer_bytes")

    def _listed(self, answer: Answer) -> Listing:
        """Return the listing of complete or partial data; in partial data what lacks stays, marked stale."""
        options, name = self._options, self._listing.name
        found = {each.id: each for each in self._targets(answer.samples)}
        sentences = [answer.warning] if answer.warning else []
        nameless = sum(options.address_label not in each.labels for each in answer.samples)
        if nameless:
            sentences.append(f"{nameless:,} series have no label {options.address_label}; correct address_label")
        if len(found) > MAX_TARGETS:
            raise UnreadableError("schema", f"more than {MAX_TARGETS:,} targets")
        if answer.warning:
            lost = (each for each in self._listing.targets if each.id not in found)
            found |= {each.id: replace(each, stale=True) for each in lost}
        if not answer.samples and not sentences and not self._listing.targets:
            sentences.append(f"has no series vllm:cache_config_info{options.selector}; correct selector, or wait")
        return Listing(name, tuple(found.values()), f"{name}: {'; '.join(sentences)}" if sentences else None)

    def _targets(self, samples: Iterable[Sample]) -> Iterator[Target]:
        """Yield the target of each address. Between two polls mostly only the times of the scrapes change."""
        by_address: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            if address := sample.labels.get(self._options.address_label):
                by_address[address].append(sample)
        before, self._known = self._known, {}
        direct = self._options.direct
        for address, several in sorted(by_address.items()):
            latest = Latest.of(several)
            known = before.get(address)
            if known is None or known.latest.series != latest.series:
                known = self._make(address, latest)
            self._known[address] = known
            target, falls_back = known.target, direct == "missing"
            scraped = None if direct == "always" else Scraped(known.lines, latest.at, falls_back)
            yield Target(
                target.id,
                target.labels,
                target.credentials,
                stale=latest.is_stale,
                failure=target.failure,
                scraped=scraped,
            )

    def _make(self, address: str, latest: "Latest") -> "Known":
        options = self._options
        names = (*KEPT, *options.keep_labels)
        own = [kept_labels(each, names) for each in latest.series]
        # Two jobs may scrape one pod: the first value of a label counts, so that they do not alternate.
        labels = {name: min(texts) for name in names if (texts := [each[name] for each in own if name in each])}
        whole = address if "://" in address else f"{options.scheme}://{address}"
        target = make_target(whole, {**options.labels, **labels}, self._credentials)
        lines = sorted({as_line(each) for each in latest.series} - {b""})
        return Known(latest, target, b"\n".join(lines))


class Latest(NamedTuple):
    """The series of the pod at one address that was scraped last, and when (UTC)."""

    series: list[Mapping[str, str]]
    at: datetime
    is_stale: bool

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Latest":
        """Choose the series: an address can go to another pod while those of the last one are still there."""
        newest = max(samples, key=lambda each: each.value)
        pod = newest.labels.get("pod")
        scraped_at = newest.value or newest.queried_at  # 0 is that of `up`: it has no series of vLLM now
        since = scraped_at - STALE_SECONDS if newest.value else 0.0
        series = [each.labels for each in samples if each.value >= since and each.labels.get("pod") == pod]
        is_stale = newest.queried_at - scraped_at > STALE_SECONDS
        return cls(series, datetime.fromtimestamp(scraped_at, UTC), is_stale)


class Known(NamedTuple):
    """What was made of the series of one address: its target, and their lines as /metrics has them."""

    latest: Latest
    target: Target
    lines: bytes


def _key(options: PrometheusOptions) -> Key:
    own = options.authorization
    if own is None:
        return NO_KEY
    if own.username and own.password_file:
        return find_password(own.username, own.password_file)
    return find(Credentials(own.token_env, own.token_file)) if own.token_env or own.token_file else NO_KEY
