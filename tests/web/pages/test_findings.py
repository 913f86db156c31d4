"""The page Findings: list, filters in the URL, the finding that is open, outcomes of rules, empty states."""

import html as markup
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from streamlit.elements.lib import policies
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.analysis.plan import plan_of
from dashboard.config import load_options
from dashboard.config.rules import load_suppressions
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind, Remedy, Snippet
from dashboard.views import pages
from dashboard.views.finding_list import list_findings
from dashboard.views.summary import NO_PAIR
from dashboard.web.share import OFFERED
from tests.builders import HOSTILE, NOW, POLLED_AT, down, fleet, hostile, replica, story
from tests.findings_builder import (
    BLOCK_SIZE,
    evidence,
    finding,
    inspected_story,
    outcome,
    sighted,
    suppression,
    with_findings,
)
from tests.page_runner import address, copied, html, open_page, rerun, table_of, visit
from tests.serving import wait_for

TICKED = "finding_parts_0123456789_1_0_ticked"  # the ticked replicas of a finding
ENTRY = re.compile(r'<li class="(critical|warning|info)"([^>]*)><div class="how">.*?</li>')


def entries(app: AppTest) -> list[str]:
    """The entries of the list as HTML, in order."""
    return [found.group() for found in ENTRY.finditer(html(app))]


def attacked() -> Fleet:
    """A fleet whose findings contain hostile text."""
    built = hostile()
    names, ids = [each.name for each in built.replicas], [each.id for each in built.replicas]
    quoted = f'"{"".join(char for char in HOSTILE if char not in chr(34) + chr(10))}"'
    values = (evidence(HOSTILE, quoted, (ids[0],)), evidence(HOSTILE, "0", (ids[1],), is_reference=True))
    texts: dict[str, Any] = {"sentence": HOSTILE, "why": HOSTILE, "evidence": values}
    texts["remedy"] = Remedy(HOSTILE, (Snippet("flag", HOSTILE),))
    by = suppression(owner=HOSTILE, reason=HOSTILE)
    return with_findings(
        built,
        finding(built, names[:1], **texts, expired=by),
        suppressed=(finding(built, names[1:2], **texts, id="x", suppression=by),),
        notes=(HOSTILE,),
        outcomes=(
            outcome("RT-01", HOSTILE, OutcomeKind.ERROR, reason=HOSTILE),
            outcome("RT-02", HOSTILE, OutcomeKind.SKIPPED, reason=HOSTILE),
        ),
    )


def test_the_entry_that_accepts_a_finding_is_shown_at_once_and_has_owner_and_reason_once_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    built = inspected(story(), NOW)
    key = list_findings(built).active[0].key
    app = open_page(built, "findings", finding=key)
    assert "owner: OWNER\n  reason: REASON\n" in copied(app)[-1]

    app.text_input(key=f"accept_owner_{key}").set_value("ann")
    app.text_input(key=f"accept_reason_{key}").set_value("canary")
    page = rerun(app)
    assert "owner: ann" in copied(page)[-1]
    assert "Suppresses this finding on " in html(page)
    assert "(90 days)." in html(page)

    page.button(key=f"accept_until_{key}_7").click()
    assert rerun(page).date_input(key=f"accept_until_{key}").value == service.now().date() + timedelta(days=7)
    assert not policies._shown_default_value_warning


def fill_in(app: AppTest, key: str) -> AppTest:
    app.text_input(key=f"accept_owner_{key}").set_value("ann")
    app.text_input(key=f"accept_reason_{key}").set_value("canary")
    return app  # a form sends them with its button


