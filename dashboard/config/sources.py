"""The options that list targets: where replicas are found, and with which credentials they are asked."""

import glob
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from dashboard.config.address import replica_id, service_url
from dashboard.config.rules import Labels, Name, Part, some
from dashboard.fleet import CLUSTER, Credentials, RouterKind

DAY_SECONDS = 86_400.0
_LONGEST_SELECTOR = 2000  # characters
_MATCHER = r"""[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|`[^`]*`)"""
_MATCHERS = re.compile(rf"(?:{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*,?)?")

_CLUSTER = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,62}")  # it begins the ids of replicas, as a scheme begins a URL


def _path_from_file(path: Path, info: ValidationInfo, folder: str | None = None) -> Path:
    if "\0" in str(path):  # valid in YAML, not in a file name
        raise ValueError("contains a null character; write the path of a file")
    return Path((info.context or {}).get("folder", "") if folder is None else folder) / path


def _glob_from_file(pattern: str, info: ValidationInfo) -> str:
    folder = glob.escape(str((info.context or {}).get("folder", "")))
    return str(_path_from_file(Path(pattern), info, folder))


@dataclass(frozen=True)
class Like:
    """A check of a whole text; a text that does not match is a mistake with this sentence."""

    pattern: str
    sentence: str

    def __call__(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text, re.ASCII):
            raise ValueError(self.sentence)
        return text


def _like(pattern: str, sentence: str) -> AfterValidator:
    return AfterValidator(Like(pattern, sentence))


