"""What receivers get: valid for Alertmanager, the same every time, harmless in Slack."""

import json
from datetime import timedelta

from dashboard.config import NotifyOptions
from dashboard.notify.alerts import Alert, AlertEvent
from dashboard.notify.sending import (
    MOST_IN_SLACK,
    alertmanager_body,
    annotations_of,
    label_fingerprint,
    labels_of,
    slack_body,
    webhook_body,
)
from tests.builders import HOSTILE, NOW
from tests.deploy.test_alerts import ALERTS, SITE
from tests.notify.polls import POLL, WARNING, alerts, poll, problem

URL = "https://fleet.example.com/vllm"
NOTIFY = NotifyOptions(external_url=URL)
NO_URL = NotifyOptions()
MINUTE = timedelta(minutes=1)


def firing() -> Alert:
    (alert,) = alerts(poll(0, problem()))
    return alert


def ended() -> Alert:
    return firing().with_changes(until=NOW + POLL, event=AlertEvent.RESOLVED)


def test_labels_are_what_does_not_change() -> None:
    more = alerts(poll(1, problem(sentence="Another text."), problem("chat-02")))[0]

    assert labels_of(more) == labels_of(firing())


def test_the_runbook_is_the_page_of_the_rule_also_of_a_rule_of_prometheus_and_alerts_have_one_prefix() -> None:
    linked = annotations_of(firing(), NotifyOptions(external_url=URL, docs_url=SITE))["runbook_url"]

    assert linked == ALERTS["VLLMFleetCriticalFinding"]["annotations"]["runbook_url"].replace(
        "{{ $labels.rule }}", "RT-01"
    )
    assert annotations_of(firing(), NotifyOptions(docs_url=SITE))["runbook_url"] == linked
    assert annotations_of(firing(), NOTIFY)["runbook_url"] == f"{URL}/findings?search=rule%3ART-01"
    assert labels_of(firing())["alertname"].startswith("VLLMFleet")


def test_without_the_url_of_the_dashboard_there_are_no_links() -> None:
    body = json.dumps(
        [
            alertmanager_body([firing()], NOW, NO_URL),
            webhook_body([firing()], NO_URL),
            slack_body([firing()], NO_URL),
        ]
    )

    assert "http" not in body
    assert "_url" not in body


def test_a_webhook_message_says_what_it_was_before() -> None:
    worse = firing().with_changes(event=AlertEvent.WORSE, was=WARNING)
    (only,) = webhook_body([worse], NOTIFY)["alerts"]

    assert (only["annotations"]["event"], only["annotations"]["previous_severity"]) == ("worse", "warning")


def test_a_message_of_ends_is_resolved_and_has_the_group_key_of_its_pool() -> None:
    body = webhook_body([ended()], NO_URL)

    assert (body["status"], body["groupKey"]) == ("resolved", '{}:{fleet="prod-eu", pool="chat"}')
    assert body["groupKey"] == webhook_body([firing()], NOTIFY)["groupKey"]


def test_the_fingerprint_of_no_labels_and_of_one_is_that_of_prometheus() -> None:
    assert label_fingerprint({}) == "cbf29ce484222325"  # model.emptyLabelSignature
    assert label_fingerprint({"a": "b"}) != label_fingerprint({"a": "c"})


def test_a_message_of_a_spread_says_on_how_many_replicas_it_is_now() -> None:
    (alert,) = alerts(poll(0, problem(), problem("chat-02")))
    worse = alert.with_changes(event=AlertEvent.WORSE)

    assert slack_body([worse], NOTIFY)["text"].splitlines()[2] == (
        ":red_circle: *Worse: critical, now on 2 replicas, RT-01 block-size-differs*"
    )
    (only,) = webhook_body([worse], NOTIFY)["alerts"]
    assert (only["annotations"]["event"], only["annotations"]["replicas"]) == ("worse", "2")
    assert "previous_severity" not in only["annotations"]


def test_a_slack_message_of_an_end_says_until_when() -> None:
    lines = slack_body([ended()], NO_URL)["text"].splitlines()

    assert lines[0] == "*prod-eu / chat: 1 resolved*"
    assert lines[2] == ":white_check_mark: *Resolved: critical, RT-01 block-size-differs*"
    assert lines[-1] == "Since 2026-03-02T11:42:13Z until 2026-03-02T11:42:43Z"


def test_a_message_of_a_suppression_says_so_with_owner_and_date_and_is_resolved_for_alertmanager() -> None:
    line = "Suppressed until 2026-12-24 by ann: canary"
    alert = ended().with_changes(event=AlertEvent.SUPPRESSED, annotations={"title": "RT-01", "suppression": line})
    lines = slack_body([alert], NO_URL)["text"].splitlines()
    (only,) = webhook_body([alert], NO_URL)["alerts"]
    (pushed,) = alertmanager_body([alert], NOW + MINUTE, NO_URL)

    assert lines[0] == "*prod-eu / chat: 1 suppressed*"
    assert lines[2] == ":no_bell: *Suppressed: critical, RT-01*"
    assert lines[-1] == line
    assert (only["status"], only["annotations"]["event"]) == ("resolved", "suppressed")
    assert only["annotations"]["suppression"] == pushed["annotations"]["suppression"] == line
    assert pushed["endsAt"] == "2026-03-02T11:42:43.000000Z"


def test_foreign_text_makes_no_link_and_no_mention_in_slack() -> None:
    (alert,) = alerts(poll(0, problem(sentence=f"{HOSTILE} <!channel> <https://evil.example|here> &lt;")))
    text = slack_body([alert.with_changes(pool="<!here>")], NOTIFY)["text"]

    assert text.count("<") == 1, "our own link"
    assert "&lt;!channel&gt;" in text
    assert "&amp;lt;" in text
    assert "\n=1+1" not in text


def test_each_alert_of_a_large_slack_message_is_named() -> None:
    many = [
        firing().with_changes(rule=f"RT-{number:02}", annotations={"title": f"rule {number:02}"})
        for number in range(40)
    ]
    text = slack_body(many, NOTIFY)["text"]

    assert all(f"rule {number:02}" in text for number in range(40))
    assert text.count("Since") == MOST_IN_SLACK
    assert len(text) < 40_000


def test_equal_alerts_give_equal_bytes() -> None:
    stored = Alert.model_validate_json(firing().model_dump_json())

    assert json.dumps(webhook_body([stored], NOTIFY)) == json.dumps(webhook_body([firing()], NOTIFY))
