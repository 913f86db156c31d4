"""The page Status: sources, options, assumptions, missing facts and versions."""

from dataclasses import replace
from datetime import UTC, datetime

from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.config import Options, TrafficOptions
from dashboard.config.load import ReloadStatus
from dashboard.fleet import Failure, FailureKind, LabelConflict, ReceiverStatus, Source, SourceStatus
from dashboard.fleet.traffic import Traffic
from dashboard.views.blocks import Paragraph, Table, View, quiet_paragraph
from dashboard.views.excluded import CREDENTIALS, PROVIDER
from dashboard.views.status import ASK_EACH, status_report
from dashboard.views.traffic import why_no_rates
from tests.builders import NOW, alike, document, down, fleet, probe, replica, story
from tests.used import traffic, with_traffic

AT = datetime(2026, 11, 23, 14, 2, tzinfo=UTC)
OPTIONS = Options.model_validate(
    {
        "name": "prod",
        "targets": ["http://gpu-1:8000"],
        "pools": {"chat": {"router": "kv-events"}},
        "redact": {"patterns": ["sk-[a-z]{4}"]},
    }
)


def table(view: View, name: str) -> Table:
    (found,) = (
        block for part in view.parts for block in part.blocks if isinstance(block, Table) and block.name == name
    )
    return found


def texts(found: Table) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in found.rows]


def paragraphs(view: View) -> list[str]:
    blocks = (block for part in view.parts for block in part.blocks)
    return ["".join(piece.text for piece in block.line) for block in blocks if isinstance(block, Paragraph)]


def built() -> Fleet:
    """A read pool, and a replica that is down."""
    usual = document()
    return inspected(fleet([*alike("chat", 2, usual), down("chat-9", pool="chat")], [usual]), NOW)


def test_each_receiver_has_its_host_what_waits_and_its_error() -> None:
    receivers = [
        ReceiverStatus("alertmanager", "", "am:9093", AT),
        ReceiverStatus("slack", "channel", "hooks.slack.com:443", None, 1_200, "status 404"),
        ReceiverStatus("webhook", "HOOK", "", error="the variable HOOK is empty or not set"),
    ]
    view = status_report(built(), options=OPTIONS, receivers=receivers)

    assert texts(table(view, "receivers")) == [
        ("alertmanager", "-", "am:9093", "0", "2026-11-23T14:02:00Z", "-"),
        ("slack", "channel", "hooks.slack.com:443", "1,200", "-", "status 404"),
        ("webhook", "HOOK", "-", "0", "-", "the variable HOOK is empty or not set"),
    ]


def test_the_options_in_force_are_shown_without_the_url_of_a_webhook() -> None:
    hook = {"url": "https://hooks.slack.com/services/T0/B0/SESAME7QX"}
    options = Options.model_validate({"history": {"enabled": True}, "notify": {"webhooks": [hook]}})
    shown = texts(table(status_report(built(), options=options), "options"))

    assert "notify.webhooks" in {row[0] for row in shown}
    assert "SESAME7QX" not in repr(shown)


def test_each_source_has_its_targets_its_last_success_and_its_error() -> None:
    known = built()
    ids = tuple(each.id for each in known.replicas)
    sources = [
        SourceStatus("fleet.yaml", "static", ids[:1], AT),
        SourceStatus("a.json", "file_sd", ids, None, "a.json: not JSON"),
    ]
    view = status_report(known, sources=sources, options=OPTIONS, reload=ReloadStatus(AT))

    assert view.headline == "1 source failed, 2 of 3 targets answered"
    assert texts(table(view, "sources")) == [
        ("fleet.yaml", "static", "1", "1", "2026-11-23T14:02:00Z", "-"),
        ("a.json", "file_sd", "3", "2", "-", "a.json: not JSON"),
    ]
    first, *others = texts(table(view, "targets"))
    assert (first[0], first[2]) == ("chat-9", "down")
    assert first[5] == "a.json"
    assert {(row[2], row[4], row[5]) for row in others} == {("up", "-", "fleet.yaml and a.json"), ("up", "-", "a.json")}


def test_labels_on_which_two_sources_disagree_are_listed_with_both_values() -> None:
    known = built()
    replica = known.replicas[0]
    conflicts = [LabelConflict(replica.id, "pool", "chat", "fleet.yaml", "other", "http://inventory/x")]
    view = status_report(known, conflicts=conflicts, options=OPTIONS)

    assert texts(table(view, "conflicts")) == [
        (replica.name, "pool", "chat", "fleet.yaml", "other", "http://inventory/x")
    ]