def test_an_accepted_finding_is_saved_with_an_audit_line_and_suppressed_at_once_and_can_be_undone(
    accepting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = list_findings(service.current()).active[0]
    page = visit("findings", finding=listed.key)
    page.button(key=f"accept_save_{listed.key}").click()
    assert "Enter owner and reason." in html(rerun(page))
    assert not accepting.exists()
    page = fill_in(page, listed.key)
    assert "honor it until its date" in html(page)
    before = len(entries(page))
    page.button(key=f"accept_save_{listed.key}").click()
    rerun(page)
    assert "by ann: canary (accepted.yaml)" in html(page)
    assert len(entries(page)) < before

    (entry,) = load_suppressions(accepting)
    assert (entry.rule, entry.owner, entry.author) == (listed.finding.rule, "ann", "")
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (line["audit"], line["rule"], line["owner"]) == ("accept", entry.rule, "ann")
    assert listed.finding.id in {each.id for each in service.current().inspection.suppressed}

    page.button(key=f"accept_undo_{listed.key}").click()
    assert len(entries(rerun(page))) == before
    assert load_suppressions(accepting) == ()
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["audit"] == "undo"
    assert listed.finding.id in {each.id for each in service.current().inspection.findings}


def test_a_cause_is_accepted_with_one_form_for_all_its_findings_and_undone_with_one_button(accepting: Path) -> None:
    cause = plan_of(service.current()).causes[0]
    page = fill_in(visit("overview", cause=cause.key), cause.key)
    assert f"Suppresses {'this finding' if len(cause.findings) == 1 else 'these'}" in html(page)
    page.button(key=f"accept_save_{cause.key}").click()
    assert "by ann." in html(rerun(page))
    suppressed = {each.id for each in service.current().inspection.suppressed}
    assert suppressed >= {each.id for each in cause.findings}

    page.button(key=f"accept_undo_{cause.key}").click()
    rerun(page)
    assert load_suppressions(accepting) == ()
    assert plan_of(service.current()).causes[0].key == cause.key


def test_what_fleet_yaml_suppresses_cannot_be_undone_on_the_page(accepting: Path) -> None:
    listed = list_findings(service.current()).active[0]
    file = accepting.with_name("fleet.yaml")
    entry = {"rule": listed.finding.rule, "owner": "bob", "reason": "agreed", "until": "2099-12-31"}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "suppress": [entry]}))
    service.start(load_options(file))
    wait_for(lambda: bool(service.current().inspection.suppressed))
    page = visit("findings", finding=list_findings(service.current()).suppressed[0].key)

    assert "Suppressed until 2099-12-31 by bob: agreed (fleet.yaml)" in html(page)
    assert not [each for each in page.button if str(each.key).startswith("accept_")]


@pytest.mark.parametrize("more", [{"read_only": True}, {"suppressions_file": None}])
def test_without_a_file_or_with_read_only_the_entry_can_only_be_copied(accepting: Path, more: dict[str, Any]) -> None:
    file = accepting.with_name("fleet.yaml")
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **more}))
    service.start(load_options(file))
    wait_for(lambda: bool(service.current().inspection.findings))
    key = list_findings(service.current()).active[0].key
    page = fill_in(visit("findings", finding=key), key)

    assert "Add this to fleet.yaml." in html(page)
    assert not [each for each in page.button if each.key == f"accept_save_{key}"]
    assert not accepting.exists()


def test_a_file_that_cannot_be_extended_is_reported_on_the_page_and_refused_in_the_audit_log(
    accepting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepting.write_text("suppress: []\n")
    accepting.chmod(0o444)
    key = list_findings(service.current()).active[0].key
    page = fill_in(visit("findings", finding=key), key)
    page.button(key=f"accept_save_{key}").click()

    assert "accepted.yaml: read-only; make it writable" in html(rerun(page))
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (line["audit"], line["result"]) == ("accept", "failed")
    assert accepting.read_text() == "suppress: []\n"


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"search": "rule:PD", "pool": "deepseek-v3/decode"}, ["PD-02"]),
        ({"search": "rule:CO-01"}, ["CO-01"]),
        ({"search": "severity:critical block"}, ["RT-01"]),
        ({"search": "severity:nonsense rule:removed"}, ["RT-05", "RT-01", "PD-02", "CO-01"]),
    ],
)
def test_filters_of_the_url_narrow_the_list_and_invalid_ones_are_ignored(
    choice: dict[str, Any], left: list[str]
) -> None:
    found = entries(open_page(inspected_story(), "findings", **choice))

    assert [re.findall(r'class="rule">(\S+) ', each)[0] for each in found] == left


def test_a_filter_is_written_into_the_url() -> None:
    app = open_page(inspected_story(), "findings")
    app.multiselect(key="filter_severity").set_value(["warning"])
    rerun(app)
    app.multiselect(key="filter_rule").set_value(["PD-02"])
    rerun(app)

    assert len(entries(app)) == 1
    assert address(app, "search") == app.text_input(key="search").value == "severity:warning rule:PD-02"
    assert "filter_pool" not in [each.key for each in app.multiselect], "the header has the pool of all pages"
    app.multiselect(key="filter_severity").set_value([])
    app.multiselect(key="filter_rule").set_value([])
    assert address(rerun(app), "search") is None
    assert "4 findings" in html(app)


def test_a_mistake_in_the_search_is_a_sentence_above_the_list() -> None:
    shown = html(open_page(inspected_story(), "findings", search="sevrity:critical"))

    assert "Ignored “sevrity:critical”: unknown filter. Did you mean severity?" in shown
    assert 'class="findings"' in shown


