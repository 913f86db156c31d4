"""Compare: the prefix sharing band, the difference matrix, its filters and references, and its dialogs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.analysis.plan import plan_of
from dashboard.compare import BASELINE
from dashboard.compare.matrix import lay_out
from dashboard.fleet import Baseline
from dashboard.render.tabular import matrix_csv
from dashboard.rules.policy import Policy
from dashboard.views.blocks import DifferenceTable
from dashboard.views.chosen_columns import write_chosen
from tests.builders import HASHING, HOSTILE, NOW, alike, document, down, fleet, hashing, hostile, replica, story
from tests.inspected_fleets import suppression
from tests.page_runner import (
    address,
    earlier,
    freeze,
    html,
    open_page,
    opened,
    rerun,
    show_with_snapshots,
    tables,
    visit,
)

BLOCK_SIZE = "cache_config.block_size"
DOCUMENT = document()
XXHASH = {"cache_config.prefix_caching_hash_algo": "xxhash"}
AGREED = Baseline("agreed", "chat-*", {BLOCK_SIZE: "64"}, file="agreed.yaml")


def rows(table: str) -> list[str]:
    """The paths of a table's rows, in order."""
    return re.findall(r'<tr data-path="([^"]+)"', table)


def row(table: str, path: str) -> str:
    found = re.search(rf'<tr data-path="{re.escape(path)}".*?</tr>', table, re.DOTALL)
    assert found
    return found[0]


def split_by_hashes(**settings: object) -> Fleet:
    """Three replicas with equal settings, each with its own random hash root."""
    own = document({**XXHASH, **settings})
    members = [replica(f"chat-{index}", document=own, engines=hashing(f"root {index}")) for index in range(3)]
    return fleet(members, [own], policy=HASHING)


def with_baseline(built: Fleet, baseline: Baseline = AGREED) -> Fleet:
    return inspected(replace(built, policy=Policy(baselines=(baseline,))), NOW)


def test_chosen_replicas_are_compared_and_unknown_ones_named() -> None:
    built = story()
    ids = f"{built.replicas[0].id},{built.replicas[-1].id},http://<b>gone"
    shown = html(open_page(built, "compare", replicas=ids))

    assert "2 replicas compared" in shown
    assert "http://&lt;b&gt;gone is not in this fleet." in shown


def test_the_first_of_the_chosen_replicas_is_the_reference_also_if_it_is_unreachable() -> None:
    built = story()
    last, first = built.replicas[5], built.replicas[0]
    lost = next(each.id for each in built.replicas if each.document is None)
    heads = re.findall(
        r'<th scope="col" data-column="([^"]+)".*?</th>', tables(open_chosen(built, last.id, first.id))[0]
    )
    assert heads == [last.id, first.id]

    app = open_chosen(built, lost, first.id, last.id, "http://gone:8000")
    heads = re.findall(r'<th scope="col" data-column="([^"]+)".*?</th>', tables(app)[0])
    assert heads == [first.id, last.id]
    assert "http://gone:8000 is not in this fleet." in html(app)


def open_chosen(built: Fleet, *ids: str) -> AppTest:
    return open_page(built, "compare", replicas=write_chosen(ids), show="All settings")


def test_a_replica_now_and_in_a_snapshot_are_columns_and_a_missing_snapshot_is_named(tmp_path: Path) -> None:
    then = document({BLOCK_SIZE: 64})
    show_with_snapshots(fleet([replica("chat-1", document=DOCUMENT)], [DOCUMENT]), tmp_path)
    key = freeze(earlier(fleet([replica("chat-1", document=then)], [then])), "Before")
    app = visit("compare", replicas=f"http://chat-1:8000,http://chat-1:8000@{key},http://chat-1:8000@ffffffffff")
    settings = tables(app)[0]

    assert "There is no snapshot “ffffffffff” here; it may have been deleted." in html(app)
    assert re.findall(r'<th scope="col" data-column="[^"]+" tabindex="0">(.*?)</th>', settings) == [
        "chat-1<small>chat, reference</small>",
        f"chat-1 @ Before<small>chat, snapshot {key[:10]}, data as of 2026-02-23T11:42:05Z</small>",
    ]
    assert re.findall(r"<td[^>]*>(\d+)", row(settings, BLOCK_SIZE)) == ["16", "64"]


