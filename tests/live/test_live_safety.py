"""The provider does nothing unless it is named, opens nothing else, and no answer of it holds a secret."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.live.servers import ANSWER_SECONDS, CONFIG, Kind, Server, running
from vllm_fleet_provider.shared.redaction import MARKER
from vllm_fleet_provider.switch import NAME

pytestmark = pytest.mark.vllm
PATHS = (CONFIG, "/v1/config")
KEY = "the-key-of-this-server-0001"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
SEED = "4242424242"
SECRETS = (
    KEY,
    SEED,
    "hf_optionOptionOptionOptionOption0002",
    "hf_variableVariableVariableVaria0003",
    "in-the-overrides-0004",
    "in-the-additional-config-0005",
    "in-a-list-below-it-0006",
    "in-a-url-of-the-connector-0007",
    "in-the-connector-0008",
    "in-the-url-of-traces-0009",
    "in-the-url-of-usage-0010",
    "bearer-in-a-text-0011",
    "in-the-url-of-events-0012",
    "a-token-of-the-connector-0013",
)
CONNECTOR = {
    "kv_connector": "ExampleConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "shared_storage_path": "/nowhere",
        "remote_url": f"redis://user:{SECRETS[7]}@127.0.0.1:6379",
        "s3_access_key_id": SECRETS[8],
        "token": SECRETS[13],
    },
}
ADDITIONAL = {
    "storage_password": SECRETS[5],
    "credentials": [{"value": SECRETS[6]}],
    "header": f"Authorization: Bearer {SECRETS[11]}",
}
EVENTS = {"enable_kv_cache_events": False, "endpoint": f"tcp://user:{SECRETS[12]}@127.0.0.1:5557"}
GUARDED = Kind(
    "guarded",
    "qwen3",
    (
        "--api-key",
        KEY,
        "--hf-token",
        SECRETS[2],
        "--hf-overrides",
        json.dumps({"my_api_key": SECRETS[4]}),
        "--additional-config",
        json.dumps(ADDITIONAL),
        "--kv-transfer-config",
        json.dumps(CONNECTOR),
        "--kv-events-config",
        json.dumps(EVENTS),
        "--otlp-traces-endpoint",
        f"http://user:{SECRETS[9]}@127.0.0.1:4318",
        "--api-server-count",
        "2",
    ),
    {
        "HF_TOKEN": SECRETS[3],
        "PYTHONHASHSEED": SEED,
        "VLLM_USAGE_STATS_SERVER": f"https://user:{SECRETS[10]}@127.0.0.1",
    },
    (NAME, "fleet_witness"),
)
ASKED = (*PATHS, f"{CONFIG}?full=true", f"{CONFIG}?data_parallel_rank=9", f"{CONFIG}?full={KEY}")
CONNECTIONS = 40  # of which each API server takes some


@pytest.fixture(scope="module")
def server(
    venv: Path, site: Path, others: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One that was given secrets wherever it takes one, with two API servers before its engine."""
    with running([GUARDED], venv, tmp_path_factory.mktemp("vllm"), (site, *others)) as (found,):
        yield found


@pytest.mark.parametrize("path", PATHS)
def test_who_has_no_key_gets_401_and_who_has_it_the_answer(server: Server, path: str) -> None:
    assert server.get(path).status_code == 401
    assert server.get(path, Authorization="Bearer another").status_code == 401
    assert server.get(path, **AUTHORIZED).status_code == 200


def test_no_answer_holds_a_secret(server: Server) -> None:
    answers = [server.get(path, **headers) for path in ASKED for headers in ({}, AUTHORIZED)]

    assert {response.status_code for response in answers} == {200, 400, 401}
    said = "".join(f"{response.headers}{response.text}" for response in answers)
    assert [secret for secret in SECRETS if secret in said] == []
    assert MARKER in said


def test_values_next_to_secrets_are_reported(server: Server) -> None:
    fleet = server.json(f"{CONFIG}?full=true", **AUTHORIZED)["fleet"]

    assert fleet["prefix_hashing"]["seed_policy"] == "environment"
    assert (fleet["kv_transfer"]["connector"], fleet["kv_transfer"]["role"]) == ("ExampleConnector", "kv_both")
    assert fleet["settings"]["observability_config.otlp_traces_endpoint"] == f"http://{MARKER}@127.0.0.1:4318"
    assert fleet["kv_events"]["endpoint"] == f"tcp://{MARKER}@127.0.0.1:5557"


def test_both_api_servers_give_one_answer_with_one_tag(server: Server) -> None:
    found: dict[int, set[tuple[str, bytes]]] = defaultdict(set)
    for _ in range(CONNECTIONS):
        with httpx2.Client(base_url=server.url, headers=AUTHORIZED, trust_env=False, timeout=ANSWER_SECONDS) as client:
            process = client.get("/witness").json()["process"]
            response = client.get(f"{CONFIG}?full=true")
            found[process].add((response.headers["etag"], response.content))

    assert len(found) == 2
    assert len(set.union(*found.values())) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_can_be_written(server: Server, path: str, method: str) -> None:
    response = httpx2.request(
        method, f"{server.url}{path}", headers=AUTHORIZED, trust_env=False, timeout=ANSWER_SECONDS
    )

    assert response.status_code == 405


def test_the_server_goes_on_answering(server: Server) -> None:
    assert server.complete(**AUTHORIZED)["usage"]["completion_tokens"] == 1