def test_a_filter_that_only_suppressed_findings_match_says_so() -> None:
    built = inspected_story()
    (suppressed,) = built.inspection.suppressed
    shown = html(open_page(built, "findings", search=f"rule:{suppressed.rule} pool:{suppressed.pools[0]}"))

    assert "No matches for these filters" in shown
    assert "They hide all 4 findings. 1 suppressed finding, listed below under Suppressed." in shown
    assert '<a href="findings">Clear filters</a>' in shown


def test_a_pool_without_findings_says_so_though_others_have_some() -> None:
    """There is no filter to clear."""
    shown = html(open_page(inspected_story(), "findings", pool="gemma-27b"))

    assert "<h1>gemma-27b: no findings</h1>" in shown
    assert "<b>No findings.</b>" in shown
    assert "Clear filters" not in shown


@pytest.mark.parametrize("others", [True, False], ids=["others-have-findings", "no-findings"])
@pytest.mark.parametrize(("pool", "number"), [("gemma-27b", 1), ("chat-70b", 0)])
def test_with_a_pool_its_own_suppressed_findings_are_counted_and_listed(
    pool: str, number: int, *, others: bool
) -> None:
    built = inspected_story()
    built = built if others else replace(built, inspection=replace(built.inspection, findings=()))
    app = open_page(built, "findings", pool=pool, rules="Suppressed")
    options = [option.content for option in app.segmented_control(key="rules").proto.options]

    assert f"Suppressed {number}" in options
    assert html(app).count("1 suppressed") == number
    assert ("No suppressed findings." in html(app)) == (not number)


@pytest.mark.parametrize(
    ("built", "title"),
    [
        (with_findings(story(), outcomes=(outcome(kind=OutcomeKind.SKIPPED),)), "No rule was evaluated"),
        (inspected(fleet([replica("chat-1"), replica("chat-2")]), NOW), "No findings"),
    ],
)
def test_no_findings_is_not_good_without_compared_settings(built: Fleet, title: str) -> None:
    shown = html(open_page(built, "findings"))

    assert f"<h1>{title}</h1>" in shown
    assert "<b>No rule on settings was evaluated.</b>" in shown
    assert 'class="notice good"' not in shown


def test_rule_errors_are_above_the_list() -> None:
    built = inspected_story()
    broken = [outcome("RT-02", pool, OutcomeKind.ERROR, reason="KeyError: 'x'") for pool in ("chat-70b", "gemma-27b")]
    inspection = replace(built.inspection, outcomes=(*built.inspection.outcomes, *broken))
    shown = html(open_page(replace(built, inspection=inspection), "findings"))

    assert "<b>Rule errors: 1 rule not evaluated.</b>" in shown
    assert " on chat-70b, gemma-27b: KeyError: &#39;x&#39; (×2)" in shown or "KeyError: &#39;x&#39;." in shown
    assert shown.index("KeyError") < shown.index('class="findings"')


@pytest.mark.parametrize("choice", [{}, {"finding": "0123456789"}, {"rules": "Suppressed"}, {"rules": "Skipped"}])
def test_foreign_text_is_never_markup(choice: dict[str, Any]) -> None:
    app = open_page(attacked(), "findings", **choice)

    assert not re.search(r"<script|<img", html(app), re.IGNORECASE)
    assert not app.markdown
    assert markup.escape("<script>alert(1)</script>") in html(app)


def test_without_pools_the_page_says_why_but_shows_findings_on_replicas_without_a_pool() -> None:
    silent = replace(fleet([down("a", pool=None)]), polled_at=POLLED_AT)
    found = with_findings(silent, replace(finding(silent, ["a"]), pools=(), subject="fleet", evidence=()))

    assert "No replicas configured" in html(open_page(replace(empty_fleet("x"), polled_at=POLLED_AT), "findings"))
    assert "No pools to compare" in html(open_page(with_findings(silent), "findings"))
    assert "<h1>1 critical</h1>" in html(open_page(found, "findings"))
    assert "<h2>Block size is 32 instead of 16" in html(open_page(found, "findings", finding="0123456789"))


def test_a_finding_of_an_unknown_rule_opens_without_the_page_of_the_rule() -> None:
    app = open_page(with_findings(story(), finding(story(), rule="ZZ-99")), "findings", finding="0123456789")

    assert "<h2>Block size is 32" in html(app)
    assert [each.label for each in app.expander] == ["Compare replicas", "Accept this finding"]


def test_a_finding_that_does_not_exist_is_reported_above_the_list() -> None:
    app = open_page(inspected_story(), "findings", finding="ffffffffff", search="severity:critical")

    assert "Finding not found." in html(app)
    assert len(entries(app)) == 2
    assert "What to do" not in html(app)


