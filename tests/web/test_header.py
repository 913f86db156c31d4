"""The frame of every page shows where its data is from, whatever is written into a URL."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import inspected
from dashboard.config.load import ReloadStatus
from dashboard.fleet import formatting
from dashboard.views import pages
from dashboard.web import header
from dashboard.web.header import line_html, reload_html, stale_targets_html
from tests import builders
from tests.builders import HOSTILE, NOW, POLLED_AT, down, fleet, replica, story
from tests.page_runner import EVERY_PAGE, html, rerun, visit

BANNER = '<div class="snapshot-banner">'


def footer(**url: str) -> str:
    """The text of the footer of Findings."""
    return re.sub(
        "<[^>]*>", "", re.findall(r'<footer class="context">(.*?)</footer>', html(visit("findings", **url)))[0]
    )


def test_the_line_has_coverage_time_and_age() -> None:
    line = line_html(fleet([replica("a"), down("b")]), NOW, 15)

    assert '<b>1 of 2</b> <span class="word">answered</span>' in line
    assert 'title="2026-03-02T11:42:05Z"' in line
    assert line.endswith('· </span><span class="age">8 s ago</span></div>')
    assert line.count('class="roomy"') == 1  # hidden in a narrow header: the time of the data


def test_data_older_than_three_intervals_is_stale_and_a_narrow_header_keeps_its_age() -> None:
    fresh = line_html(fleet([replica("a")]), POLLED_AT + timedelta(seconds=45), 15)
    stale = line_html(fleet([replica("a")]), POLLED_AT + timedelta(seconds=46), 15)

    assert "stale" not in fresh
    assert "</span> <b>stale</b>" in stale
    assert stale.endswith('<span class="age">46 s ago</span></div>')
    assert 'data-status="The data is stale."' in stale  # for screen readers


def test_the_line_of_a_thousand_replicas_leaves_out_its_time_where_it_is_narrow() -> None:
    lines = [line_html(fleet([replica(str(each)) for each in range(number)]), NOW, 15) for number in (999, 1000)]

    assert [line.count('class="asof long"') for line in lines] == [0, 1]


def test_a_snapshot_has_a_time_and_no_age() -> None:
    frozen = replace(fleet([replica("a")]), snapshot="3fa9c01b2e")
    line = line_html(frozen, NOW + timedelta(days=90), 15, paused=True)

    assert "<b>2026-03-02T11:42:05Z</b>" in line
    assert not re.search("ago|stale|paused", line)


def test_a_paused_page_is_marked() -> None:
    assert "<b>paused</b>" in line_html(fleet([replica("a")]), NOW, 15, paused=True)
    assert "paused" not in line_html(fleet([replica("a")]), NOW, 15)


def test_a_failure_of_discovery_is_a_warning_and_stays_text() -> None:
    notice = stale_targets_html(HOSTILE)

    assert "Targets may be out of date." in notice
    assert "<script>" not in notice


def test_no_css_rule_asks_the_whole_document_what_it_has() -> None:
    """Chromium would style the whole page again at each change: a second on Capacity, which measures labels."""
    sheets = sorted(Path(header.__file__).parent.glob("look*.css"))

    assert sheets
    assert [sheet.name for sheet in sheets if "html:has(" in sheet.read_text()] == []


def test_with_a_pool_the_line_counts_its_findings_and_the_titles_those_of_all_pools() -> None:
    whole = inspected(story(), NOW)
    lines = {pool: line_html(whole, NOW, 15, pool=pool) for pool in ("chat-70b", "gemma-27b", "nope")}

    assert {pool: re.findall('title="([^"]*(?:finding|warning)[^"]*)"', line) for pool, line in lines.items()} == {
        "chat-70b": ["2 critical findings (3 in all pools)", "5 warnings (10 in all pools)"],
        "gemma-27b": ["1 warning (10 in all pools)"],
        "nope": ["3 critical findings", "10 warnings"],
    }


@pytest.mark.usefixtures("live")
def test_the_header_of_a_page_counts_the_findings_of_its_pool() -> None:
    assert "in all pools)" in html(visit("status", pool="gemma-27b"))
    assert "in all pools)" not in html(visit("status"))


@pytest.mark.usefixtures("live")
def test_a_live_page_has_its_context_and_no_banner() -> None:
    assert footer().startswith("prod-eu · live · data as of 2026-03-02T11:42:05Z · 39 of 40 answered")
    assert BANNER not in html(visit("findings"))


@pytest.mark.parametrize(
    ("url", "filters"),
    [
        ({"search": "rule:RT", "pool": "chat-70b"}, "filters: search=rule:RT, pool=chat-70b"),
        ({"replica": "nope", "pool": "nope"}, ""),
        ({"replica": "nope", "search": "x"}, "filters: search=x"),
        ({"severity": "nope"}, ""),
    ],
)
@pytest.mark.usefixtures("live")
def test_the_footer_has_the_choices_that_the_page_follows(url: dict[str, str], filters: str) -> None:
    assert "".join(footer(**url).partition("filters")[1:]) == filters


@pytest.mark.usefixtures("live")
def test_an_open_dialog_is_no_filter() -> None:
    shown = html(visit("snapshots", manage="fc12d51920", search="rollout")).rpartition('<footer class="context">')[2]

    assert "manage=" not in shown
    assert "search=rollout" in shown


@pytest.mark.usefixtures("live")
def test_an_unknown_name_is_ignored_with_a_warning() -> None:
    name = "Ignored invalid URL parameter <code>vllm=nope</code>."

    assert [page for page in EVERY_PAGE if name not in html(visit(page, vllm="nope"))] == []
    assert "Ignored" not in html(visit("capacity", pool="chat-70b"))


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("page", EVERY_PAGE)
def test_the_header_of_every_page_has_the_pool_of_the_url_and_the_way_to_all(page: str) -> None:
    chip = re.findall(
        r'<span class="scope">(.*?)</span><button type="button" class="search', html(visit(page, pool="chat-70b"))
    )

    assert len(chip) == 1
    assert '<b title="chat-70b">chat-70b</b>' in chip[0]
    assert f'href="{"./" if page == "overview" else page}?pool="' in chip[0]
    assert 'data-find="scope"' in chip[0]
    assert 'title="Limit every page to one cluster or pool">All pools</button>' in html(visit(page))


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("page", [each or "overview" for each in sorted(pages.SCOPED - {pages.CHANGES})])
def test_a_page_of_one_pool_counts_what_the_others_have_and_an_unknown_pool_is_no_all_clear(page: str) -> None:
    shown, unknown = html(visit(page, pool="gemma-27b")), html(visit(page, pool=HOSTILE))

    assert re.search("[Oo]ther pools:(</b>)? [^<]+", shown)
    assert "not found</h2>" in unknown
    assert ">Show all pools</a>" in unknown
    assert "<script>" not in unknown


@pytest.mark.usefixtures("live")
def test_a_setting_in_one_pool_has_its_values_in_the_others() -> None:
    shown = html(visit("settings", pool="gemma-27b", path="cache_config.block_size"))

    assert "<b>Other pools:</b> 16 on most replicas, 32 on 1 replica in chat-70b. Mixed in chat-70b · " in shown


@pytest.mark.few(3)
@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_parameter_with_the_name_of_an_argument_is_ignored(page: str) -> None:
    """Each link is made from the parameters of its page."""
    names = {"page": "x", "name": "x", "self": "x", "key": "x", "range_": "x", "anchor": "x", "choices": "x"}

    assert "Ignored" in html(visit(page, **names))


@pytest.mark.parametrize(
    ("page", "name", "more"),
    [
        ("findings", "severity", {}),
        ("capacity", "per", {}),
        ("replicas", "state", {}),
        ("compare", "reference", {}),
        ("replica", "tab", {"replica": builders.story().replicas[0].id}),
    ],
)
@pytest.mark.usefixtures("live")
def test_an_invalid_choice_is_ignored_with_a_warning(page: str, name: str, more: dict[str, str]) -> None:
    shown = html(visit(page, **{name: "zzz"}, **more))

    assert f"Ignored invalid URL parameter <code>{name}=zzz</code>." in shown


@pytest.mark.usefixtures("live")
def test_several_invalid_choices_are_one_warning_that_goes_with_them() -> None:
    app = visit("findings", severity="a", family="b")

    assert "Ignored invalid URL parameters <code>severity=a</code> and <code>family=b</code>." in html(app)
    app.query_params.clear()
    assert "Ignored" not in html(rerun(app))


@pytest.mark.usefixtures("live")
def test_a_new_name_of_a_snapshot_is_shown_in_the_next_run() -> None:
    key = service.snapshots().save(builders.story(), "Monday", NOW).id
    app = visit("findings", snapshot=key)
    service.snapshots().rename(key, "Tuesday")

    assert "“Monday”" in html(app)
    assert "“Tuesday”" in html(rerun(app))


@pytest.mark.usefixtures("live")
def test_choices_in_the_url_are_cut_and_stay_text() -> None:
    page = html(visit("findings", **{HOSTILE: HOSTILE * 50}))

    assert "<script>" not in page
    assert "<img" not in page
    assert len(footer(**{"x" * 500: "y" * 500})) < 300


def test_options_that_are_not_in_force_are_reported_with_their_place() -> None:
    wrong = reload_html(ReloadStatus(NOW, ("fleet.yaml:7: <b>nmae</b>: unknown key", "another")))
    assert "<b>fleet.yaml:7: &lt;b&gt;nmae&lt;/b&gt;: unknown key</b> and 1 more mistake" in wrong
    assert f"using the version of {formatting.clock(NOW)}" in wrong

    late = reload_html(ReloadStatus(NOW, (), ("read_only", "allowed_hosts")))
    assert "<code>read_only</code> and <code>allowed_hosts</code>. <b>Restart required</b>" in late