def _matchers(text: str) -> str:
    """Return label matchers of PromQL in braces, as `{job="vllm"}`."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    if not _MATCHERS.fullmatch(inner):
        raise ValueError('not label matchers of PromQL; write some such as {job="vllm"}')
    return f"{{{inner.rstrip(',').rstrip()}}}"


def _label_selector(text: str) -> str:
    """Return a selector of labels; the API server checks its grammar."""
    if not re.fullmatch(r"[\w./=!,() -]+", text.strip(), re.ASCII):
        raise ValueError("not a label selector; write one such as app=vllm,tier!=test")
    return text.strip()


def _port(text: str) -> str:
    """Return a number from 1 to 65535, or the name of a port (RFC 6335)."""
    is_port = 0 < int(text) < 2**16 if text.isdecimal() and len(text) <= 5 else re.fullmatch(r"[a-z0-9-]{1,15}", text)  # noqa: PLR2004  digits
    if not is_port:
        raise ValueError("not a port; write its number or its name in the pod")
    return text


DnsName = Annotated[str, _like(r"[\w.-]{1,253}", "not a DNS name; write it without scheme, port or path")]
LabelName = Annotated[
    str,
    Field(max_length=200),
    _like(r"[a-zA-Z_][a-zA-Z0-9_]*", "not the name of a label in Prometheus; write letters, digits and _"),
]
# RFC 7617
UserName = Annotated[str, Field(max_length=200), _like(r"[^:\x00-\x1f]+", "not a user name; write one without colon")]
Tenant = Annotated[str, Field(max_length=200), _like(r"[!-~]+", "not a tenant; write one word of plain characters")]
ObjectName = Annotated[
    str,
    _like(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
        "not a name of Kubernetes; write lower case letters, digits, - and .",
    ),
]
ALL_NAMESPACES = "*"
Namespace = Annotated[
    str, _like(r"\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "not the name of a namespace, or '*' for all")
]
LabelKey = Annotated[
    str,
    _like(
        r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?",
        "not the key of a label in Kubernetes; write one such as llm-d.ai/role",
    ),
]
Port = Annotated[str, AfterValidator(_port)]
LabelSelector = Annotated[str, Field(max_length=_LONGEST_SELECTOR), AfterValidator(_label_selector)]
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

    def places(self) -> Credentials:
        return Credentials(self.token_env, self.token_file, self.ca_file)


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
    refresh_seconds: Annotated[float, Field(ge=1, le=DAY_SECONDS)] = 60
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None


class DnsSdOptions(Part):
    """Names that DNS knows. Records of type SRV have the port."""

    names: Annotated[tuple[DnsName, ...], AfterValidator(some)]
    type: Literal["SRV", "A", "AAAA"] = "SRV"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    scheme: Literal["http", "https"] = "http"
    refresh_seconds: Annotated[float, Field(ge=1, le=DAY_SECONDS)] = 30
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

    username: UserName | None = None
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
    tenant: Tenant | None = None
    address_label: LabelName = "instance"
    scheme: Literal["http", "https"] = "http"
    direct: Literal["always", "missing", "never"] = "missing"
    keep_labels: tuple[LabelName, ...] = ()
    timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 20
    max_answer_bytes: Annotated[int, Field(ge=2**16, le=2**28)] = 64_000_000
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None


class KubernetesOptions(Part):
    """Pods of an InferencePool, with some labels, or behind a Service, in namespaces; `*` are all.

    `credentials` are for the replicas.
    """

    namespaces: Annotated[
        tuple[Namespace, ...],
        BeforeValidator(
            lambda written: [written] if written == ALL_NAMESPACES else written,
            json_schema_input_type=Literal["*"] | tuple[Namespace, ...],
        ),
    ] = ()
    inference_pool: ObjectName | None = None
    selector: LabelSelector | None = None
    service: ObjectName | None = None
    port: Port | None = None
    port_annotation: LabelKey = "llm-d.ai/active-ports"
    role_ports: dict[str, Port] = Field(default_factory=dict)
    pool_label: LabelKey | None = None
    keep_labels: tuple[LabelKey, ...] = ()
    kubeconfig: PathFromFile | None = None
    context: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    allow_exec: bool = False
    scheme: Literal["http", "https"] = "http"
    labels: Labels = Field(default_factory=dict)
    credentials: CredentialsOptions | None = None

    @model_validator(mode="after")
    def _chooses_pods(self) -> Self:
        given = [each for each in (self.inference_pool, self.selector, self.service) if each is not None]
        if len(given) > 1:
            raise ValueError("inference_pool, selector and service exclude each other; keep one")
        if not given:
            raise ValueError("inference_pool, selector or service is needed; set one of them")
        if ALL_NAMESPACES in self.namespaces and (len(self.namespaces) > 1 or self.selector is None):
            raise ValueError("namespaces: '*' stands alone, and with selector only; list the namespaces")
        return self


class DashboardOptions(CredentialsOptions):
    """Another dashboard: the replicas of its cluster are read from its document. The token is for its URL."""

    url: Annotated[str, AfterValidator(replica_id)]
    labels: Labels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_its_cluster(self) -> Self:
        if not _CLUSTER.fullmatch(self.labels.get(CLUSTER, "")):
            raise ValueError("no valid cluster (letters, digits, - and .); add labels: {cluster: eu-west}")
        return self


class RouterOptions(Part):
    """One router: at a URL, in the pods of Kubernetes that run it, or by its file. `pools` are names or globs.

    With `cluster` they are the names of pools within this cluster.
    """

    kind: RouterKind
    cluster: Name | None = None
    pools: Annotated[tuple[Name, ...], AfterValidator(some)] = ("*",)
    url: Annotated[str, AfterValidator(replica_id)] | None = None
    config_file: PathFromFile | None = None
    namespace: ObjectName | None = None
    inference_pool: ObjectName | None = None
    selector: LabelSelector | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    scheme: Literal["http", "https"] = "http"
    kubeconfig: PathFromFile | None = None
    context: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    allow_exec: bool = False
    authorization: CredentialsOptions | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        places = [self.url, self.inference_pool, self.selector]
        if places.count(None) < len(places) - 1:
            raise ValueError("url, inference_pool and selector exclude each other; keep one")
        if places.count(None) == len(places) and self.config_file is None:
            raise ValueError("url, inference_pool, selector or config_file is needed; set one of them")
        if self.kind is not RouterKind.LLM_D and (self.inference_pool or self.config_file):
            raise ValueError("inference_pool and config_file are of llm-d only; set url or selector")
        return self

    @property
    def pool_keys(self) -> tuple[str, ...]:
        """Return names or globs of the keys of its pools: `cluster/name`."""
        return tuple(f"{glob.escape(self.cluster)}/{each}" for each in self.pools) if self.cluster else self.pools
