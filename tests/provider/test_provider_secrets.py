"""No answer of the provider contains a secret, wherever vLLM accepts one."""

from typing import Any

import pytest

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineProcess, put, thing

LLAMA = capture("llama")
SECRET = "SESAME-b3c4d5"
URL = f"https://bob:{SECRET}@storage.example/x"
# fmt: off
NAMES = (
    "token", "auth_token", "api_key", "apikey", "aws_secret_access_key", "aws_session_token", "private_key",
    "ssl_private_key", "passphrase", "key_passphrase", "passwd", "password", "client_secret", "credentials",
    "s3_access_key_id", "HF_TOKEN", "etcd-password", "api-key", "x-api-key", "apiKey", "accessToken", "privateKey",
    "authorization",
)
# fmt: on
NAMED = dict.fromkeys(NAMES, SECRET)


def raising_the_secret(_: Any) -> Any:
    raise RuntimeError(SECRET)


# The object, the path of an attribute below it, the attribute's value.
PLACES: list[tuple[str, str, Any]] = [
    ("config", "model_config.hf_token", SECRET),
    ("config", "model_config.hf_overrides", {"auth": NAMED}),
    ("config", "model_config.model", URL),
    ("config", "model_config.tokenizer", URL),
    ("config", "model_config.revision", URL),
    ("config", "cache_config.cache_dtype", URL),
    ("config", "load_config.model_loader_extra_config", NAMED),
    ("config", "load_config.download_dir", URL),
    ("config", "observability_config.otlp_traces_endpoint", URL),
    ("config", "additional_config", {"list": [NAMED], **NAMED}),
    ("config", "parallel_config.ray_runtime_env", {"env_vars": NAMED}),
    ("config", "quant_config", {"credentials": {"user": SECRET}}),
    (
        "config",
        "kv_transfer_config",
        thing("KVTransferConfig", kv_connector=URL, kv_connector_extra_config={"nested": [{"deeper": NAMED}]}),
    ),
    (
        "config",
        "kv_events_config",
        thing("Events", enable_kv_cache_events=True, publisher="zmq", endpoint=URL, topic=f"Bearer {SECRET}"),
    ),
    ("config", "speculative_config", thing("Draft", method="eagle", model=URL, num_speculative_tokens=1)),
    ("environment", "VLLM_SOME_TOKEN", SECRET),
    ("environment", "VLLM_SOME_PASSWORD", SECRET),
    ("environment", "VLLM_KEY_OF_OURS", SECRET),
    ("environment", "VLLM_API_KEY", SECRET),
    ("server", "openai_serving_models.lora_requests", {URL: thing("LoRARequest", lora_name=URL, lora_path=URL)}),
    ("server", "openai_serving_models.base_model_paths", [thing("BaseModelPath", name=URL)]),
    (
        "server",
        "args",
        thing("Namespace", api_key=[SECRET], chat_template=None, tool_call_parser=URL, ssl_keyfile=SECRET),
    ),
    ("engine", "model_executor.collective_rpc", lambda _: [{"rank": 0, "name": URL}]),
    ("engine", "model_executor.collective_rpc", raising_the_secret),
    ("group", "layer_names", [URL]),
]


@pytest.mark.parametrize(("place", "path", "value"), PLACES)
@pytest.mark.parametrize("engine_answers", [True, False])
def test_a_secret_in_any_place_is_in_no_answer(
    place: str,
    path: str,
    value: Any,
    engine_answers: bool,  # noqa: FBT001
    serve: Serve,
) -> None:
    engine = EngineProcess(LLAMA)
    client = None if engine_answers else thing("AsyncLLM", engine_core=None)
    server = serve(LLAMA, engine, started=False, client=client)
    owners = {
        "config": [engine.config, server.config],
        "environment": [engine.modules["vllm.envs"], server.modules["vllm.envs"]],
        "server": [server.state],
        "engine": [engine.core],
        "group": engine.kv_cache_config.kv_cache_groups,
    }
    for owner in owners[place]:
        put(owner, path, value)
    server.start()

    for query in ("", "?full=true"):
        answer = server.get(query)
        assert answer.status_code == 200
        assert SECRET not in answer.text


def test_secrets_are_recognized_by_name(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    engine.config.additional_config = {f"{n}": {name: SECRET, "limit": 5} for n, name in enumerate(NAMES)}
    settings = serve(LLAMA, engine).json("?full=true")["fleet"]["settings"]["additional_config"]

    assert list(settings.values()) == [{name: "[redacted]", "limit": 5} for name in NAMES]


@pytest.mark.parametrize("algorithm", ["sha256", "xxhash"])
def test_the_hash_seed_the_root_hash_and_variables_other_than_vllms_are_in_no_answer(
    algorithm: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    engine = EngineProcess(LLAMA, environ={"PYTHONHASHSEED": SECRET}, algorithm=algorithm)
    root = engine.modules["vllm.v1.core.kv_cache_utils"].NONE_HASH.hex()
    server = serve(LLAMA, engine)

    assert server.json()["fleet"]["prefix_hashing"]["seed_policy"] == "environment"
    assert SECRET not in server.get("?full=true").text
    assert root not in server.get("?full=true").text
