"""The receivers of notifications: where they are, without their URLs in any sentence."""

import json
from pathlib import Path

import pytest

from dashboard.config import Options, load_options
from dashboard.errors import OptionsError
from dashboard.rules.findings import Severity
from vllm_fleet_provider.shared.redaction import redact

SECRET = "https://hooks.slack.com/services/T0/B0/SESAME7QX"


def load(folder: Path, text: str) -> Options:
    (folder / "fleet.yaml").write_text(text)
    return load_options(folder / "fleet.yaml")


def test_nothing_is_sent_unless_configured() -> None:
    assert (Options().notify.alertmanagers, Options().notify.webhooks) == ((), ())


def test_receivers_are_read_with_their_defaults(working_folder: Path) -> None:
    notify = load(
        working_folder,
        f"""
history: {{enabled: true}}
notify:
  external_url: https://fleet.example.com/vllm/
  docs_url: https://github.com/org/Repo/blob/main/docs/
  alertmanagers: [{{url: 'alertmanager:9093/am'}}, {{url: 'https://b', authorization: {{token_env: T}}}}]
  webhooks:
    - {{url: '{SECRET}', format: slack}}
    - {{url_env: HOOK, min_severity: critical}}
    - {{url_file: secrets/hook}}
    - {{url: 'http://a/b?c=d', name: mine}}
""",
    ).notify

    assert [each.url for each in notify.alertmanagers] == ["http://alertmanager:9093/am", "https://b:443"]
    assert [each.label for each in notify.webhooks] == ["hooks.slack.com", "HOOK", "hook", "mine"]
    assert [each.min_severity for each in notify.webhooks] == [
        Severity.WARNING,
        Severity.CRITICAL,
        *[Severity.WARNING] * 2,
    ]
    assert notify.webhooks[2].url_file == working_folder / "secrets" / "hook"
    assert notify.docs_url == "https://github.com/org/Repo/blob/main/docs"
    assert (notify.external_url, notify.resend_seconds) == ("https://fleet.example.com/vllm", 60)


def test_the_url_of_a_webhook_is_in_no_dump(working_folder: Path) -> None:
    options = load(working_folder, f"history: {{enabled: true}}\nnotify: {{webhooks: [{{url: '{SECRET}'}}]}}")

    assert "SESAME7QX" not in repr(options)
    assert "SESAME7QX" not in json.dumps(redact(options.model_dump(mode="json")))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "webhooks: [{url: 'hooks.slack.com services SESAME7QX'}]",
            "webhooks[0].url: not a URL; write https://host/path",
        ),
        (
            f"webhooks: [{{url: '{SECRET}', url_env: X}}]",
            "webhooks[0]: url, url_env or url_file is needed; set one of them",
        ),
        ("webhooks: [{format: slack}]", "webhooks[0]: url, url_env or url_file is needed; set one of them"),
        (
            f"webhooks: [{{url: '{SECRET}'}}, {{url: '{SECRET}'}}]",
            "2 webhooks are named 'hooks.slack.com'; give each its own",
        ),
        ("webhooks: [{url_env: X, format: teams}]", "format: unknown value; expected 'alertmanager' or 'slack'"),
        ("alertmanagers: [{url: 'ftp://a'}]", "has a scheme other than http and https"),
        ("resend_seconds: 1", "notify.resend_seconds: too small; the minimum is 5"),
        ("external_url: 'https://a/?x=1'", "has a query or a fragment"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line_and_without_the_url(
    working_folder: Path, line: str, sentence: str
) -> None:
    with pytest.raises(OptionsError) as raised:
        load(working_folder, f"history: {{enabled: true}}\nnotify:\n  {line}\n")

    assert sentence in str(raised.value)
    assert "fleet.yaml:3: " in str(raised.value)
    assert "SESAME7QX" not in str(raised.value)


def test_webhooks_need_the_history_and_alertmanagers_do_not(working_folder: Path) -> None:
    off = "history: {enabled: false}\nnotify:\n  "
    assert load(working_folder, f"{off}alertmanagers: [{{url: 'http://a:9093'}}]").notify.alertmanagers
    with pytest.raises(
        OptionsError, match=r"fleet.yaml:2: notify: webhooks need the history, which keeps each message"
    ):
        load(working_folder, f"{off}webhooks: [{{url: '{SECRET}'}}]")