def test_options_are_shown_by_path_with_other_defaults_and_mistakes() -> None:
    status = ReloadStatus(AT, ("fleet.yaml:7: nmae: unknown key",), ("read_only",))
    view = status_report(built(), options=OPTIONS, reload=status)
    rows = {row[0]: row[1:] for row in texts(table(view, "options"))}

    assert rows["name"] == ('"prod"', '"fleet"')
    assert rows["poll.interval_seconds"] == ("15.0", "")
    assert rows["pools.chat.router"] == ('"kv-events"', "")
    assert {path for path in rows if path.startswith("targets")} == {"targets_allowed"}
    assert paragraphs(view)[-3:] == [
        "fleet.yaml, loaded 2026-11-23T14:02:00Z.",
        "Not in force: fleet.yaml:7: nmae: unknown key",
        "Restart required: read_only.",
    ]


def test_replicas_are_grouped_by_the_facts_that_are_missing_with_what_reveals_them() -> None:
    usual = document()
    plain = replica("plain", document=usual, sources=(Source.METRICS,))
    old = replica("old", document=usual, sources=(Source.PROVIDER,))
    alike = replace(old, id="http://alike:8000", name="alike", version="0.33.0", same_digest_as=old.id)
    locked = replace(
        plain,
        id="http://locked:8000",
        name="locked",
        probes=(probe("/v1/models", failure=Failure(FailureKind.UNAUTHORIZED, "wants a key")),),
    )
    view = status_report(fleet([plain, locked, old, alike, down("gone")], [usual]))
    steps = {row[1]: row[4] for row in texts(table(view, "coverage"))}

    assert PROVIDER in steps["plain"]
    assert steps["locked"] == CREDENTIALS
    assert PROVIDER not in steps["old"].split("; ")
    assert steps["gone"] == "make the replica reachable"
    assert steps["alike"] == ASK_EACH
    assert view.lead.startswith("0 of 5 replicas report every fact")


def test_replicas_are_grouped_by_their_hit_rate_or_why_they_have_none() -> None:
    usual, off = document(), document({"cache_config.enable_prefix_caching": False})
    members = [
        *alike("chat", 4, usual),
        *alike("idle", 2, usual),
        *alike("chat", 1, off, first=5),
        down("gone", pool="chat"),
    ]
    few = traffic(0.5, requests=2)
    rates: dict[str, float | Traffic | None] = {"chat-01": 0.6, "chat-02": 0.5, "chat-03": few, "chat-05": 0.0}
    rates["idle"] = traffic(0.0, requests=1)
    view = status_report(with_traffic(fleet(members, [usual, off]), rates), options=OPTIONS)

    assert "Counters of use are read every 1 min. Rates are of the last 15 min." in paragraphs(view)
    assert [row[:3] for row in texts(table(view, "rates"))] == [
        ("3", "not enough traffic", "chat-03, idle-01, idle-02"),
        ("2", "known", "chat-01, chat-02"),
        ("1", "not read twice yet", "chat-04"),
        ("1", "caching off", "chat-05"),
        ("1", "unreachable", "gone"),
    ]
    assert texts(table(view, "rates"))[0][3] == (
        "Each has fewer than 20 requests or 10,000 prompt tokens in the window."
    )


def test_without_counters_of_use_the_status_says_why() -> None:
    disabled = OPTIONS.model_copy(update={"traffic": TrafficOptions(enabled=False)})
    off, past = (
        next(each for each in view.parts if each.anchor == "traffic")
        for view in (
            status_report(built(), options=disabled),
            status_report(replace(built(), recorded_traffic={})),
        )
    )

    assert paragraphs(replace(status_report(built()), parts=(off,))) == [
        "Off: traffic.enabled is false. To read counters of use, set it to true."
    ]
    assert past.blocks == (quiet_paragraph(why_no_rates(replace(built(), recorded_traffic={}))),)


def test_a_snapshot_has_no_options_and_an_empty_fleet_no_targets() -> None:
    assert [part.anchor for part in status_report(replace(story(), snapshot="ab")).parts] == [
        "assumptions",
        "coverage",
        "traffic",
        "versions",
    ]
    empty = status_report(empty_fleet("fleet"), options=Options())
    assert empty.headline == "Waiting for the first poll"
    assert status_report(replace(empty_fleet("fleet"), polled_at=NOW)).headline == "No targets"
    assert "No sources." in paragraphs(empty)
    assert any("No replica reported its version." in each for each in paragraphs(empty))
