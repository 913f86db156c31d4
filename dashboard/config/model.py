"""The options, their defaults and bounds; docs are in fleet.example.yaml."""

import json
import re
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from dashboard.config import sources
from dashboard.config.access import AccessOptions, TokenOptions
from dashboard.config.address import AllowedTargets, host_pattern
from dashboard.config.notify import NotifyOptions
from dashboard.config.rules import Name, Part, PoolOptions, Rules, SuppressOptions
from dashboard.fleet import Baseline
from dashboard.rules.domain import Expectations, PoolDeclaration
from dashboard.rules.findings import Suppression
from dashboard.rules.policy import Policy, RuleChange

LONGEST = 200  # characters of a pattern
MOST_WAYS = 1_000  # of matching one text: each may be tried at each letter
_PART = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<group>\((?:\?(?::|[aims]+\)))?)|(?P<close>\))"
    r"|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}|(?P<endless>[*+])|(?P<maybe>\?)|(?P<either>\|)|.",
    re.DOTALL,
)


def _last_words(name: str) -> str:
    """Return the last words of a setting's name; raise ValueError for another text."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _-]{1,99}", name):
        raise ValueError("not the name of a setting; write its last words, such as license_id")
    return name


def check_pattern(pattern: str) -> str:
    """Return a pattern that is safe on foreign text; raise ValueError with the reason where it is not."""
    if len(pattern) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters; shorten it")
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"invalid Python regular expression ({error})") from None
    if any((found := compiled.search(text)) and not found[0].strip() for text in ("", "a 1")):
        raise ValueError("matches an empty text or a blank; write a pattern of the secret")
    parts = list(_PART.finditer(pattern))
    ways = prod(_ways(part, before, is_last=part is parts[-1]) for before, part in pairwise([None, *parts]) if part)
    if ways > MOST_WAYS:
        raise ValueError("can match one text in too many ways; narrow its {m,n}")
    return pattern


def _ways(part: re.Match[str], before: re.Match[str] | None, *, is_last: bool) -> int:
    """Return the number of ways in which one part can match; raise ValueError without a bound."""
    if (part["escape"] or "")[1:].isdecimal():
        raise ValueError("has a back reference; write it without \\1")
    if part["group"] == "(" and part.string[part.end() : part.end() + 1] == "?":
        raise ValueError("has an unsupported kind of group; write (?:...)")
    repeats = part["endless"] or part["maybe"] or part["least"] is not None
    if repeats and before is not None and before["close"]:
        raise ValueError("repeats a group; write {m,n} after single letters or sets only")
    if part["endless"] or (part["comma"] and not part["most"]):
        if not is_last:
            raise ValueError("has * or + before its end; write {1,100} there")
        return 1
    if part["comma"]:
        return int(part["most"]) - int(part["least"] or 0) + 1
    return 2 if part["maybe"] or part["either"] else 1


DEFAULT_FILE = "fleet.yaml"


def _host(text: str) -> str:
    """Return a host name or glob in lower case, without a final dot, with its port where it has one."""
    match = re.fullmatch(r"([\w*?.-]+)(:\d{1,5})?", text, re.ASCII)
    if not match:
        raise ValueError(
            "not a host name; write it without scheme and path, such as fleet.example.com or fleet.example.com:8443"
        )
    return host_pattern(match[1]) + (match[2] or "")


def _framing_site(text: str) -> str:
    """Return a source of the directive frame-ancestors: `self`, or scheme and host."""
    if text.strip("'") == "self":
        return "'self'"
    if not re.fullmatch(r"https?://[\w*.-]+(:(\d{1,5}|\*))?", text, re.ASCII):
        raise ValueError("not a site; write self, or scheme and host such as https://wiki.example.com")
    return text.lower()


def _allowed(text: str) -> str:
    """Return an entry of `targets_allowed`; raise ValueError for another text."""
    AllowedTargets.of(text)
    return text


def _listed(value: Any) -> Any:
    """Return the list in an environment variable: JSON, or comma-separated names."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("not a JSON list; write comma-separated names") from None
    return [name.strip() for name in value.split(",") if name.strip()]


Host = Annotated[str, AfterValidator(_host)]
AllowedEntry = Annotated[str, AfterValidator(_allowed)]
FramingSite = Annotated[str, AfterValidator(_framing_site)]
_FromText = (NoDecode, BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...]))


SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgresql+psycopg://")


def _database_url(url: str, info: ValidationInfo) -> str:
    """Return the URL of a database; the path of a SQLite file starts at the folder of the file of options."""
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        folder = (info.context or {}).get("folder", "")
        return f"{SQLITE}{Path(folder) / url.removeprefix(SQLITE)}"
    if not url.startswith(POSTGRES):
        raise ValueError(
            "not the URL of a SQLite file or PostgreSQL; write sqlite:///history.db or postgresql://host/name"
        )
    if "@" in url and ":" in url.partition("://")[2].rpartition("@")[0]:
        raise ValueError("contains a password; write the URL into a file or a variable, and set url_file or url_env")
    return url


