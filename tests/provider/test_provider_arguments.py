"""The arguments that a server was started with: command line, --config, environment."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.provider.vllm_modules import module
from vllm_fleet_provider.arguments import NO_FILE, OTHER_START, arguments_of
from vllm_fleet_provider.gathering import Gathering
from vllm_fleet_provider.shared.inference_config import MAX_ARGUMENTS

LINE, FILE, ENVIRONMENT = "command_line", "config_file", "environment"
PARSED: dict[str, object] = {
    "gpu_memory_utilization": 0.9,
    "max_model_len": 1,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 1,
    "block_size": 16,
    "enable_prefix_caching": None,
    "enforce_eager": False,
    "compilation_config": {},
    "config": None,
}


@pytest.fixture(autouse=True)
def envs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that vLLM knows."""
    known = dict.fromkeys(("VLLM_PLUGINS", "VLLM_API_KEY", "VLLM_LATER", "OTHER"))
    monkeypatch.setitem(sys.modules, "vllm.envs", module("vllm.envs", environment_variables=known))


def given(
    monkeypatch: pytest.MonkeyPatch, *argv: str, program: str = "/venv/bin/vllm", parsed: Any = PARSED
) -> tuple[list[tuple[str, str]] | None, list[str]]:
    """The arguments of a command line, and the reasons of what is unavailable."""
    monkeypatch.setattr(sys, "argv", [program, *argv])
    gathering = Gathering()
    found = arguments_of(SimpleNamespace(args=SimpleNamespace(**parsed)), gathering)
    reasons = [each["reason"] for each in gathering.unavailable]
    return None if found is None else [(each["argument"], each["source"]) for each in found], reasons


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], []),
        (["serve", "./llama", "--block-size", "16"], ["--model", "--block-size"]),
        (["serve", "--model", "./llama", "--block_size=16"], ["--model", "--block-size"]),
        (["serve", "m", "-tp", "2", "-O3"], ["--model", "-tp", "--optimization-level"]),
        (["serve", "m", "-O", "3"], ["--model", "--optimization-level"]),
        (["serve", "m", "-O=3"], ["--model", "--optimization-level"]),
        (["--no-enable-prefix-caching"], ["--no-enable-prefix-caching"]),
        (["--gpu-mem", "0.9"], ["--gpu-memory-utilization"]),
        (["--max-num", "1"], ["--max-num"]),  # two begin so: vLLM would not start
        (["--compilation-config", '{"mode": 3, "pass_config": {"a": 1}}'], ["mode", "pass_config.a"]),
        (["--compilation-config={}"], ["--compilation-config"]),
        (["--compilation-config.mode", "3", "--compilation-config.list+=a"], ["mode", "list"]),
        (["-cc.mode=3"], ["-cc.mode"]),
        (["--compilation-config", "{not json"], ["--compilation-config"]),
        (["--seed", "-1", "--scale", "-0.5"], ["--seed", "--scale"]),
        (["--block-size", "1", "--block-size", "2"], ["--block-size"]),
    ],
    ids=str,
)
def test_the_names_of_a_command_line(monkeypatch: pytest.MonkeyPatch, argv: list[str], names: list[str]) -> None:
    full = [name if name.startswith("-") else f"--compilation-config.{name}" for name in names]

    assert given(monkeypatch, *argv) == ([(name, LINE) for name in full], [])


def test_the_command_line_is_preferred_to_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`vllm serve` ignores a false for an option that is not false by default."""
    path = tmp_path / "vllm.yaml"
    path.write_text(
        "block-size: 16\nmax-num-seqs: 8\nenable-prefix-caching: false\nenforce-eager: false\n"
        "compilation-config: {pass_config: {a: true}}\nmiddleware: [x]\n"
    )
    found, _ = given(monkeypatch, "serve", "m", "--block-size", "32", "--config", str(path))

    assert found == [
        ("--model", LINE),
        ("--block-size", LINE),
        ("--config", LINE),
        ("--max-num-seqs", FILE),
        ("--no-enforce-eager", FILE),
        ("--compilation-config.pass_config.a", FILE),
        ("--middleware", FILE),
    ]


@pytest.mark.parametrize("content", [None, "a: [", "- a", ""], ids=["missing", "broken", "list", "empty"])
def test_a_file_that_cannot_be_read_leaves_the_arguments_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "vllm.yaml"
    if content is not None:
        path.write_text(content)
    is_readable = content in {"- a", ""}
    expected = ([("--config", LINE)], []) if is_readable else (None, [NO_FILE])

    assert given(monkeypatch, "--config", str(path)) == expected


@pytest.mark.parametrize("program", ["/usr/bin/python", "/app/main.py", "-c"])
def test_another_program_has_other_arguments(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    assert given(monkeypatch, "--block-size", "16", program=program) == (None, [OTHER_START])


def test_the_module_is_a_command_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "/venv/lib/python3.12/site-packages/vllm/entrypoints/openai/api_server.py"

    assert given(monkeypatch, "--block-size", "16", program=program) == ([("--block-size", LINE)], [])


def test_a_vllm_without_the_list_of_variables_leaves_the_arguments_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.envs", module("vllm.envs"))

    assert given(monkeypatch, "--block-size", "16") == (None, ["reading them raised AttributeError"])


def test_values_are_never_reported_and_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"key{number}": 1 for number in range(MAX_ARGUMENTS + 10)}
    secret = "sk-live-0123456789abcdefghij"
    found, _ = given(monkeypatch, "--api-key", secret, f"--hf-token={secret}", "--x", json.dumps(many))

    assert found is not None
    assert len(found) == MAX_ARGUMENTS
    assert secret not in str(found)


SCRIPT = """
import json, os, sys
from types import ModuleType, SimpleNamespace
os.environ["VLLM_LATER"] = "set by vLLM itself"
envs = ModuleType("vllm.envs")
envs.environment_variables = dict.fromkeys(("VLLM_PLUGINS", "VLLM_API_KEY", "VLLM_LATER", "OTHER"))
sys.modules |= {"vllm": ModuleType("vllm"), "vllm.envs": envs}
sys.argv = ["vllm"]
from vllm_fleet_provider.arguments import arguments_of
from vllm_fleet_provider.gathering import Gathering
def tell(queue):
    queue.put(arguments_of(SimpleNamespace(), Gathering()))
if __name__ == "__main__":
    import multiprocessing
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=tell, args=(queue,))
    child.start()
    print(json.dumps([queue.get(), arguments_of(SimpleNamespace(), Gathering())]))
    child.join()
"""


def test_variables_are_those_that_the_operator_set(tmp_path: Path) -> None:
    """In the process that was started, and in an API server that it starts; never a key."""
    environ = {"VLLM_PLUGINS": "fleet_config", "VLLM_API_KEY": "x", "OTHER": "y", "PYTHONPATH": str(Path.cwd())}
    path = tmp_path / "start.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path], env=environ, capture_output=True, text=True, check=True)

    expected = [{"argument": "VLLM_PLUGINS", "source": ENVIRONMENT}]
    assert json.loads(done.stdout) == [expected, expected]


def test_without_proc_the_variables_of_the_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setenv("VLLM_LATER", "1")

    assert given(monkeypatch) == ([("VLLM_LATER", ENVIRONMENT)], [])
