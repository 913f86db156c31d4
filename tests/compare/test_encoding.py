"""Documents as a table of codes: the value of a path, its own or that of its section."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from dashboard.compare.encoding import codes_of, encode, is_comparable, lookup_setting
from dashboard.fleet import Document, Replica, SettingValue, Source, State
from tests.compare.pools import PATHS, document, fleets, setting

Fleet = tuple[list[Replica], dict[str, Document]]
HASH_BLOCK = "cache_config.hash_block_size"


def encoded(*documents: Mapping[str, Any]) -> dict[str, list[tuple[str, State]]]:
    table = encode([document("d", settings).settings for settings in documents])
    columns = zip(table.paths, table.codes.T.tolist(), strict=True)
    return {path: [(table.values[code].value, table.values[code].state) for code in column] for path, column in columns}


NULL, ABSENT, FOUR = ("null", State.NULL), ("null", State.ABSENT), ("4", State.REPORTED)


@pytest.mark.parametrize(
    ("documents", "table"),
    [
        pytest.param([{"lora": None}, {"lora.max": 4}], {"lora.max": [NULL, FOUR]}, id="a null section"),
        pytest.param(
            [{"extra": {}}, {"extra.a.b": 4}, {"extra": None}], {"extra.a.b": [NULL, FOUR, NULL]}, id="an empty section"
        ),
        pytest.param(
            [{"quantization": "fp8"}, {"quantization.bits": 4}],
            {"quantization": [('"fp8"', State.REPORTED), ABSENT], "quantization.bits": [NULL, FOUR]},
            id="a section that is one value keeps its column",
        ),
        pytest.param([{"lora": None}, {}], {"lora": [NULL, ABSENT]}, id="a section without leaves anywhere"),
        pytest.param(
            [{"extra": {}}, {"extra": None}], {"extra": [("{}", State.REPORTED), NULL]}, id="empty differs from null"
        ),
        pytest.param(
            [{"extra": State.REDACTED}, {"extra.key": 4}],
            {"extra.key": [("null", State.REDACTED), FOUR]},
            id="a redacted section",
        ),
        pytest.param(
            [{"cache_config": None}, {HASH_BLOCK: 4}],
            {HASH_BLOCK: [("null", State.UNKNOWN), FOUR]},
            id="null is unknown where the engine sets the value later",
        ),
        pytest.param(
            [{"lora": None}, {"lora_config.rank": 4}],
            {"lora": [NULL, ABSENT], "lora_config.rank": [ABSENT, FOUR]},
            id="a name with the same beginning is no section",
        ),
    ],
)
def test_a_section_decides_the_state_of_the_paths_below_it(
    documents: list[Mapping[str, Any]], table: Mapping[str, list[tuple[str, State]]]
) -> None:
    assert encoded(*documents) == table


def test_a_looked_up_setting_keeps_the_source_of_its_section() -> None:
    settings = {"lora_config": setting(None, Source.CONFIG_API)}

    assert lookup_setting(settings, "lora_config.deep.leaf") == setting(None, Source.CONFIG_API)
    assert lookup_setting(settings, "lora") is None


@given(fleets())
def test_looking_up_one_document_equals_its_row_of_the_table(fleet: Fleet) -> None:
    documents = [document.settings for document in fleet[1].values()]
    table = encode(documents)

    for path in PATHS:
        for settings, code in zip(documents, codes_of(table, path).tolist(), strict=True):
            one = lookup_setting(settings, path)
            expected = SettingValue("null", State.ABSENT) if one is None else SettingValue(one.value, one.state)
            assert table.values[code] == expected


@given(fleets())
def test_every_path_with_two_values_has_a_column(fleet: Fleet) -> None:
    documents = [document.settings for document in fleet[1].values()]
    table = encode(documents)

    for path in PATHS:
        values = {own.value for settings in documents if (own := settings.get(path)) and is_comparable(own.state)}
        below = any(other.startswith(f"{path}.") for settings in documents for other in settings)
        assert path in table.paths or not values or (below and values <= {"null", "{}"})