class HistoryOptions(Part):
    """The history of the fleet. Without a URL it is the file history.db in data_folder."""

    enabled: bool = True
    url: Annotated[str, AfterValidator(_database_url)] | None = None
    url_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    url_file: sources.PathFromFile | None = None
    keep_spans_days: Annotated[int, Field(ge=1, le=3650)] = 400
    keep_polls_days: Annotated[int, Field(ge=1, le=400)] = 30
    max_bytes: Annotated[int, Field(ge=1_000_000)] = 1_000_000_000

    @property
    def has_url(self) -> bool:
        return any(each is not None for each in (self.url, self.url_env, self.url_file))

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        if sum(each is not None for each in (self.url, self.url_env, self.url_file)) > 1:
            raise ValueError("url, url_env and url_file are alternatives; keep one")
        return self


class PollOptions(Part):
    """Intervals and limits of polls, in seconds and bytes by their names."""

    interval_seconds: Annotated[float, Field(ge=1, le=sources.DAY_SECONDS)] = 15
    full_poll_interval_seconds: Annotated[float, Field(ge=1, le=sources.DAY_SECONDS)] = 300
    probe_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 5
    replica_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 20
    poll_timeout_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60
    connections: Annotated[int, Field(ge=1, le=1000)] = 100
    max_answer_bytes: Annotated[int, Field(ge=2**16, le=2**28)] = 8 * 2**20
    grpc_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    max_headers: Annotated[int, Field(ge=16, le=4096)] = 128  # the default of aiohttp, which reads the headers

    @model_validator(mode="after")
    def _check_order_of_limits(self) -> Self:
        limits = ("probe_timeout_seconds", "replica_timeout_seconds", "poll_timeout_seconds")
        for shorter, longer in pairwise(limits):
            if getattr(self, shorter) > getattr(self, longer):
                raise ValueError(f"{shorter} is longer than {longer}; raise {longer}")
        return self


class TrafficOptions(Part):
    """How often counters of use are read, and over which window they are compared."""

    enabled: bool = True
    interval_seconds: Annotated[float, Field(ge=1, le=sources.DAY_SECONDS)] = 60
    window_seconds: Annotated[float, Field(ge=1, le=sources.DAY_SECONDS)] = 900

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window_seconds < self.interval_seconds:
            raise ValueError("window_seconds is shorter than interval_seconds; raise window_seconds")
        return self

    def are_due(self, seconds: float, limits: PollOptions) -> bool:
        """Return whether a poll reads counters, so long after the last that did: the nearest to the interval."""
        return self.enabled and seconds >= self.interval_seconds - limits.interval_seconds / 2


NO_TRAFFIC = TrafficOptions(enabled=False)  # of a poll that is not repeated
TRAFFIC_OFF = "traffic is off; set traffic.enabled to true in the options"
EVERY_POLL = TrafficOptions(interval_seconds=1, window_seconds=sources.DAY_SECONDS)  # of two polls


class RedactOptions(Part):
    """Additional secrets: last words of names, and patterns of values."""

    names: tuple[Annotated[str, AfterValidator(_last_words)], ...] = ()
    patterns: tuple[Annotated[str, AfterValidator(check_pattern)], ...] = ()


class McpOptions(Part):
    """The route /mcp with tools for agents."""

    enabled: bool = False


TARGET_SOURCES = (
    "targets",
    "file_sd",
    "dns_sd",
    "http_sd",
    "prometheus",
    "kubernetes",
    "dashboards",
)  # options that list targets


