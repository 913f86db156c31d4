"""The settings of one replica, compared with the majority of its pool."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dashboard.fleet import Document, Setting, SettingValue, Source, State
from dashboard.fleet.frames import Frames
from dashboard.views.pool_comparison import ONLY_DIFFERENCES, SettingChoice
from dashboard.views.replica_settings import (
    EVERY_SETTING,
    LONGEST,
    NO_MAJORITY,
    NOT_COMPARED,
    SAME,
    TOP,
    compare_with_pool,
    filter_settings,
    majority_differences,
    pool_differences,
    setting_rows,
)
from tests.builders import alike, document, fleet, replica, setting

USUAL = document()
OTHER = document({"cache_config.block_size": 32, "model_config.max_logprobs": 5})
SETTINGS = {
    "version": setting("0.32.0"),
    "cache_config.block_size": setting(32),
    "cache_config.sizes": setting(list(range(500))),
    "model_config.dtype": setting("a\nb", source=Source.METRICS),
    "model_config.token": Setting('"x"', State.REDACTED, Source.SERVER_INFO),
    "model_config.seed": setting(None),
}
DIFFERENCES = {"model_config.dtype": None, "cache_config.block_size": SettingValue("16", State.REPORTED)}


def differing(one: Document) -> dict[str, SettingValue | None]:
    """Return the differences of a document from four equal ones, by path."""
    (pool,) = fleet([*alike("chat", 4, USUAL), replica("odd", document=OTHER)], [USUAL, OTHER]).pools
    return majority_differences(pool, one)


def test_every_value_that_is_not_the_majority_is_a_difference() -> None:
    assert differing(USUAL) == {}
    assert differing(OTHER) == {
        "cache_config.block_size": SettingValue("16", State.REPORTED),
        "model_config.max_logprobs": SettingValue("20", State.REPORTED),
    }
    assert list(differing(document({"model_config.max_logprobs": None}))) == ["model_config.max_logprobs"]
    assert differing(document({"cache_config.block_size": Setting('"x"', State.REDACTED, Source.METRICS)})) == {}


def test_in_a_tie_every_value_is_marked_and_no_replica_differs() -> None:
    tied = fleet([replica("a", document=USUAL), replica("b", document=OTHER)], [USUAL, OTHER])

    assert list(majority_differences(tied.pools[0], USUAL).values()) == [None, None]
    assert pool_differences(tied.pools, tied.documents) == {("chat", USUAL.id): 0, ("chat", OTHER.id): 0}


def test_a_section_that_is_null_differs_in_its_leaves() -> None:
    base = {path: value for path, value in USUAL.settings.items() if not path.startswith("kv_events_config")}
    null = document({**base, "kv_events_config": None}, base={})
    (pool,) = fleet([*alike("chat", 4, USUAL), replica("odd", document=null)], [USUAL, null]).pools

    assert list(majority_differences(pool, null)) == ["kv_events_config.publisher"]


def rows(reported: tuple[str, ...] = ()) -> dict[str, Mapping[Hashable, Any]]:
    """Return the rows of the settings by path, in order."""
    table = setting_rows(Frames(documents={"one": Document("one", None, SETTINGS)}).settings, DIFFERENCES, reported)
    return {str(row["path"]): row for row in table.to_dict("records")}


def test_differences_are_first_with_the_value_of_the_majority() -> None:
    found = rows(("cache_config.sizes", "model_config.token"))

    assert list(found)[:3] == ["cache_config.block_size", "model_config.dtype", "cache_config.sizes"]
    assert [row["majority"] for row in found.values()][:3] == ["≠ 16", NO_MAJORITY, SAME]
    assert found["version"]["majority"] == NOT_COMPARED
    assert found["model_config.token"]["majority"] == "unknown"  # a secret has no value to compare


@pytest.mark.parametrize(
    ("path", "column", "text"),
    [
        ("version", "section", TOP),
        ("model_config.dtype", "value", '"a\\nb"'),
        ("model_config.seed", "state", "not set"),
        ("model_config.token", "value", "redacted"),
    ],
)
def test_a_row_has_section_value_state_and_source(path: str, column: str, text: str) -> None:
    assert rows()[path][column] == text


def test_a_long_value_is_cut() -> None:
    assert len(rows()["cache_config.sizes"]["value"]) == LONGEST


@pytest.mark.parametrize(
    ("choice", "paths"),
    [
        (EVERY_SETTING._replace(search="CACHE size 499"), ["cache_config.sizes"]),
        (ONLY_DIFFERENCES, ["cache_config.block_size", "model_config.dtype"]),
        (SettingChoice(section="model_config", search="dtype"), ["model_config.dtype"]),
        (EVERY_SETTING._replace(search=".*"), []),
    ],
)
def test_filters_combine(choice: SettingChoice, paths: list[str]) -> None:
    rows = setting_rows(Frames(documents={"one": Document("one", None, SETTINGS)}).settings, DIFFERENCES)

    assert sorted(filter_settings(rows, choice)["path"]) == paths


def test_only_settings_that_another_replica_reports_and_fleet_yaml_does_not_ignore_are_compared() -> None:
    first = document({"a.b": 1, "a.own": 1, "a.ignored": 1}, base={})
    second = document({"a.b": 1, "a.ignored": 1, "a.other": 1}, base={})
    built = fleet([replica("one", document=first), replica("two", document=second)], [first, second])
    built = replace(built, pools=tuple(replace(each, ignored=("a.ignored",)) for each in built.pools))
    found = compare_with_pool(built, built.replicas[0])

    assert (found.compared, len(found.rows), found.of_pool) == (1, 3, 4)
