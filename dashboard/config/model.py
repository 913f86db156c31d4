"""The options, their defaults and bounds; docs are in fleet.example.yaml."""

import glob
import json
import re
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator
from pydantic_settings import NoDecode

from dashboard.config.address import replica_id, service_url
from dashboard.config.rules import Labels, Name, Part, PoolOptions, Rules, SuppressOptions, some
from dashboard.fleet import Baseline
from dashboard.rules.domain import Declared, Expectations
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


_DAY_SECONDS = 86_400.0
_LONGEST_SELECTOR = 2000  # characters
_MATCHER = r"""[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|`[^`]*`)"""
_MATCHERS = re.compile(rf"(?:{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*,?)?")
DEFAULT_FILE = "fleet.yaml"


def _path_from_file(path: Path, info: ValidationInfo, folder: str | None = None) -> Path:
    """Return a path, relative to the folder of the file."""
    if "\0" in str(path):  # valid in YAML, not in a file name
        raise ValueError("contains a null character; write the path of a file")
    return Path((info.context or {}).get("folder", "") if folder is None else folder) / path


def _glob_from_file(pattern: str, info: ValidationInfo) -> str:
    folder = glob.escape(str((info.context or {}).get("folder", "")))
    return str(_path_from_file(Path(pattern), info, folder))


def _host(text: str) -> str:
    """Return a host name or glob in lower case, without a final dot."""
    if not re.fullmatch(r"[\w*?.-]+", text, re.ASCII):
        raise ValueError("not a host name; write it without scheme, port or path")
    if not re.search(r"\w", text):
        raise ValueError("allows every site; write names, or globs such as *.example.com")
    return text.lower().rstrip(".")


def _dns_name(text: str) -> str:
    """Return a name to resolve."""
    if not re.fullmatch(r"[\w.-]{1,253}", text, re.ASCII):
        raise ValueError("not a DNS name; write it without scheme, port or path")
    return text


