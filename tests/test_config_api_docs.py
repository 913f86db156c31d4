"""The description of the configuration API is that of the schema, and its example was really answered."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from dashboard.schemas.inference_config import InferenceConfigReply
from tests.tools import config_api

ANSWERS = Path(__file__).parent / "provider" / "answers"  # what the provider said inside live servers, by version


def test_the_openapi_document_is_the_one_of_the_schema() -> None:
    assert config_api.OPENAPI.read_text() == config_api.openapi_text(), "write it anew: make docs"


def test_the_page_shows_the_example_and_the_fields_of_the_schema() -> None:
    page = config_api.PAGE.read_text()
    assert config_api.page_text(page) == page, "write it anew: make docs"


def test_every_field_says_what_it_means() -> None:
    models = config_api.openapi()["components"]["schemas"]
    silent = [
        f"{name}.{field}"
        for name, model in models.items()
        for field, property_ in model.get("properties", {}).items()
        if "description" not in property_ and field != "spec_type" and "$ref" not in json.dumps(property_)
    ]
    assert silent == []


def test_what_live_servers_answered_fits_the_openapi_document() -> None:
    document = config_api.openapi()
    schema = {"$ref": "#/components/schemas/InferenceConfigResponse", "components": document["components"]}
    answers = sorted(ANSWERS.glob("*/*.json"))
    assert answers
    for file in answers:
        answer = json.loads(file.read_text())
        Draft202012Validator(schema).validate(answer)
        assert InferenceConfigReply.model_validate(answer).fleet is not None
