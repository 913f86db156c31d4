"""The wheels are complete, list their requirements, and run outside of the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import b64encode
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution, entry_points, packages_distributions
from pathlib import Path

import httpx2
import pytest
from streamlit.web.server.app_discovery import discover_asgi_app

import dashboard
from dashboard.config import Options
from dashboard.web import launch
from tests.serving import ROOT, free_port, started, wait_until_healthy
from vllm_fleet_provider.switch import NAME

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
REQUIREMENT = re.compile(r"^[a-z][\w-]*", re.MULTILINE)
REQUIREMENTS = tuple(
    f"requirements{extra}.txt" for extra in ("", "-pdf", "-postgres", "-auth", "-mcp", "-grpc", "-screenshot")
)
PROJECT = ("LICENSE", "README.md", "pyproject.toml", *REQUIREMENTS)  # the wheel is built from these and the packages
ANNOTATION_BYTES = 256 << 10  # all of an object's together: k8s.io/apimachinery/pkg/api/validation/objectmeta.go
BARE = {"PATH": "/usr/bin:/bin"}
# One GET of a server without engines, to the plugin that vLLM loads by the entry points.
ANSWER = """
import asyncio, httpx2
from fastapi import FastAPI
from importlib.metadata import entry_points
from types import SimpleNamespace

async def get():
    for group in ("vllm.general_plugins", "vllm.endpoint_plugins"):
        (found,) = entry_points(group=group)
        plugin = found.load()()
    app = FastAPI()
    plugin.attach_router(app)
    await plugin.init_state(SimpleNamespace(), SimpleNamespace(), None)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://vllm") as client:
        return await client.get("/inference/v1/config?full=true")

print(asyncio.run(get()).text)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy git's files into a folder of their own."""
    folder = tmp_path_factory.mktemp("source")
    for name in [*tracked(), *PROJECT]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    return installed(wheel)


@pytest.fixture(scope="module")
def provider(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(source / "vllm_fleet_provider", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def provider_site(provider: Path) -> Path:
    return installed(provider)


def built(source: Path, target: Path) -> Path:
    """Build a wheel as `make wheel` does, without a download."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(target.glob("*.whl"))


def installed(wheel: Path) -> Path:
    """Return the folder of `pip install --no-deps --target`."""
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def held(wheel: Path) -> set[str]:
    """Return the files of a wheel, except its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))))


def tracked() -> list[str]:
    """Return the files of both packages, tracked or not ignored."""
    packages = ["dashboard", "vllm_fleet_provider"]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", *packages]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).exists()]


def of_the_provider() -> set[str]:
    """Return the modules of the provider."""
    return {name for name in tracked() if name.startswith("vllm_fleet_provider/") and name.endswith(".py")}


