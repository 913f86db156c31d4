"""What the operator sets: fleet.yaml and environment variables, read once, frozen, unknown keys refused."""

from dashboard.config.load import FILE_VARIABLE, load_options
from dashboard.config.model import DEFAULT_FILE, TARGET_SOURCES, HistoryOptions, Options, PollOptions, policy_of
from dashboard.config.notify import AlertmanagerOptions, NotifyOptions, WebhookOptions
from dashboard.config.rules import MAX_LABEL_CHARACTERS, PoolOptions, RuleOptions, SuppressOptions
from dashboard.config.sources import (
    CredentialsOptions,
    DnsSdOptions,
    FileSdOptions,
    HttpSdOptions,
    KubernetesOptions,
    PrometheusAuthorization,
    PrometheusOptions,
    RouterOptions,
    TargetOptions,
)

__all__ = [
    "DEFAULT_FILE",
    "FILE_VARIABLE",
    "MAX_LABEL_CHARACTERS",
    "TARGET_SOURCES",
    "AlertmanagerOptions",
    "CredentialsOptions",
    "DnsSdOptions",
    "FileSdOptions",
    "HistoryOptions",
    "HttpSdOptions",
    "KubernetesOptions",
    "NotifyOptions",
    "Options",
    "PollOptions",
    "PoolOptions",
    "PrometheusAuthorization",
    "PrometheusOptions",
    "RouterOptions",
    "RuleOptions",
    "SuppressOptions",
    "TargetOptions",
    "WebhookOptions",
    "load_options",
    "policy_of",
]
