"""Compare holds a pool against its baseline, and hands out what is shown as one."""

import re
from dataclasses import replace

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.compare import BASELINE, build_matrix
from dashboard.config.baselines import read_baseline
from dashboard.fleet import Baseline
from dashboard.render.csv_table import matrix_csv
from dashboard.rules.policy import Policy
from tests.builders import HOSTILE, NOW, alike, document, down, fleet, hostile, story
from tests.page_runner import html, open_page, tables
from tests.serving import ROOT

AGREED = Baseline("agreed", "chat-*", {"cache_config.block_size": "64"}, file="agreed.yaml")


def with_baseline(built: Fleet, baseline: Baseline = AGREED) -> Fleet:
    return inspected(replace(built, policy=Policy(baselines=(baseline,))), NOW)


def test_the_baseline_is_a_choice_and_a_column_where_the_pool_has_one() -> None:
    app = open_page(with_baseline(story()), "compare", pool="chat-70b", reference="baseline")

    assert app.selectbox(key="reference").value == "baseline"
    assert "baseline agreed" in app.selectbox(key="reference").options
    band, settings = tables(app)
    for table in (band, settings):
        assert re.search(r'<th scope="col">baseline agreed<small>reference</small></th>', table)
    row = re.search(r'<tr data-path="cache_config.block_size".*?</tr>', settings)
    assert row
    assert re.findall(r"<td[^>]*>(\d+)", row[0]) == ["64", "16", "32", "16"]
    assert re.search(r'<td class="none"[^>]*>not agreed</td>', band)


def test_in_the_csv_its_column_is_named_too() -> None:
    built = story()
    pool = next(each for each in built.pools if each.name == "chat-70b")
    found = build_matrix(pool, built.documents, BASELINE, baseline=AGREED, band=["cache_config.block_size"]).band

    assert matrix_csv(found).splitlines() == [
        "path,baseline agreed,A x15,B x1 http://chat-70b-17:8000,C x1 http://chat-70b-16:8000",
        "cache_config.block_size,64,16,32,16",
    ]


def test_elsewhere_it_is_no_choice_and_the_majority_stays() -> None:
    app = open_page(with_baseline(story()), "compare", pool="embed-8b", reference="baseline")

    assert app.selectbox(key="reference").value == "majority"
    assert not any("agreed" in option for option in app.selectbox(key="reference").options)


def test_the_majority_is_the_reference_until_somebody_chooses_another() -> None:
    app = open_page(with_baseline(story()), "compare", pool="chat-70b")

    assert app.selectbox(key="reference").value == "majority"
    assert "baseline agreed" not in "".join(tables(app))


def test_a_pool_that_is_all_alike_shows_in_what_it_deviates() -> None:
    told = document()
    app = open_page(
        with_baseline(fleet(alike("chat-1", 3, told), [told])), "compare", pool="chat-1", reference="baseline"
    )

    assert re.findall(r'<tr data-path="([^"]+)"', tables(app)[1]) == ["cache_config.block_size"]
    assert "1 deviation from the baseline agreed." in html(app)


def test_the_button_hands_out_the_largest_cohort_and_is_not_there_where_nothing_was_read() -> None:
    def offered(app_fleet: Fleet) -> list[str]:
        return [each.proto.label for each in open_page(app_fleet, "compare").get("download_button")]

    assert "Baseline" in offered(story())
    assert "Baseline" not in offered(fleet([down("chat-1")]))


def test_what_is_handed_out_is_a_baseline_whatever_servers_say_of_themselves() -> None:
    shown = hostile()
    agreed = Baseline(HOSTILE, HOSTILE, {HOSTILE: f'"{0}"'}, comments={HOSTILE: HOSTILE}, file=HOSTILE)

    assert "<script>alert" not in html(open_page(with_baseline(shown, agreed), "compare", reference="baseline"))
    assert "<script>alert" not in html(open_page(with_baseline(shown, agreed), "findings"))


def test_the_file_of_the_documentation_can_be_read() -> None:
    examples = re.findall(
        r"^```yaml\n(version:.*?)^```", (ROOT / "docs" / "baselines.md").read_text(), re.DOTALL | re.MULTILINE
    )

    assert [read_baseline(each.encode(), "a.yaml")[1] for each in examples] == [()]