class Options(Part):
    """All options of the operator."""

    name: Name = "fleet"
    targets: tuple[sources.TargetOptions, ...] = ()
    file_sd: tuple[sources.FileSdOptions, ...] = ()
    dns_sd: tuple[sources.DnsSdOptions, ...] = ()
    http_sd: tuple[sources.HttpSdOptions, ...] = ()
    prometheus: tuple[sources.PrometheusOptions, ...] = ()
    kubernetes: tuple[sources.KubernetesOptions, ...] = ()
    dashboards: tuple[sources.DashboardOptions, ...] = ()
    routers: tuple[sources.RouterOptions, ...] = ()
    credentials: sources.CredentialsOptions | None = None
    targets_allowed: Annotated[tuple[AllowedEntry, ...], *_FromText] = ()
    poll: PollOptions = Field(default_factory=PollOptions)
    traffic: TrafficOptions = Field(default_factory=TrafficOptions)
    ignore: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    baselines: tuple[sources.GlobFromFile, ...] = ()
    pools: dict[str, PoolOptions] = Field(default_factory=dict)  # by name or glob
    rules: Rules = Field(default_factory=dict)
    suppress: tuple[SuppressOptions, ...] = ()
    redact: RedactOptions = Field(default_factory=RedactOptions)
    data_folder: sources.PathFromFile = Field(default=Path("data"), validate_default=True)
    history: HistoryOptions = Field(default_factory=HistoryOptions)
    notify: NotifyOptions = Field(default_factory=NotifyOptions)
    suppressions_file: sources.PathFromFile | None = None
    read_only: bool = False
    access: AccessOptions = Field(default_factory=AccessOptions)
    mcp: McpOptions = Field(default_factory=McpOptions)
    allowed_hosts: Annotated[tuple[Host, ...], *_FromText] = ()
    frame_ancestors: Annotated[tuple[FramingSite, ...], *_FromText] = ()
    _path: Path = PrivateAttr(Path(DEFAULT_FILE))
    _agreed: tuple[Baseline, ...] = PrivateAttr(())
    _accepted: tuple[SuppressOptions, ...] = PrivateAttr(())

    @field_validator("notify")
    @classmethod
    def _webhooks_have_a_history(cls, notify: NotifyOptions, info: ValidationInfo) -> NotifyOptions:
        history = info.data.get("history")  # missing where it has a mistake
        if notify.webhooks and history is not None and not history.enabled:
            raise ValueError(
                "webhooks need the history, which keeps each message until it is delivered; set history.enabled: true, "
                "or use alertmanagers"
            )
        return notify

    @property
    def has_target_sources(self) -> bool:
        return any(getattr(self, name) for name in TARGET_SOURCES)

    @property
    def has_history(self) -> bool:
        """Return whether polls are recorded; with `read_only` only in a database that the options name."""
        return self.history.enabled and (self.history.has_url or not self.read_only)

    def with_targets(self, targets: tuple[sources.TargetOptions, ...]) -> Self:
        return self.model_copy(update={**dict.fromkeys(TARGET_SOURCES, ()), "targets": targets})

    def with_prometheus(self, url: str) -> Self:
        """Return the options with this Prometheus as the only source; its own options are used where it has some."""
        known = next((each for each in self.prometheus if each.url == url), sources.PrometheusOptions(url=url))
        return self.model_copy(update={**dict.fromkeys(TARGET_SOURCES, ()), "prometheus": (known,)})

    @property
    def path(self) -> Path:
        """Return the path of the options file, also of a missing one."""
        return self._path

    @property
    def file(self) -> str:
        return self._path.name

    @property
    def agreed(self) -> tuple[Baseline, ...]:
        """Return the baselines read from the files of `baselines`."""
        return self._agreed

    def with_agreed(self, baselines: tuple[Baseline, ...]) -> Self:
        return self._with("_agreed", baselines)

    @property
    def accepted(self) -> tuple[SuppressOptions, ...]:
        """Return the entries of `suppressions_file`."""
        return self._accepted

    def with_accepted(self, entries: tuple[SuppressOptions, ...]) -> Self:
        return self._with("_accepted", entries)

    def with_tokens(self, tokens: tuple[TokenOptions, ...]) -> Self:
        """Return the options with the tokens of `access.tokens_file`, too."""
        access = self.access.model_copy(update={"tokens": (*self.access.tokens, *tokens)})
        return self.model_copy(update={"access": access})

    def _with(self, name: str, read: object) -> Self:
        """Return a copy with what was read from files that the options name."""
        copy = self.model_copy()
        setattr(copy, name, read)
        return copy

    def model_post_init(self, context: Any, /) -> None:
        """Keep the path of the file, for messages and reloads."""
        self._path = (context or {}).get("path", Path(DEFAULT_FILE))


def policy_of(options: Options) -> Policy:
    """Return the operator's policy on rules and pools. Suppressions are numbered in the order of their file, from 1."""
    accepted_in = options.suppressions_file.name if options.suppressions_file else ""
    return Policy(
        pools={
            name: PoolDeclaration(pool.router, pool.kv_store, pool.disaggregated, Expectations(**vars(pool.expects)))
            for name, pool in options.pools.items()
        },
        rules={  # with the written parameters only: the rule has the defaults
            rule: RuleChange(change.enabled, change.severity, change.parameters.model_dump(exclude_unset=True))
            for rule, change in options.rules.items()
        },
        suppressions=tuple(
            Suppression(**each.model_dump(exclude={"created"}), number=number, file=file)
            for file, entries in (("", options.suppress), (accepted_in, options.accepted))
            for number, each in enumerate(entries, start=1)
        ),
        baselines=options.agreed,
        file=options.file,
    )
