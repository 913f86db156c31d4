"""No answer of the provider contains a secret, wherever vLLM accepts one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import ApiServer, EngineProcess, thing

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


def setting(path: str, value: Any) -> Callable[[EngineProcess, ApiServer], None]:
    """Set an option, on the engine and on the API server."""

    def apply(engine: EngineProcess, server: ApiServer) -> None:
        section, _, name = path.rpartition(".")
        for config in (engine.config, server.config):
            setattr(getattr(config, section) if section else config, name, value)

    return apply


def environment(name: str) -> Callable[[EngineProcess, ApiServer], None]:
    """Set one of vLLM's variables."""

    def apply(engine: EngineProcess, server: ApiServer) -> None:
        for modules in (engine.modules, server.modules):
            setattr(modules["vllm.envs"], name, SECRET)

    return apply


def connector(engine: EngineProcess, _: ApiServer) -> None:
    engine.config.kv_transfer_config = {
        "kv_connector": URL,
        "kv_connector_extra_config": {"nested": [{"deeper": NAMED}]},
    }
    engine.config.kv_transfer_config = thing("KVTransferConfig", **engine.config.kv_transfer_config)


def adapters(_: EngineProcess, server: ApiServer) -> None:
    server.load(URL, URL)


def served_names(_: EngineProcess, server: ApiServer) -> None:
    server.state.openai_serving_models.base_model_paths = [thing("BaseModelPath", name=URL)]


def events(engine: EngineProcess, _: ApiServer) -> None:
    engine.config.kv_events_config = thing(
        "KVEventsConfig", enable_kv_cache_events=True, publisher="zmq", endpoint=URL, topic=f"Bearer {SECRET}"
    )


def draft(engine: EngineProcess, _: ApiServer) -> None:
    engine.config.speculative_config = thing("SpeculativeConfig", method="eagle", model=URL, num_speculative_tokens=1)


def arguments(_: EngineProcess, server: ApiServer) -> None:
    server.state.args = thing(
        "Namespace", api_key=[SECRET], chat_template=None, tool_call_parser=URL, ssl_keyfile=SECRET
    )


def devices(engine: EngineProcess, _: ApiServer) -> None:
    engine.core.model_executor.collective_rpc = lambda _: [{"rank": 0, "name": URL}]


def layers(engine: EngineProcess, _: ApiServer) -> None:
    engine.kv_cache_config.kv_cache_groups[0].layer_names = [URL]


PLACES: dict[str, Callable[[EngineProcess, ApiServer], None]] = {
    "the token for the hub": setting("model_config.hf_token", SECRET),
    "overrides of the model": setting("model_config.hf_overrides", {"auth": NAMED}),
    "the model's address": setting("model_config.model", URL),
    "the tokenizer's address": setting("model_config.tokenizer", URL),
    "the model's revision": setting("model_config.revision", URL),
    "the type of the cache": setting("cache_config.cache_dtype", URL),
    "the loader's options": setting("load_config.model_loader_extra_config", NAMED),
    "the folder of downloads": setting("load_config.download_dir", URL),
    "where traces go": setting("observability_config.otlp_traces_endpoint", URL),
    "the operator's own options": setting("additional_config", {"list": [NAMED], **NAMED}),
    "the environment of workers": setting("parallel_config.ray_runtime_env", {"env_vars": NAMED}),
    "options of a connector": connector,
    "a variable that is a token": environment("VLLM_SOME_TOKEN"),
    "a variable that is a password": environment("VLLM_SOME_PASSWORD"),
    "a variable of a key": environment("VLLM_KEY_OF_OURS"),
    "a field of credentials": setting("quant_config", {"credentials": {"user": SECRET}}),
    "vLLM's own key": environment("VLLM_API_KEY"),
    "adapters": adapters,
    "served names": served_names,
    "events": events,
    "the draft model": draft,
    "arguments of the server": arguments,
    "names of devices": devices,
    "names of layers": layers,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_secret_in_any_place_is_in_no_answer(place: str, is_asked: bool, serve: Serve) -> None:  # noqa: FBT001
    """Neither if the engine is described nor if it cannot be asked."""
    engine = EngineProcess(LLAMA)
    client = None if is_asked else thing("AsyncLLM", engine_core=None)
    server = serve(LLAMA, engine, started=False, client=client)
    PLACES[place](engine, server)
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
def test_neither_the_seed_nor_the_root_of_the_hashes_is_in_an_answer(algorithm: str, serve: Serve) -> None:
    engine = EngineProcess(LLAMA, environ={"PYTHONHASHSEED": SECRET}, algorithm=algorithm)
    root = engine.modules["vllm.v1.core.kv_cache_utils"].NONE_HASH.hex()
    server = serve(LLAMA, engine)

    assert server.json()["fleet"]["prefix_hashing"]["seed_policy"] == "environment"
    assert SECRET not in server.get("?full=true").text
    assert root not in server.get("?full=true").text


def test_the_message_of_an_error_is_in_no_answer(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)

    def fail(_: Any) -> Any:
        raise RuntimeError(SECRET)

    engine.core.model_executor.collective_rpc = fail

    assert SECRET not in serve(LLAMA, engine).get("?full=true").text


def test_variables_other_than_vllms_are_in_no_answer(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)

    assert SECRET not in serve(LLAMA).get("?full=true").text
