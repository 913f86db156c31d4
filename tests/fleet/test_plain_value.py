"""A value in a cell of CSV."""

import json

from hypothesis import given

from dashboard.fleet.formatting import plain_value
from tests.strategies import json_values


def test_a_string_has_quotes_only_where_it_reads_as_json() -> None:
    texts = ['"sha256_cbor"', '"16"', '"true"', '""', '" "', "16", "null", '["a"]']
    assert [plain_value(each) for each in texts] == [
        "sha256_cbor",
        '"16"',
        '"true"',
        '""',
        '" "',
        "16",
        "null",
        '["a"]',
    ]


@given(json_values)
def test_a_cell_determines_its_value(value: object) -> None:
    written = plain_value(json.dumps(value))
    try:
        read = json.loads(written)
    except ValueError:
        read = written
    assert read == value
