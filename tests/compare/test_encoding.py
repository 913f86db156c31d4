"""Documents as a table of codes: what is told of a path, by itself or by its section."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given

from dashboard.compare import Member
from dashboard.compare.encoding import encode, is_comparable, lookup_setting
from dashboard.fleet import Document, SettingValue, Source, State
from tests.compare.pools import PATHS, document, fleets, setting


def told(*documents: Mapping[str, Any]) -> dict[str, list[SettingValue]]:
    table = encode([document("d", settings).settings for settings in documents])
    columns = zip(table.paths, table.codes.T.tolist(), strict=True)
    return {path: [table.values[code] for code in column] for path, column in columns}


def test_a_null_section_says_null_of_the_leaves_that_others_have() -> None:
    rows = told({"lora_config": None}, {"lora_config.max_loras": 4})

    assert rows == {"lora_config.max_loras": [SettingValue("null", State.NULL), SettingValue("4", State.REPORTED)]}


def test_an_empty_section_says_null_of_the_leaves_that_others_have() -> None:
    rows = told({"extra": {}}, {"extra.a.b": 4}, {"extra": None})

    assert rows == {
        "extra.a.b": [
            SettingValue("null", State.NULL),
            SettingValue("4", State.REPORTED),
            SettingValue("null", State.NULL),
        ]
    }


def test_a_section_that_is_one_value_keeps_its_row_and_contradicts_the_leaves_of_others() -> None:
    rows = told({"quantization": "fp8"}, {"quantization.bits": 4})

    assert rows["quantization"] == [SettingValue('"fp8"', State.REPORTED), SettingValue("null", State.ABSENT)]
    assert rows["quantization.bits"] == [SettingValue("null", State.NULL), SettingValue("4", State.REPORTED)]


def test_a_section_that_nobody_looked_into_stays_a_row_of_its_own() -> None:
    assert told({"lora_config": None}, {}) == {
        "lora_config": [SettingValue("null", State.NULL), SettingValue("null", State.ABSENT)]
    }


def test_an_empty_object_is_a_value_unlike_null() -> None:
    assert told({"extra": {}}, {"extra": None}) == {
        "extra": [SettingValue("{}", State.REPORTED), SettingValue("null", State.NULL)]
    }


def test_a_redacted_section_makes_its_leaves_redacted_not_null() -> None:
    rows = told({"extra": State.REDACTED}, {"extra.key": "x"})

    assert rows["extra.key"][0] == SettingValue("null", State.REDACTED)


def test_null_is_unknown_where_the_engine_fills_the_value_in_later() -> None:
    rows = told({"cache_config": None}, {"cache_config.hash_block_size": 16})

    assert rows["cache_config.hash_block_size"][0].state is State.UNKNOWN


def test_a_name_that_only_begins_alike_is_no_section() -> None:
    assert set(told({"lora": None}, {"lora_config.rank": 1})) == {"lora", "lora_config.rank"}


def test_what_a_section_tells_keeps_the_source_that_said_it() -> None:
    settings = {"lora_config": setting(None, Source.CONFIG_API)}

    assert lookup_setting(settings, "lora_config.deep.leaf") == setting(None, Source.CONFIG_API)
    assert lookup_setting(settings, "lora") is None


@given(fleets())
def test_one_document_is_read_as_the_whole_table_is(fleet: tuple[list[Member], dict[str, Document]]) -> None:
    documents = [document.settings for document in fleet[1].values()]
    table = encode(documents)

    for path, column in zip(table.paths, table.codes.T.tolist(), strict=True):
        for settings, code in zip(documents, column, strict=True):
            one = lookup_setting(settings, path)
            one_told = SettingValue("null", State.ABSENT) if one is None else SettingValue(one.value, one.state)
            assert table.values[code] == one_told


@given(fleets())
def test_no_path_with_two_values_is_lost(fleet: tuple[list[Member], dict[str, Document]]) -> None:
    documents = [document.settings for document in fleet[1].values()]
    table = encode(documents)

    for path in PATHS:
        values = {told.value for settings in documents if (told := settings.get(path)) and is_comparable(told.state)}
        below = any(other.startswith(f"{path}.") for settings in documents for other in settings)
        assert path in table.paths or not values or (below and values <= {"null", "{}"})