def test_the_lists_of_rules_have_their_counts_and_the_filters_apply() -> None:
    built = inspected_story()
    app = open_page(built, "findings")
    options = [option.content for option in app.segmented_control(key="rules").proto.options]
    idle = len(ALL_RULES) - len({each.rule for each in built.inspection.outcomes} - {"SH-01"})
    shown = {name: html(open_page(built, "findings", rules=name)) for name in ("Passed", "Skipped", "Not applicable")}

    assert options == ["Passed 10", "Skipped 1", f"Not applicable {idle}", "Suppressed 1", "Ignored 0"]
    assert "CO-02 served-names-differ" in shown["Passed"]
    assert "RT-06 hash-root-differs" in shown["Skipped"]
    assert "env.PYTHONHASHSEED: reported by 0 of 2 replicas (×2); reported by 0 of 18" in shown["Skipped"]
    assert "Only for: kv-store." in shown["Not applicable"]
    assert NO_PAIR in shown["Not applicable"]
    assert ">gemma-27b</td>" in html(open_page(built, "findings", pool="gemma-27b", rules="Passed"))
    assert "No rules." in html(open_page(built, "findings", search="rule:SH-01", rules="Passed"))


def test_ticked_replicas_of_a_finding_are_compared_the_affected_ones_first_and_a_name_opens_its_page() -> None:
    app = open_page(with_findings(story(), finding(story())), "findings", finding="0123456789")
    shown = table_of(app, f"{BLOCK_SIZE} by replica")
    assert list(shown) == ["Replica", "Affected", "Pool", "Cohort", "Value", "Origin"]
    assert shown["Affected"] == ["yes"] + ["no"] * 17
    assert shown["Value"][:2] == ["32", "16"]
    assert shown["Value"][-1] == ""  # never read

    assert f"Value of {BLOCK_SIZE}." in html(app)
    app.session_state[TICKED] = [f"http://{name}:8000" for name in shown["Replica"][1::-1]]

    ids = "%2C".join(f"http%3A%2F%2F{name}%3A8000" for name in shown["Replica"][:2])
    assert f'<a href="compare?replicas={ids}">Compare 2 replicas</a>' in html(rerun(app))
    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-17%3A8000"' in html(app)


def shown_keys(app: AppTest) -> list[str]:
    """The ids of the findings of the list, in order."""
    return [found.group(1) for entry in entries(app) if (found := re.search(r"finding=(\w+)", entry))]


def with_times() -> Fleet:
    """A fleet with four findings: the first one is new, the second one hours old, the third one days."""
    built = story()
    rules = ("RT-01", "RT-02", "RT-03", "RT-05")
    return sighted(with_findings(built, *(finding(built, rule=rule, id=rule.replace("-", "")) for rule in rules)))


def test_the_choice_of_what_is_new_is_in_the_url_and_filters_the_list_and_its_export() -> None:
    app = open_page(with_times(), "findings")
    app.multiselect("filter_new").set_value(["1h"])
    rerun(app)

    assert address(app, pages.SEARCH) == "new:1h"
    assert shown_keys(app) == ["RT01"]
    assert app.session_state[OFFERED]().context.filters[-1] == ("new_since", "2026-03-02T10:42:05Z")
    assert "search=new%3A1h" in entries(app)[0]
    assert shown_keys(open_page(with_times(), "findings", search="new:24h", sort="-since")) == ["RT01", "RT02"]


def test_a_url_may_name_any_period_for_what_is_new() -> None:
    app = open_page(with_times(), "findings", search="new:6h")

    assert app.multiselect("filter_new").value == ["6h"]
    assert shown_keys(app) == ["RT01", "RT02"]
    assert app.session_state[OFFERED]().context.filters[-1] == ("new_since", "2026-03-02T05:42:05Z")
    assert "Ignored" not in html(app)
    shown = html(open_page(with_times(), "findings", search="new:6x"))
    assert "Ignored “new:6x”: unknown value. Known: 1h, 24h and 7d." in shown


def test_where_nothing_is_new_the_page_says_since_when() -> None:
    said = " None is new since 2026-03-02T11:37:05Z."

    assert f"They hide all 4 findings.{said}" in html(open_page(with_times(), "findings", search="new:5m"))
    assert said not in html(open_page(with_times(), "findings", search="new:1h rule:RT-03"))


def test_without_a_history_there_is_no_choice_of_what_is_new_and_the_url_is_reported() -> None:
    app = open_page(inspected_story(), "findings", search="new:24h", sort="-since")

    assert "filter_new" not in [each.key for each in app.multiselect]
    assert "newest first" not in app.selectbox(pages.SORT).options
    assert len(entries(app)) == 4
    assert "Ignored “new:24h”: unknown filter." in html(app)
