"""vLLM loads the provider only if VLLM_PLUGINS lists it, and nothing heavy is imported."""

import builtins
import dis
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.captured import capture
from tests.provider.engines import EngineProcess, thing
from tests.provider.vllm_modules import module
from tests.serving import ROOT
from vllm_fleet_provider.devices import worker_reader
from vllm_fleet_provider.plugin import CORE, INSPECTION, endpoint, register

HEAVY = {"pandas", "numpy", "httpx2", "streamlit", "plotly", "yaml", "aiohttp", "typer"}
IN_AN_ENGINE = {
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
    "vllm_fleet_provider",
}
REGISTER = "from vllm_fleet_provider.plugin import register; register()"


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> type:
    """The class `EngineCore` of a process in which VLLM_PLUGINS lists the provider."""
    found = type("EngineCore", (), {})
    monkeypatch.setitem(sys.modules, CORE, module(CORE, EngineCore=found))
    monkeypatch.setenv("VLLM_PLUGINS", "other,fleet_config")
    return found


def imported(statements: str, **environ: str) -> set[str]:
    """The packages, except the standard library's, that a new process has imported after some statements."""
    script = f"{statements}\nimport json, sys\nprint(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    inherited = {name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in json.loads(done.stdout) if name not in sys.stdlib_module_names and name[:1] != "_"}


@pytest.mark.parametrize(
    ("statements", "environ"),
    [
        ("import vllm_fleet_provider.plugin", {}),
        (REGISTER, {}),
        (REGISTER, {"VLLM_PLUGINS": "other"}),
        (REGISTER, {"VLLM_PLUGINS": ""}),
    ],
    ids=["entry points", "not set", "other", "empty"],
)
def test_a_provider_that_is_not_listed_imports_nothing(statements: str, environ: dict[str, str]) -> None:
    assert imported(statements, **environ) <= {"vllm_fleet_provider"}


def test_an_engine_imports_only_pydantic_and_the_api_server_only_packages_of_vllm() -> None:
    server = imported("from vllm_fleet_provider.plugin import endpoint; endpoint()")

    assert imported("import vllm_fleet_provider.engine") <= IN_AN_ENGINE
    assert "starlette" in server
    assert not server & HEAVY


def other_plugins(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("VLLM_PLUGINS", "other")


def child_with_an_engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=1))


def child_without_an_engine(patch: pytest.MonkeyPatch) -> None:
    child_with_an_engine(patch)
    patch.delitem(sys.modules, CORE)


def model_inspection(patch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name=INSPECTION)  # type: ignore[assignment]
    patch.setitem(sys.modules, "__main__", main)
    patch.delitem(sys.modules, CORE)


def no_engine_class(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, CORE, module(CORE))


@pytest.mark.parametrize(
    ("process", "has_method", "log"),
    [
        (lambda _: None, True, []),
        (child_with_an_engine, True, []),
        (other_plugins, False, []),
        (child_without_an_engine, False, []),
        (model_inspection, False, []),
        (no_engine_class, False, ["the engines will not be described"]),
    ],
)
def test_only_processes_with_an_engine_get_the_method_and_others_do_not_import_it(
    process: Callable[[pytest.MonkeyPatch], None],
    has_method: bool,  # noqa: FBT001
    log: list[str],
    core: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    process(monkeypatch)
    has_module = CORE in sys.modules
    register()

    assert callable(getattr(core, "fleet_config", None)) is has_method
    assert (CORE in sys.modules) is has_module
    assert [record.message for record in caplog.records] == log


def test_the_endpoint_plugin_has_the_name_in_vllm_plugins() -> None:
    plugin = endpoint()

    assert (plugin.name, plugin.required_tasks) == ("fleet_config", None)


def test_the_workers_reader_is_pickled_by_value(tmp_path: Path) -> None:
    """It uses only nested functions, built-ins and vLLM, so a worker needs nothing installed."""
    read = worker_reader()
    assert "<locals>" in read.__qualname__
    (nested,) = (each.cell_contents for each in read.__closure__ or ())
    assert "<locals>" in nested.__qualname__
    assert nested.__closure__ is None
    assert globals_of(read.__code__) | globals_of(nested.__code__) <= set(dir(builtins))

    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(None), 'vllm_fleet_provider' in sys.modules)"
    sent = cloudpickle.dumps(worker_reader())
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, input=sent, capture_output=True, check=True)

    assert done.stdout.startswith(b"{'rank': None, ")
    assert done.stdout.endswith(b"} False\n")


def globals_of(code: CodeType) -> set[str]:
    """The globals that a function and its nested functions read."""
    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return own.union(*(globals_of(one) for one in code.co_consts if isinstance(one, CodeType)))


@pytest.mark.parametrize("worker", [None, object(), thing("Worker", rank="x", device=5), SimpleNamespace(rank=None)])
def test_the_workers_reader_never_raises(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "vllm.platforms", "vllm.distributed"):
        monkeypatch.setitem(sys.modules, name, module(name))

    assert set(worker_reader()(worker).values()) == {None}


def test_the_workers_reader_reads_the_device_with_the_workers_index() -> None:
    engine = EngineProcess(capture("llama"))
    platform = engine.modules["vllm.platforms"].current_platform
    platform.get_device_name = lambda index: f"device {index}"
    with engine.inside():
        device = worker_reader()(thing("Worker", rank=9, device=thing("device", index=5)))

    assert (device["rank"], device["name"]) == (9, "device 5")
