"""The description of the configuration API matches the schema and answers of live servers."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from tests.captured import capture
from tests.provider.engines import CONFIG, ApiServer, EngineProcess, thing
from tests.tools import config_api
from vllm_fleet_provider.groups import MOSTLY_NULL
from vllm_fleet_provider.shared.inference_config import SCHEMA_VERSION, InferenceConfigReply

ANSWERS = Path(__file__).parent / "provider" / "answers"  # the provider's answers in live servers, by version
FILES = sorted(ANSWERS.glob("*/*.json"))
EVERY_ANSWER = pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
# Older answers lack fields of later minor versions.
NEWEST = [file for file in FILES if json.loads(file.read_bytes())["fleet"]["schema_version"] == SCHEMA_VERSION]
NEWEST_ANSWERS = pytest.mark.parametrize("file", NEWEST, ids=lambda file: f"{file.parent.name}-{file.stem}")
OPEN = {"settings", "environment", "compatibility"}  # objects whose names are vLLM's


def validator() -> Draft202012Validator:
    """Return the validator of an answer with status 200."""
    document = config_api.openapi()
    schema = {"$ref": "#/components/schemas/InferenceConfigResponse", "components": document["components"]}
    return Draft202012Validator(schema)


def objects(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of an answer with named fields, with their places."""
    if isinstance(value, dict):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        if name not in OPEN:
            yield from objects(item, f"{path}/{name}")


def test_every_field_has_a_description() -> None:
    models = config_api.openapi()["components"]["schemas"]
    silent = [
        f"{name}.{field}"
        for name, model in models.items()
        for field, property_ in model.get("properties", {}).items()
        if "description" not in property_ and field != "spec_type" and "$ref" not in json.dumps(property_)
    ]
    assert silent == []


@NEWEST_ANSWERS
def test_answers_of_live_servers_match_the_openapi_document(file: Path) -> None:
    validator().validate(json.loads(file.read_text()))


@EVERY_ANSWER
def test_answers_of_live_servers_are_read_in_every_minor_version(file: Path) -> None:
    assert InferenceConfigReply.model_validate_json(file.read_bytes()).fleet is not None


def test_there_are_answers_of_the_newest_version() -> None:
    assert {file.stem for file in NEWEST} == {"llama_dp2_xxhash"}


@NEWEST_ANSWERS
def test_an_answer_without_a_field_does_not_match(file: Path) -> None:
    """Except for optional fields of a KV cache group."""
    answer, fits = json.loads(file.read_text()), validator()
    unnoticed = set()
    for place, found in objects(answer):
        for name in list(found):
            value = found.pop(name)
            if fits.is_valid(answer):
                unnoticed.add((place.rstrip("/0123456789").rpartition("/")[2], name))
            found[name] = value

    assert {place for place, _ in unnoticed} == {"groups"}
    required = {"group_id", "layer_names", "spec_type", "block_size"}
    assert required.isdisjoint(name for _, name in unnoticed)


def test_full_attention_always_has_the_fields_of_a_window() -> None:
    models = config_api.openapi()["components"]["schemas"]
    always = {name for name, model in models.items() if set(MOSTLY_NULL) <= set(model.get("required", ()))}

    assert always == {"FullAttentionGroup", "MLAAttentionGroup", "SinkFullAttentionGroup"}


def test_a_required_field_has_no_default() -> None:
    models = config_api.openapi()["components"]["schemas"]
    with_default = [
        f"{name}.{field}"
        for name, model in models.items()
        for field in model["required"]
        if "default" in model["properties"][field]
    ]

    assert with_default == []


def test_the_verifier_on_the_page_computes_its_digests(tmp_path: Path) -> None:
    page = config_api.PAGE.read_text()
    code = tmp_path / "verifier.py"
    code.write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    fingerprint = runpy.run_path(str(code))["fingerprint"]
    rows = [row for row in config_api.vectors(page) if row.algorithm == "sha256_cbor"]

    assert [row.seed for row in rows] == [None, "42"]
    for row in rows:
        seed = () if row.seed is None else (row.seed,)
        assert {length: fingerprint(length, *seed) for length in row.digests} == row.digests


def test_live_servers_have_the_digests_on_the_page() -> None:
    rows = config_api.vectors(config_api.PAGE.read_text())
    default = next(row for row in rows if (row.algorithm, row.seed) == ("sha256", None))
    fleets = [
        json.loads((ANSWERS / "0.32.0" / f"{name}.json").read_text())["fleet"] for name in ("gemma3", "llama_tp2")
    ]

    for fleet in fleets:
        assert (fleet["prefix_hashing"]["algorithm"], fleet["prefix_hashing"]["seed_policy"]) == ("sha256", "default")
        length, found = fleet["prefix_hashing"]["hash_block_size"], fleet["engines"][0]["fingerprint"]
        assert (found["canonical"], found["engine"]) == (default.digests[16], default.digests[length])


def send(server: ApiServer, method: str, path: str) -> httpx2.Response:
    """Send one request."""

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), base_url="http://vllm") as client:
            return await client.request(method, path)

    return server.runner.run(ask())


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """Return a server before its first request to the engine."""
    captured = capture("llama")
    made = ApiServer(captured, [EngineProcess(captured)])
    yield made
    made.runner.close()


def test_errors_match_the_openapi_document(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [send(server, "GET", CONFIG)]
    server.start()
    found += [send(server, "GET", f"{CONFIG}?full=maybe"), send(server, "GET", f"{CONFIG}s")]
    found += [send(server, method, CONFIG) for method in ("POST", "OPTIONS")]
    monkeypatch.setattr("vllm_fleet_provider.answer.MAX_BYTES", 1)
    found.append(send(server, "GET", f"{CONFIG}?full=true"))

    assert [one.status_code for one in found] == [503, 400, 404, 405, 405, 500]
    document = config_api.openapi()
    for one in found:
        described = document["paths"][CONFIG]["get"]["responses"][str(one.status_code)]
        schema = described["content"]["application/json"]["schema"] | {"components": document["components"]}
        Draft202012Validator(schema).validate(one.json())


def test_the_answer_of_an_empty_engine_has_every_field(server: ApiServer) -> None:
    core = server.engines[0].core
    core.vllm_config, core.scheduler = thing("VllmConfig"), thing("Scheduler")
    server.start()
    answer = server.json("?full=true")

    validator().validate(answer)
    assert answer["kv_cache"]["num_gpu_blocks"] is answer["scheduler"]["policy"] is None


def test_only_get_without_a_slash_is_answered_and_not_cached(server: ApiServer) -> None:
    server.start()
    found = send(server, "GET", CONFIG)

    assert send(server, "HEAD", CONFIG).status_code == 405
    assert send(server, "GET", f"{CONFIG}/").status_code == 307
    assert send(server, "GET", f"{CONFIG}?full=&other=1").content == found.content
    headers = config_api.openapi()["paths"][CONFIG]["get"]["responses"]["200"]["headers"]
    assert found.headers["cache-control"] == headers["Cache-Control"]["schema"]["const"]
    assert found.headers["etag"]
