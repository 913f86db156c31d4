"""Rows of Compare by the origin of their values: set by an argument, or different although nobody set them."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Argument
from dashboard.render.tabular import matrix_csv
from dashboard.views.compare import compare_report
from dashboard.views.pool_comparison import OriginFilter, SettingChoice, compare_chosen, hidden_text, unmatched_text
from tests.builders import document, fleet, replica
from tests.page_runner import address, html, open_page, rerun, tables
from tests.views.walking import text_of

SIZE, UTILIZATION = "cache_config.block_size", "cache_config.gpu_memory_utilization"
SEQUENCES = "scheduler_config.max_num_seqs"
USUAL, OTHER = document(), document({SIZE: 32, UTILIZATION: 0.8, SEQUENCES: 7, "seed_policy": "x"})


def compared(*given: tuple[str, ...] | None) -> Fleet:
    """Two usual replicas and one with other values, each started with some arguments, or none reported."""
    members = [replica(f"chat-{place}", document=OTHER if place else USUAL) for place in range(len(given))]
    arguments = [None if each is None else tuple(Argument(name, "command_line") for name in each) for each in given]
    own = [replace(each, set_arguments=set_by) for each, set_by in zip(members, arguments, strict=True)]
    return fleet(own, [USUAL, OTHER])


def listed(shown: Fleet, origin: OriginFilter, *, only_differences: bool = True) -> tuple[list[str], int]:
    """The rows of the choice, and how many are hidden because their origin is unknown."""
    found = compare_chosen(shown, shown.pools[0], SettingChoice(only_differences=only_differences, origin=origin))[
        0
    ].matrix
    return sorted(row.path for row in found.rows), found.unknown_origin


def test_settings_that_differ_although_nobody_set_them_are_kept() -> None:
    assert listed(compared((), ("--block-size",)), OriginFilter.UNSET) == ([UTILIZATION, SEQUENCES], 0)


def test_only_settings_that_an_argument_set_are_kept() -> None:
    shown = compared(("--max-model-len",), ("--block-size",))

    assert listed(shown, OriginFilter.SET) == ([SIZE], 0)
    assert listed(shown, OriginFilter.SET, only_differences=False)[0] == [SIZE, "model_config.max_model_len"]


def test_equal_values_never_differ_although_nobody_set_them() -> None:
    assert listed(compared((), ()), OriginFilter.UNSET, only_differences=False)[0] == [SIZE, UTILIZATION, SEQUENCES]


def test_settings_with_an_unknown_origin_are_counted_and_explained() -> None:
    shown = compared((), None)
    found = compare_chosen(shown, shown.pools[0], SettingChoice(origin=OriginFilter.UNSET))[0].matrix

    assert (len(found.rows), found.unknown_origin, found.filtered) == (0, 3, 0)
    sentence = (
        "3 settings hidden: origin unknown (arguments not reported, see docs/config-api.md, or setting not in the "
    )
    assert sentence in hidden_text(found, [])
    assert unmatched_text(found, SettingChoice(origin=OriginFilter.UNSET)).startswith(
        f"None of 3 differing settings matches origin “differs, set by nobody”. {sentence}"
    )


def test_one_replica_that_set_it_is_enough_even_if_others_are_unknown() -> None:
    shown = compared(None, ("--block-size",))

    assert listed(shown, OriginFilter.SET) == ([SIZE], 2)
    assert listed(shown, OriginFilter.UNSET) == ([], 2)


def test_any_origin_hides_nothing() -> None:
    assert listed(compared(None, None), OriginFilter.ANY) == ([SIZE, UTILIZATION, SEQUENCES], 0)


@pytest.mark.parametrize(("origin", "is_shown"), [("set", True), ("unset", False)])
def test_the_choice_is_in_the_url_the_page_and_the_report(origin: str, *, is_shown: bool) -> None:
    shown = compared((), ("--block-size",))
    app = open_page(shown, "compare", pool="chat", origin=origin)
    report = compare_report(shown, "chat", SettingChoice(origin=OriginFilter(origin)))
    found = compare_chosen(shown, shown.pools[0], SettingChoice(origin=OriginFilter(origin)))[0]

    assert (f'data-path="{SIZE}"' in tables(app)[0]) is is_shown
    assert (f"{SIZE}," in matrix_csv(found)) is is_shown
    assert ("origin", app.selectbox(key="origin").options[2 if is_shown else 1]) in report.context.filters
    assert ("1 filtered out" if not is_shown else "2 filtered out") in text_of(report)


def test_the_origin_is_chosen_on_the_page() -> None:
    app = open_page(compared(None, None), "compare", pool="chat")
    app.selectbox(key="origin").set_value("unset")

    assert "origin unknown" in html(rerun(app))
    assert address(app, "origin") == "unset"