def test_a_snapshot_is_added_to_one_replica_on_the_page(tmp_path: Path) -> None:
    show_with_snapshots(fleet([replica("chat-1", document=DOCUMENT)], [DOCUMENT]), tmp_path)
    key = freeze(service.current(), "Before")
    app = visit("compare", replicas="http://chat-1:8000")
    assert "Choose at least two replicas" in html(app)

    app.selectbox(key="added_snapshot").set_value(key)

    assert "2 replicas compared" in html(rerun(app))
    assert address(app, "replicas") == f"http://chat-1:8000,http://chat-1:8000@{key}"


@pytest.mark.parametrize("ids", ["http://gone:8000", ","])
def test_fewer_than_two_replicas_lead_to_the_page_that_chooses_them(ids: str) -> None:
    shown = html(open_page(story(), "compare", replicas=ids))

    assert "Choose at least two replicas" in shown
    assert 'href="replicas"' in shown


@pytest.mark.parametrize(
    ("url", "number", "text"),
    [
        pytest.param({"show": "All settings"}, 17, "17 compared settings", id="all settings"),
        pytest.param(
            {"section": "cache_config", "search": "util 0.88"},
            1,
            "Hidden: 6 filtered out, 10 equal.",
            id="section and search",
        ),
        pytest.param({"path": BLOCK_SIZE}, 7, "<pre><code>32</code></pre>", id="all values of a setting"),
        pytest.param({"cohort": "C"}, 7, ">chat-70b-16</a>", id="the replicas of a cohort"),
    ],
)
def test_a_url_opens(url: dict[str, Any], number: int, text: str) -> None:
    app = open_page(story(), "compare", pool="chat-70b", **url)

    assert len(rows(tables(app)[0])) == number
    assert text in html(app)


@pytest.mark.parametrize("url", [{}, {"show": "All settings"}, {"search": "block"}])
def test_no_setting_is_in_two_tables(url: dict[str, Any]) -> None:
    listed = [path for table in tables(open_page(story(), "compare", pool="chat-70b", **url)) for path in rows(table)]

    assert sorted(set(listed)) == sorted(listed)
    assert {BLOCK_SIZE, "cache_config.prefix_caching_hash_algo", "version"} <= set(listed)


def test_the_pool_that_the_page_chose_completes_its_url_and_one_of_the_url_does_not() -> None:
    assert opened(open_page(story(), "compare", show="All settings")) == ["compare?show=All+settings&pool=chat-70b"]
    assert opened(open_page(story(), "compare", pool="chat-70b")) == []


def test_filters_without_a_match_are_an_empty_state_with_a_way_back() -> None:
    app = open_page(story(), "compare", pool="chat-70b", search="no such thing")

    assert len(tables(app)) == 1  # what decides prefix sharing
    assert "No matches for these filters" in html(app)
    assert "None of 7 differing settings matches “no such thing”." in html(app)
    assert '<a href="compare?pool=chat-70b">Clear filters</a>' in html(app)


def test_an_unknown_pool_is_not_replaced_by_another() -> None:
    app = open_page(story(), "compare", pool="nope")
    assert "Pool “nope” not found" in html(app)
    assert "chat-70b" not in html(app)
    assert not tables(app)
    assert 'href="compare?pool=">Show all pools</a>' in html(app)


def test_without_a_choice_compare_begins_no_scope_and_a_choice_names_its_pool_in_the_url() -> None:
    assert opened(open_page(story(), "compare")) == []
    assert opened(open_page(story(), "compare", search="block")) == ["compare?search=block&pool=chat-70b"]


def test_equal_settings_with_different_block_hashes_are_a_measured_split() -> None:
    """The verdict is above the settings, and nothing looks like good news."""
    shown = html(open_page(split_by_hashes(), "compare"))
    order = ("(measured, settings match)", "No setting differs:", "Which cohorts can share prefixes")

    assert "<b> share no prefixes</b>" in shown
    assert "every engine process uses a random hash seed" in shown
    assert [shown.index(text) for text in order] == sorted(shown.index(text) for text in order)
    assert '<div class="notice good">' not in shown


