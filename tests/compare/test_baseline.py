"""What one replica tells, held against what its pool should look like."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.baseline import agreed_paths, agreed_settings, deviations, is_expected, usual_values
from dashboard.fleet import Baseline, Setting, SettingValue, State, Tolerance
from tests.compare.pools import PATHS, TOLD, setting

BLOCK, SEQS = "cache_config.block_size", "scheduler_config.max_num_seqs"
NOT_SET = SettingValue("null", State.NULL)


def told(values: Mapping[str, Any]) -> dict[str, Setting]:
    return {path: setting(value) for path, value in values.items()}


def baseline(expected: Mapping[str, str] | None = None, **more: Any) -> Baseline:
    return Baseline("chat", "chat", expected or {}, **more)


def test_every_path_of_the_baseline_is_in_one_kind() -> None:
    agreed = baseline(
        {"seed": "0", BLOCK: "16", "a.gone": "1", "a.secret": '"x"', "x.one": "1"},
        tolerated={SEQS: Tolerance(("128", "256")), "a.low": Tolerance((), 1.0, None)},
        ignored=("x.*",),
        comments={BLOCK: "the router's"},
    )

    found = deviations(
        agreed,
        told({"seed": 0, BLOCK: 32, "a.secret": State.REDACTED, "x.one": 2, SEQS: 256, "a.low": 0, "a.more": 1}),
    )

    assert [each.path for each in found.deviating] == [BLOCK, "a.low"]
    assert found[1:] == (("seed",), (SEQS,), ("a.gone",), ("a.secret",), ("x.one",))


def test_a_deviation_says_what_is_told_what_was_agreed_and_what_people_wrote() -> None:
    low = Tolerance((), 0.9, 0.95)
    agreed = baseline({"a": "16"}, tolerated={"b": low}, comments={"a": "why", "c": "of nothing"})

    first, second = deviations(agreed, told({"a": 32, "b": 1})).deviating

    assert (first.path, first.own, first.agreed) == (
        "a",
        SettingValue("32", State.REPORTED),
        SettingValue("16", State.REPORTED),
    )
    assert (first.tolerance, first.comment, first.agreed_words) == (None, "why", "16")
    assert (second.agreed, second.tolerance, second.agreed_words) == (
        SettingValue("0.95", State.REPORTED),
        low,
        "0.9 to 0.95",
    )


def test_what_decides_the_block_hashes_comes_first_then_the_order_of_the_file() -> None:
    agreed = baseline({"z": "0", "a": "0", BLOCK: "16", "version": '"0.32.0"'})

    found = deviations(agreed, told({"z": 1, "a": 1, BLOCK: 32, "version": "0.33.0"})).deviating

    assert [each.path for each in found] == [BLOCK, "version", "z", "a"]


def test_null_is_a_value_and_what_is_not_told_is_not_known() -> None:
    agreed = baseline({"a": "null", "b": "1", "c": "null", "d": "null"})

    found = deviations(agreed, told({"a": None, "b": None, "c": 1, "d": State.UNKNOWN}))

    assert found.same == ("a",)
    assert [(each.path, each.own, each.agreed) for each in found.deviating] == [
        ("b", NOT_SET, SettingValue("1", State.REPORTED)),
        ("c", SettingValue("1", State.REPORTED), NOT_SET),
    ]
    assert found.not_told == ("d",)


def test_null_where_the_engine_fills_the_value_in_later_is_not_known() -> None:
    agreed = baseline({"cache_config.hash_block_size": "16"})

    assert deviations(agreed, told({"cache_config.hash_block_size": None})).not_told == agreed_paths(agreed)


def test_below_a_section_that_is_null_nothing_is_set() -> None:
    found = deviations(
        baseline({"lora_config.max_loras": "null", "lora_config.rank": "8"}), told({"lora_config": None})
    )

    assert found.same == ("lora_config.max_loras",)
    assert [each.path for each in found.deviating] == ["lora_config.rank"]


def test_where_a_section_should_be_null_every_setting_in_it_deviates() -> None:
    agreed = baseline(
        {"lora_config": "null", "lora_config.kept": "1"}, ignored=("lora_config.odd",), comments={"lora_config": "none"}
    )
    settings = told(
        {
            "lora_config.kept": 1,
            "lora_config.odd": 1,
            "lora_config.rank": 8,
            "lora_config.unset": None,
            "lora_configs": 1,
        }
    )

    found = deviations(agreed, settings)

    assert [(each.path, each.agreed, each.comment) for each in found.deviating] == [
        ("lora_config.rank", NOT_SET, "none")
    ]
    assert (found.same, found.not_told) == (("lora_config.kept",), ())
    assert deviations(baseline({"lora_config": "null"}), told({"seed": 1})).not_told == ("lora_config",)


def test_the_expected_values_stand_as_settings_of_a_reference_without_what_does_not_matter() -> None:
    agreed = baseline({"a": '"0.90"', "b": "null", "x.y": "1"}, tolerated={"c": Tolerance(("1",))}, ignored=("x.*",))

    assert {path: each[:2] for path, each in agreed_settings(agreed).items()} == {
        "a": SettingValue("0.9", State.REPORTED),
        "b": NOT_SET,
    }
    assert agreed_paths(agreed) == ("a", "b", "c")


def test_on_what_nothing_was_agreed_no_value_is_right_or_wrong() -> None:
    agreed = baseline({"a": "1", "x": "1"}, tolerated={"b": Tolerance(("1",))}, ignored=("x",))
    one, two = (SettingValue(text, State.REPORTED) for text in "12")

    assert [is_expected(agreed, path, one) for path in ("a", "b", "c", "x")] == [True, True, None, None]
    assert [is_expected(agreed, path, two) for path in ("a", "b")] == [False, False]


@given(
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["null", "1", "2", '"x"'])),
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from([each for each in TOLD if each is not None])),
    st.lists(st.sampled_from(PATHS), max_size=2),
)
def test_a_path_is_never_lost_and_never_in_two_kinds(
    expected: dict[str, str], values: dict[str, Any], ignored: list[str]
) -> None:
    found = deviations(baseline(expected, ignored=tuple(ignored)), told(values))
    paths = [each.path for each in found.deviating] + [path for kind in found[1:] for path in kind]

    assert len(set(paths)) == len(paths)
    missing = expected.keys() - set(paths)
    assert all(
        expected[section] == "null" and any(path.startswith(f"{section}.") for path in paths) for section in missing
    )
    assert set(found.ignored) == expected.keys() & set(ignored)


def test_the_value_to_set_within_a_range_is_that_of_most_of_the_pool() -> None:
    agreed = baseline(tolerated={"a": Tolerance((), 1.0, 9.0), "b": Tolerance(("1", "2"))})
    usual = usual_values(agreed, [told({"a": value, "b": 1}) for value in (5, 5, 5, 2, 99, State.REDACTED)])

    assert usual == {"a": SettingValue("5", State.REPORTED)}
    assert usual_values(agreed, [told({"a": value}) for value in (5, 2)]) == {}
    assert deviations(agreed, told({"a": 99}), usual).deviating[0].wanted == SettingValue("5", State.REPORTED)
    assert deviations(agreed, told({"a": 99})).deviating[0].wanted == SettingValue("9", State.REPORTED)
