"""The shape of the published schemas does not change, because programs read the documents."""

import json

import pytest

from tests.tools.schema_shape import SCHEMAS, SHAPES, shapes
from tests.tools.write_docs import schema_texts


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_shape_of_a_published_schema_is_the_committed_one(name: str) -> None:
    assert shapes()[name] == json.loads(SHAPES.read_text())[name]


def test_the_committed_schemas_are_the_generated_ones() -> None:
    for file, text in schema_texts().items():
        assert file.read_text() == text, "run make docs"
