"""How vLLM loads the provider: nothing happens unless it is named, and nothing heavy is imported."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from dashboard.provider.devices import worker_reader
from dashboard.provider.plugin import CORE, INSPECTION, endpoint, register
from tests.captured import capture
from tests.provider.engines import EngineProcess, thing
from tests.provider.vllm_modules import module
from tests.serving import ROOT

HEAVY = {"pandas", "numpy", "httpx", "streamlit", "plotly", "yaml", "aiohttp", "typer"}
IN_AN_ENGINE = {"annotated_types", "dashboard", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> type:
    """The class `EngineCore` of a process that was told to load the provider."""
    found = type("EngineCore", (), {})
    monkeypatch.setitem(sys.modules, CORE, module(CORE, EngineCore=found))
    monkeypatch.setenv("VLLM_PLUGINS", "other,fleet_config")
    return found


def imported(statements: str, **environ: str) -> set[str]:
    """The packages from outside the standard library that a new process has after some statements."""
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


def test_the_entry_points_alone_bring_nothing_along() -> None:
    assert imported("import dashboard.provider.plugin") <= {"dashboard"}


@pytest.mark.parametrize("plugins", [{}, {"VLLM_PLUGINS": "other"}, {"VLLM_PLUGINS": ""}], ids=range(3))
def test_installed_but_not_named_it_does_nothing_at_all(plugins: dict[str, str]) -> None:
    statements = "from dashboard.provider.plugin import register; register()"

    assert imported(statements, **plugins) <= {"dashboard"}


def test_in_an_engines_process_it_needs_pydantic_and_nothing_else() -> None:
    assert imported("import dashboard.provider.engine") <= IN_AN_ENGINE


def test_in_the_api_server_it_needs_nothing_that_vllm_does_not_bring() -> None:
    found = imported("from dashboard.provider.plugin import endpoint; endpoint()")

    assert "starlette" in found
    assert not found & HEAVY


def test_named_it_gives_the_engine_its_method(core: Any) -> None:
    register()

    assert callable(core.fleet_config)


def test_not_named_the_engine_stays_as_it_is(core: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    register()

    assert not hasattr(core, "fleet_config")


def test_a_child_process_that_runs_no_engine_imports_none(core: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=1))
    monkeypatch.delitem(sys.modules, CORE)
    register()

    assert CORE not in sys.modules
    assert not hasattr(core, "fleet_config")


def test_a_child_process_that_runs_an_engine_describes_it(core: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=1))
    register()

    assert callable(core.fleet_config)


def test_the_process_that_looks_at_a_models_class_imports_no_engine(core: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name=INSPECTION)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, CORE)
    register()

    assert CORE not in sys.modules
    assert not hasattr(core, "fleet_config")


def test_a_vllm_without_that_class_starts_all_the_same_and_it_is_logged(
    core: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, CORE, module(CORE))
    register()

    assert not hasattr(core, "fleet_config")
    assert [record.message for record in caplog.records] == ["the engines will not be described"]


def test_the_endpoint_plugin_is_called_what_the_operator_names() -> None:
    plugin = endpoint()

    assert (plugin.name, plugin.required_tasks) == ("fleet_config", None)


def test_the_workers_reader_goes_by_value_so_that_a_worker_needs_nothing_installed() -> None:
    """Nested functions are pickled by value; what they need must be within them, or of vLLM."""
    read = worker_reader()

    assert "<locals>" in read.__qualname__
    assert read.__closure__ is None
    assert all(name in dir(__builtins__) or name in vars(__import__("builtins")) for name in names_of(read.__code__))


def names_of(code: CodeType) -> set[str]:
    """The globals that a function and those within it read."""
    import dis

    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return own.union(*(names_of(one) for one in code.co_consts if isinstance(one, CodeType)))


def test_a_pickled_reader_reads_in_a_process_that_has_never_heard_of_us(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(None), 'dashboard' in sys.modules)"
    sent = cloudpickle.dumps(worker_reader())
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, input=sent, capture_output=True, check=True)

    assert done.stdout.startswith(b"{'rank': None, ")
    assert done.stdout.endswith(b"} False\n")


@pytest.mark.parametrize("worker", [None, object(), thing("Worker", rank="x", device=5), SimpleNamespace(rank=None)])
def test_the_workers_reader_never_raises(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "vllm.platforms", "vllm.distributed"):
        monkeypatch.setitem(sys.modules, name, module(name))

    assert set(worker_reader()(worker).values()) == {None}


def test_a_worker_of_a_device_with_an_index_is_asked_for_that_device() -> None:
    engine = EngineProcess(capture("llama"))
    platform = engine.modules["vllm.platforms"].current_platform
    platform.get_device_name = lambda index: f"device {index}"
    with engine.inside():
        told = worker_reader()(thing("Worker", rank=9, device=thing("device", index=5)))

    assert (told["rank"], told["name"]) == (9, "device 5")