def test_seed_policy_and_hashes_are_rows_of_the_band() -> None:
    split = split_by_hashes(seed_policy="random")
    band = tables(open_page(split, "compare"))[0]

    assert rows(band)[-2:] == ["seed_policy", "replicas.fingerprint"]
    assert re.findall(r'class="glyph (\w+)"', row(band, "replicas.fingerprint")) == ["critical"]
    assert ">3 different<" in band
    assert "Each engine computes these digests" in html(open_page(split, "compare", path="replicas.fingerprint"))


def test_a_reference_has_its_name_in_the_control_and_its_id_in_the_url() -> None:
    members = [replica(name, pool="chat", document=DOCUMENT) for name in ("c-10", "c-2")]
    app = open_page(fleet(members, [DOCUMENT]), "compare")
    assert app.selectbox(key="reference").options == ["majority", "cohort A", "c-2", "c-10"]

    app.selectbox(key="reference").set_value("http://c-10:8000")

    assert address(rerun(app), "reference") == "http://c-10:8000"


def test_only_a_small_pool_has_a_column_per_replica() -> None:
    small = tables(open_page(story(), "compare", pool="embed-8b", columns="Replicas"))[0]
    large = tables(open_page(story(), "compare", pool="chat-70b", columns="Replicas"))[0]

    assert (small.count('scope="col"'), large.count('scope="col"')) == (11, 4)
    assert "embed-8b-07" in small


@pytest.mark.parametrize(
    ("compared", "present", "absent"),
    [
        pytest.param(fleet([down("chat-1", pool=None)]), ("No pools to compare",), (), id="no pool"),
        pytest.param(empty_fleet("prod-eu"), ("Waiting for the first poll",), (), id="before the first poll"),
        pytest.param(
            fleet(alike("chat", 3, DOCUMENT), [DOCUMENT]),
            ("<b>No setting differs:</b> 17 settings compared.",),
            (),
            id="all equal",
        ),
        pytest.param(
            fleet([down("chat-1"), down("chat-2")]),
            ("Not compared (unreachable): chat-1 and chat-2.",),
            ("No difference:",),
            id="unknown is not equal",
        ),
        pytest.param(
            fleet([replica("chat-1", pool="chat"), replica("chat-2", pool="chat")]),
            ("No replica of this pool reports its settings", 'href="replicas"'),
            ("0 of 0 settings",),
            id="no settings reported",
        ),
    ],
)
def test_compare_of_an_unusual_fleet(compared: Fleet, present: Sequence[str], absent: Sequence[str]) -> None:
    shown = html(open_page(compared, "compare", show="All settings", path="model_config.tokenizer"))
    shown += html(open_page(compared, "compare"))

    assert [text for text in present if text not in shown] == []
    assert [text for text in absent if text in shown] == []


def test_a_baseline_is_a_reference_with_a_column_of_its_own() -> None:
    app = open_page(with_baseline(story()), "compare", pool="chat-70b", reference="baseline")
    settings, deciding = tables(app)

    assert "baseline agreed" in app.selectbox(key="reference").options
    assert app.selectbox(key="reference").value == "baseline"
    for table in (settings, deciding):
        assert re.search(r'<th scope="col">baseline agreed<small>reference</small></th>', table)
    assert re.findall(r"<td[^>]*>(\d+)", row(settings, BLOCK_SIZE)) == ["64", "16", "32", "16"]
    assert re.search(r'<td class="none"[^>]*>not agreed</td>', deciding)


def test_the_csv_has_the_column_of_the_baseline() -> None:
    built = story()
    pool = next(each for each in built.pools if each.name == "chat-70b")
    found = lay_out(pool, built.documents, BASELINE, baseline=AGREED).band([BLOCK_SIZE])

    assert matrix_csv(DifferenceTable("settings", "Settings", found, {})).splitlines() == [
        "path,baseline agreed,A x15,B x1 http://chat-70b-17:8000,C x1 http://chat-70b-16:8000",
        "cache_config.block_size,64,16,32,16",
    ]


@pytest.mark.parametrize("url", [{"pool": "embed-8b", "reference": "baseline"}, {"pool": "chat-70b"}])
def test_the_majority_is_the_reference_by_default_and_without_a_baseline(url: dict[str, Any]) -> None:
    app = open_page(with_baseline(story()), "compare", **url)

    assert app.selectbox(key="reference").value == "majority"
    assert "baseline agreed" not in "".join(tables(app))