def python(*arguments: str, path: Path, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(path), "COVERAGE_PROCESS_START": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_has_exactly_the_files_of_the_package_and_the_modules_of_the_provider(wheel: Path) -> None:
    own = {name for name in tracked() if name.startswith("dashboard/")}

    assert held(wheel) == own | of_the_provider()
    assert "dashboard/web/pages/.streamlit/config.toml" in own


def test_the_provider_wheel_fits_into_a_config_map(provider: Path) -> None:
    """`kubectl apply` keeps a copy in an annotation, whose limit is lower."""
    assert len(b64encode(provider.read_bytes())) < ANNOTATION_BYTES


def test_the_provider_wheel_has_exactly_its_own_modules(provider: Path) -> None:
    assert held(provider) == of_the_provider()


def test_the_wheel_has_name_version_and_license(wheel: Path) -> None:
    metadata = metadata_of(wheel)

    assert metadata["Name"] == "vllm-fleet-dashboard"
    assert metadata["Version"] == dashboard.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_provider_wheel_has_name_version_license_and_no_requirements(provider: Path) -> None:
    metadata = metadata_of(provider)

    assert (metadata["Name"], metadata["Version"]) == ("vllm-fleet-provider", dashboard.__version__)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["Requires-Dist"] is None


def test_the_requirements_of_the_dashboard_are_those_of_its_files(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    required = metadata.get_all("Requires-Dist", [])

    assert metadata.get_all("Provides-Extra") == ["dashboard", "pdf", "postgres", "auth", "mcp", "grpc", "screenshot"]
    by_extra = dict(
        zip(("dashboard", "pdf", "postgres", "auth", "mcp", "grpc", "screenshot"), REQUIREMENTS, strict=True)
    )
    found = {extra: [each for each in required if each.endswith(f'; extra == "{extra}"')] for extra in by_extra}
    assert [each for each in required if not any(each in some for some in found.values())] == []
    for extra, file in by_extra.items():
        names = [match.group() for each in found[extra] if (match := REQUIREMENT.match(each))]
        assert names == REQUIREMENT.findall((ROOT / file).read_text())


def test_vllm_finds_both_entry_points_of_the_provider_and_none_of_the_dashboard(
    site: Path, provider_site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group, value in (("general", "register"), ("endpoint", "endpoint")):
        monkeypatch.setattr(sys, "path", [str(provider_site)])
        (found,) = entry_points(group=f"vllm.{group}_plugins")
        assert found.name == NAME
        assert found.value == f"vllm_fleet_provider.plugin:{value}"
        monkeypatch.setattr(sys, "path", [str(site)])
        assert not entry_points(group=f"vllm.{group}_plugins")


@pytest.mark.long
def test_the_provider_answers_where_another_package_is_named_dashboard(provider_site: Path, tmp_path: Path) -> None:
    (tmp_path / "dashboard").mkdir()
    (tmp_path / "dashboard" / "__init__.py").write_text("raise ImportError('this is another dashboard')")
    done = python("-c", ANSWER, path=provider_site, cwd=tmp_path, environment={**os.environ, "VLLM_PLUGINS": NAME})

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fleet"]["provider_version"] == dashboard.__version__


def test_the_provider_prints_its_switch_with_vllm_only(provider_site: Path, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    done = python("-S", "-m", "vllm_fleet_provider", path=provider_site, cwd=tmp_path, environment=BARE)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "export VLLM_PLUGINS=fleet_config\n"
    assert "install the wheel" not in done.stderr


def test_without_vllm_the_provider_prints_no_switch(provider_site: Path, tmp_path: Path) -> None:
    done = python("-S", "-m", "vllm_fleet_provider", path=provider_site, cwd=tmp_path, environment=BARE)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("exit 1: there is no vLLM in this Python (")


def test_missing_packages_are_one_sentence(site: Path, tmp_path: Path) -> None:
    done = python("-S", "-m", "dashboard", "poll", path=site, cwd=tmp_path, environment=BARE)

    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("exit 2: the dashboard cannot start, because this Python lacks streamlit, httpx2, ")
    assert f"vllm_fleet_dashboard-{dashboard.__version__}-py3-none-any.whl[dashboard]" in sentence


def test_vllm_fleet_is_the_same_program(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(site)])
    (command,) = entry_points(group="console_scripts")
    module, _, function = command.value.partition(":")
    script = f"from {module} import {function}; {function}()"  # what pip writes

    bare = python("-S", "-c", script, path=site, cwd=tmp_path, environment=BARE)
    full = python("-c", script, "--version", path=site, cwd=tmp_path, environment=dict(os.environ))

    assert command.name == "vllm-fleet"
    assert bare.returncode == 2
    assert bare.stderr.startswith("exit 2: the dashboard cannot start, because this Python lacks streamlit, ")
    assert full.stdout == f"vllm-fleet-dashboard {dashboard.__version__}\n"


def test_the_checked_packages_are_those_of_requirements_txt(site: Path, tmp_path: Path) -> None:
    done = python("-S", "-m", "dashboard", path=site, cwd=tmp_path, environment=BARE)
    lacking = done.stderr.partition("lacks ")[2].partition(";")[0].split(", ")

    projects = packages_distributions()
    found = [projects[module][0].lower().replace("_", "-") for module in lacking]
    assert found == REQUIREMENT.findall((ROOT / "requirements.txt").read_text())


@pytest.mark.long
def test_the_wheels_dashboard_runs_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    port, fleet_port = free_port(), free_port()
    command = [sys.executable, "-m", "dashboard", "demo", "--port", str(port), "--fleet-port", str(fleet_port)]
    with started([*command, "--replicas", "3"], environment={"PYTHONPATH": str(site)}, cwd=tmp_path):
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url)
        assert httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()["coverage"]["up"] == 3
        done = python("-m", "dashboard", "rules", "RT-01", path=site, cwd=tmp_path, environment=dict(os.environ))

    assert done.stdout.startswith("RT-01")
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_streamlit_run_app_py_serves_the_wheels_own_script_and_settings() -> None:
    found = discover_asgi_app(ROOT / "app.py")

    assert (found.is_asgi_app, found.import_string) == (True, "app:app")
    assert not (ROOT / "app.py").is_symlink()
    pages = ROOT / "dashboard" / "web" / "pages"
    assert launch.app_arguments(Options())["script_path"] == pages / "main.py"
    assert (ROOT / ".streamlit" / "config.toml").resolve() == pages / ".streamlit" / "config.toml"


def test_the_installed_setuptools_is_supported() -> None:
    needed = re.search(r"setuptools>=(\d+)", (ROOT / "pyproject.toml").read_text())

    assert needed
    assert int(distribution("setuptools").version.partition(".")[0]) >= int(needed[1])
