"""The words that values of the nouns are made of."""

from enum import StrEnum


class State(StrEnum):
    """How a setting stands in one document."""

    REPORTED = "reported"
    NULL = "null"  # an option that is not set: a value like any other
    ABSENT = "absent"  # no source tells
    UNSUPPORTED = "unsupported"  # this vLLM version has no such setting
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # null where the engine fills the value in later


class Source(StrEnum):
    """Who said it, in the order of trust."""

    PROVIDER = "provider"  # our plugin inside vLLM
    SERVER_INFO = "server_info"
    CONFIG_API = "config_api"
    PLUGIN = "plugin"
    METRICS = "metrics"
    MODELS = "models"
    VERSION = "version"
    KV_EVENT_SOURCES = "kv_event_sources"


class ReplicaState(StrEnum):
    """Whether a replica could be read."""

    UP = "up"
    PARTIAL = "partial"
    DOWN = "down"


class Role(StrEnum):
    """What a replica does in prefill/decode disaggregation."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


class Basis(StrEnum):
    """Where a capacity number comes from."""

    REPORTED = "reported"
    DERIVED = "derived"
    ASSUMED = "assumed"  # an upper bound, shown as "at most"
    UNKNOWN = "unknown"


class FailureKind(StrEnum):
    """Why a probe gave no reply."""

    DNS = "dns"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"
    UNAUTHORIZED = "unauthorized"
    STATUS = "status"
    TOO_LARGE = "too_large"
    DECODE = "decode"
    SCHEMA = "schema"
    TARGET = "target"
    FRONTEND = "frontend"  # it answers, and reports nothing of its engine
