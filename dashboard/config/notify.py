"""The options of notifications: the receivers of findings, and the URLs of the dashboard and its docs for links."""

import os
from collections import Counter
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from dashboard.config.address import page_url, replica_id, service_url
from dashboard.config.rules import Name, Part
from dashboard.config.sources import PathFromFile, PrometheusAuthorization
from dashboard.rules.findings import Severity

MAX_URL_BYTES = 4_000  # of url_file


def _hidden_url(text: SecretStr) -> SecretStr:
    """Return the URL of a webhook, which is a secret: no sentence repeats it."""
    try:
        return SecretStr(service_url(text.get_secret_value()))
    except ValueError:
        raise ValueError("not a URL; write https://host/path, or set url_env or url_file instead") from None


class AlertmanagerOptions(Part):
    """An Alertmanager, up to /api/v2. It gets every finding, and decides itself who is told."""

    url: Annotated[str, AfterValidator(replica_id)]
    authorization: PrometheusAuthorization | None = None


class WebhookOptions(Part):
    """A URL that gets messages on findings, in Alertmanager's format or in Slack's. The URL is a secret."""

    url: Annotated[SecretStr, AfterValidator(_hidden_url)] | None = None
    url_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    url_file: PathFromFile | None = None
    name: Name | None = None
    format: Literal["alertmanager", "slack"] = "alertmanager"
    min_severity: Severity = Severity.WARNING
    authorization: PrometheusAuthorization | None = None

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        if [self.url, self.url_env, self.url_file].count(None) != 2:  # noqa: PLR2004  one is set
            raise ValueError("url, url_env or url_file is needed; set one of them")
        return self

    @property
    def label(self) -> str:
        """Return what names this webhook: a new URL in its place is the same receiver."""
        if self.name or self.url_env:
            return self.name or self.url_env or ""
        if self.url_file:
            return self.url_file.name
        return str(urlsplit(self.url.get_secret_value()).hostname) if self.url else ""

    def find_url(self) -> str:
        """Return the URL; raise ValueError where its variable or file has none."""
        if self.url is not None:
            return self.url.get_secret_value()
        if self.url_env is not None:
            text, place = os.environ.get(self.url_env, ""), f"the variable {self.url_env}"
        else:
            try:
                with open(str(self.url_file), "rb") as file:  # noqa: PTH123  a part of it
                    text = file.read(MAX_URL_BYTES).decode(errors="replace")
            except OSError as error:
                raise ValueError(f"url_file cannot be read: {error.strerror}") from None
            place = "url_file"
        try:
            return service_url(text)
        except ValueError:
            raise ValueError(f"{place} has no URL" if text.strip() else f"{place} is empty or not set") from None

    @property
    def problem(self) -> str | None:
        """Return why nothing can be sent now; None where there is a URL."""
        try:
            self.find_url()
        except ValueError as error:
            return str(error)
        return None


def _with_different_labels(webhooks: tuple[WebhookOptions, ...]) -> tuple[WebhookOptions, ...]:
    """Refuse two webhooks with one label."""
    counts = Counter(each.label for each in webhooks)
    for label, number in counts.most_common(1):
        if number > 1:
            raise ValueError(f"{number} webhooks are named {label!r}; give each its own name")
    return webhooks


class NotifyOptions(Part):
    """The receivers of findings. Nothing is sent unless one is configured."""

    alertmanagers: tuple[AlertmanagerOptions, ...] = ()
    webhooks: Annotated[tuple[WebhookOptions, ...], AfterValidator(_with_different_labels)] = ()
    external_url: Annotated[str, AfterValidator(page_url)] | None = None
    docs_url: Annotated[str, AfterValidator(page_url)] | None = None
    resend_seconds: Annotated[float, Field(ge=5, le=3600)] = 60

    @property
    def has_receivers(self) -> bool:
        return bool(self.alertmanagers or self.webhooks)