def test_a_uniform_pool_shows_its_deviations_from_the_baseline() -> None:
    pool = with_baseline(fleet(alike("chat-1", 3, DOCUMENT), [DOCUMENT]))
    app = open_page(pool, "compare", pool="chat-1", reference="baseline")

    assert rows(tables(app)[0]) == [BLOCK_SIZE]
    assert "1 deviation from the baseline agreed." in html(app)


@pytest.mark.parametrize(("compared", "is_offered"), [(story(), True), (fleet([down("chat-1")]), False)])
def test_a_pool_with_settings_is_offered_as_a_baseline(compared: Fleet, *, is_offered: bool) -> None:
    app = open_page(compared, "compare")

    assert ("baseline_offer" in [each.key for each in app.button]) is is_offered


def test_the_dialog_for_baselines_says_what_to_do_with_a_downloaded_one() -> None:
    app = open_page(story(), "compare", pool="chat-70b")
    app.button(key="baseline_offer").click().run()
    page = html(app)

    assert "Download baseline" in [each.proto.label for each in app.get("download_button")]
    assert "list it under <code>baselines</code> in <code>fleet.yaml</code>" in page
    assert "python -m dashboard check --baseline chat-70b.yaml" in page
    assert "exit" not in page, "nothing was checked"


def test_the_dialog_shows_the_check_against_the_configured_baseline() -> None:
    page = html(open_page(with_baseline(story()), "compare", pool="chat-70b", check="baseline"))

    assert "<code>check --baseline agreed.yaml</code>" in page
    assert " from agreed.yaml on " in page
    assert "and any deviation from --baseline agreed.yaml" in page


def test_a_hostile_baseline_stays_text() -> None:
    agreed = Baseline(HOSTILE, HOSTILE, {HOSTILE: f'"{0}"'}, comments={HOSTILE: HOSTILE}, file=HOSTILE)
    pages = [
        open_page(with_baseline(hostile(), agreed), "compare", reference="baseline"),
        open_page(with_baseline(hostile(), agreed), "findings"),
    ]

    assert [page for page in pages if "<script>alert" in html(page)] == []


def test_the_causes_of_the_pool_open_on_compare_and_are_shared_by_their_url(demo_fleet: Fleet) -> None:
    app = open_page(demo_fleet, "compare", pool="chat-70b")
    listed, key = html(app), "cache_config.block_size"

    assert "Plan the fix</h2>" in listed
    assert f"compare?pool=chat-70b&amp;cause={key}" in listed
    assert "kubectl" not in listed
    app = open_page(demo_fleet, "compare", pool="chat-70b", cause=key)
    opened = html(app)
    for text in (
        "<h2>Restart 1 replica of chat-70b with --block-size 16</h2>",
        "<pre><code># patch.yaml",
        "<pre><code>kubectl -n NAMESPACE patch deployment/NAME",
        "Replace --block-size where set. A Deployment restarts all its pods.",
        "### 1 finding",
    ):
        assert text in opened
    assert "Intended? Accept 1 finding until a date" in [each.label for each in app.expander]
    gone = html(open_page(demo_fleet, "compare", pool="chat-70b", cause="RT-99"))
    assert "The plan no longer has this cause." in gone


@pytest.mark.parametrize("key", ["cache_config.block_size", "ID-05"])
def test_a_link_to_a_cause_whose_findings_were_accepted_says_by_whom_and_leads_to_them(
    demo_fleet: Fleet, key: str
) -> None:
    cause = next(each for each in plan_of(demo_fleet).causes if each.key == key)
    rules = {each.rule for each in cause.findings}
    entries = [suppression(rule=each, owner=HOSTILE) for each in rules]
    accepted = inspected(
        replace(demo_fleet, policy=replace(demo_fleet.policy, suppressions=tuple(entries)), plan=None), NOW
    )
    shown = html(open_page(accepted, "compare", pool="chat-70b", cause=key))

    assert f"Its findings are suppressed until {entries[0].until} by " in shown
    assert '<a href="findings?rules=Suppressed">Suppressed findings</a>' in shown
    assert "<script>alert" not in shown


def test_a_pool_without_findings_has_no_plan(demo_fleet: Fleet) -> None:
    calm = replace(demo_fleet, inspection=replace(demo_fleet.inspection, findings=()), plan=None)

    assert "Plan the fix" not in html(open_page(calm, "compare", pool="chat-70b"))