def _label_name(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", text):
        raise ValueError("not the name of a label in Prometheus; write letters, digits and _")
    return text


def _user_name(text: str) -> str:
    if not re.fullmatch(r"[^:\x00-\x1f]+", text):  # RFC 7617
        raise ValueError("not a user name; write one without colon")
    return text


def _tenant(text: str) -> str:
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError("not a tenant; write one word of plain characters")
    return text


def _matchers(text: str) -> str:
    """Return label matchers of PromQL in braces, as `{job="vllm"}`."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    if not _MATCHERS.fullmatch(inner):
        raise ValueError('not label matchers of PromQL; write some such as {job="vllm"}')
    return f"{{{inner.rstrip(',').rstrip()}}}"


def _framing_site(text: str) -> str:
    """Return a source of the directive frame-ancestors: `self`, or scheme and host."""
    if text.strip("'") == "self":
        return "'self'"
    if not re.fullmatch(r"https?://[\w*.-]+(:(\d{1,5}|\*))?", text, re.ASCII):
        raise ValueError("not a site; write self, or scheme and host such as https://wiki.example.com")
    return text.lower()


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
DnsName = Annotated[str, AfterValidator(_dns_name)]
LabelName = Annotated[str, Field(max_length=200), AfterValidator(_label_name)]
FramingSite = Annotated[str, AfterValidator(_framing_site)]
_FromText = (NoDecode, BeforeValidator(_listed))
PathFromFile = Annotated[Path, AfterValidator(_path_from_file)]
GlobFromFile = Annotated[str, Field(min_length=1), AfterValidator(_glob_from_file)]


class CredentialsOptions(Part):
    """The places of secrets, never secrets. Relative paths start at the file's folder."""

    token_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    token_file: PathFromFile | None = None
    ca_file: PathFromFile | None = None

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.token_env and self.token_file:
            raise ValueError("token_env and token_file are both set; keep one")
        return self


class TargetOptions(Part):
    """One address to poll; `url` is the replica's id. A plain string in the file is an address without labels."""

    url: Annotated[str, AfterValidator(replica_id)]
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_address(cls, data: Any) -> Any:
        return {"url": data} if isinstance(data, str) else data


class FileSdOptions(Part):
    """Files in Prometheus' file_sd shape. `files` are globs; labels in a file win over these."""

    files: Annotated[tuple[GlobFromFile, ...], AfterValidator(some)]
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None


class HttpSdOptions(Part):
    """A URL that answers in Prometheus' http_sd shape. `authorization` is for the URL, `credentials` for replicas."""

    url: Annotated[str, AfterValidator(service_url)]
    authorization: CredentialsOptions | None = None
    refresh_seconds: Annotated[float, Field(ge=1, le=_DAY_SECONDS)] = 60
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None


class DnsSdOptions(Part):
    """Names that DNS knows. Records of type SRV have the port."""

    names: Annotated[tuple[DnsName, ...], AfterValidator(some)]
    type: Literal["SRV", "A", "AAAA"] = "SRV"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    scheme: Literal["http", "https"] = "http"
    refresh_seconds: Annotated[float, Field(ge=1, le=_DAY_SECONDS)] = 30
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None

    @model_validator(mode="after")
    def _has_one_port(self) -> Self:
        if (self.port is None) is not (self.type == "SRV"):
            missing = "an SRV record has the port; remove port" if self.port else "port is missing; set it"
            raise ValueError(f"{missing}, or change type")
        return self


class PrometheusAuthorization(CredentialsOptions):
    """Where the bearer token of Prometheus is, or its user name and the file with the password."""

    username: Annotated[str, Field(max_length=200), AfterValidator(_user_name)] | None = None
    password_file: PathFromFile | None = None

    @model_validator(mode="after")
    def _is_bearer_or_basic(self) -> Self:
        if (self.username is None) is not (self.password_file is None):
            raise ValueError(f"{'username' if self.password_file else 'password_file'} is missing; set both or none")
        if self.username and (self.token_env or self.token_file):
            raise ValueError("a token and a user name are both set; keep one")
        return self


class PrometheusOptions(Part):
    """A server with Prometheus' API. `authorization` is for it, `credentials` are for replicas."""

    url: Annotated[str, AfterValidator(replica_id)]
    selector: Annotated[str, Field(max_length=_LONGEST_SELECTOR), AfterValidator(_matchers)] = "{}"
    authorization: PrometheusAuthorization | None = None
    tenant: Annotated[str, Field(max_length=200), AfterValidator(_tenant)] | None = None
    address_label: LabelName = "instance"
    scheme: Literal["http", "https"] = "http"
    direct: Literal["always", "missing", "never"] = "missing"
    keep_labels: tuple[LabelName, ...] = ()
    timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 20
    max_answer_bytes: Annotated[int, Field(ge=2**16, le=2**28)] = 64_000_000
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None


class PollOptions(Part):
    """Intervals and limits of polls, in seconds and bytes by their names."""

    interval_seconds: Annotated[float, Field(ge=1, le=_DAY_SECONDS)] = 15
    full_poll_interval_seconds: Annotated[float, Field(ge=1, le=_DAY_SECONDS)] = 300
    probe_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 5
    replica_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 20
    poll_timeout_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60
    connections: Annotated[int, Field(ge=1, le=1000)] = 100
    max_answer_bytes: Annotated[int, Field(ge=2**16, le=2**28)] = 8 * 2**20
    max_headers: Annotated[int, Field(ge=16, le=4096)] = 128  # aiohttp's own default

    @model_validator(mode="after")
    def _check_order_of_limits(self) -> Self:
        limits = ("probe_timeout_seconds", "replica_timeout_seconds", "poll_timeout_seconds")
        for shorter, longer in pairwise(limits):
            if getattr(self, shorter) > getattr(self, longer):
                raise ValueError(f"{shorter} is longer than {longer}; raise {longer}")
        return self


class RedactOptions(Part):
    """Additional secrets: last words of names, and patterns of values."""

    names: tuple[Annotated[str, AfterValidator(_last_words)], ...] = ()
    patterns: tuple[Annotated[str, AfterValidator(check_pattern)], ...] = ()


TARGET_SOURCES = ("targets", "file_sd", "dns_sd", "http_sd", "prometheus")  # options that list targets


class Options(Part):
    """All options of the operator."""

    name: Name = "fleet"
    targets: tuple[TargetOptions, ...] = ()
    file_sd: tuple[FileSdOptions, ...] = ()
    dns_sd: tuple[DnsSdOptions, ...] = ()
    http_sd: tuple[HttpSdOptions, ...] = ()
    prometheus: tuple[PrometheusOptions, ...] = ()
    credentials: CredentialsOptions | None = None
    poll: PollOptions = Field(default_factory=PollOptions)
    ignore: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    baselines: tuple[GlobFromFile, ...] = ()
    pools: dict[str, PoolOptions] = Field(default_factory=dict)  # by name or glob
    rules: Rules = Field(default_factory=dict)
    suppress: tuple[SuppressOptions, ...] = ()
    redact: RedactOptions = Field(default_factory=RedactOptions)
    snapshots_folder: PathFromFile = Field(default=Path("snapshots"), validate_default=True)
    suppressions_file: PathFromFile | None = None
    read_only: bool = False
    allowed_hosts: Annotated[tuple[Host, ...], *_FromText] = ()
    frame_ancestors: Annotated[tuple[FramingSite, ...], *_FromText] = ()
    _path: Path = PrivateAttr(Path(DEFAULT_FILE))
    _agreed: tuple[Baseline, ...] = PrivateAttr(())
    _accepted: tuple[SuppressOptions, ...] = PrivateAttr(())

    @property
    def has_target_sources(self) -> bool:
        """Return whether an option lists targets."""
        return any(getattr(self, name) for name in TARGET_SOURCES)

    def with_targets(self, targets: tuple[TargetOptions, ...]) -> Self:
        """Return the options with these targets only."""
        return self.model_copy(update={**dict.fromkeys(TARGET_SOURCES, ()), "targets": targets})

    def with_prometheus(self, url: str) -> Self:
        """Return the options with this Prometheus as the only source; its own options are used where it has some."""
        known = next((each for each in self.prometheus if each.url == url), PrometheusOptions(url=url))
        return self.model_copy(update={**dict.fromkeys(TARGET_SOURCES, ()), "prometheus": (known,)})

    @property
    def path(self) -> Path:
        """Return the path of the options file, also of a missing one."""
        return self._path

    @property
    def file(self) -> str:
        """Return its name."""
        return self._path.name

    @property
    def agreed(self) -> tuple[Baseline, ...]:
        """Return the baselines read from the files of `baselines`."""
        return self._agreed

    def with_agreed(self, baselines: tuple[Baseline, ...]) -> Self:
        """Return a copy with these baselines."""
        return self._with("_agreed", baselines)

    @property
    def accepted(self) -> tuple[SuppressOptions, ...]:
        """Return the entries of `suppressions_file`."""
        return self._accepted

    def with_accepted(self, entries: tuple[SuppressOptions, ...]) -> Self:
        """Return a copy with these entries of `suppressions_file`."""
        return self._with("_accepted", entries)

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
            name: Declared(pool.router, pool.kv_store, pool.disaggregated, Expectations(**vars(pool.expects)))
            for name, pool in options.pools.items()
        },
        rules={  # with the written parameters only: the rule has the defaults
            rule: RuleChange(change.enabled, change.severity, change.parameters.model_dump(exclude_unset=True))
            for rule, change in options.rules.items()
        },
        suppressions=tuple(
            Suppression(**each.model_dump(exclude={"author", "created"}), number=number, file=file)
            for file, entries in (("", options.suppress), (accepted_in, options.accepted))
            for number, each in enumerate(entries, start=1)
        ),
        baselines=options.agreed,
        file=options.file,
    )
