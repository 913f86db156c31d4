"""The wheel is complete, lists its requirements, and runs outside of the checkout."""

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
from dashboard.provider.switch import NAME
from dashboard.web import launch
from tests.serving import ROOT, free_port, started, wait_until_healthy
from tests.tools.provider_wheel import CUT, PROJECT, WHOLE, cut

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
REQUIREMENT = re.compile(r"^[a-z][\w-]*", re.MULTILINE)
ANNOTATION_BYTES = 256 << 10  # all of an object's together: k8s.io/apimachinery/pkg/api/validation/objectmeta.go
BARE = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of git's files in a separate folder, as `make wheel` does."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in [*tracked(), *PROJECT]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `pip install --no-deps --target`."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def provider(wheel: Path) -> Path:
    """Return the provider's wheel, a part of the whole one."""
    return cut(wheel)


@pytest.fixture(scope="module")
def provider_site(provider: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provider")
    with zipfile.ZipFile(provider) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))))


def tracked() -> list[str]:
    """Return the files of the package, tracked or not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "dashboard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).exists()]


def python(*arguments: str, path: Path, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(path), "COVERAGE_PROCESS_START": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_has_exactly_the_files_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == set(tracked())
    assert "dashboard/web/.streamlit/config.toml" in held


def test_the_provider_wheel_fits_into_a_config_map(provider: Path) -> None:
    """`kubectl apply` keeps a copy in an annotation, whose limit is lower."""
    assert len(b64encode(provider.read_bytes())) < ANNOTATION_BYTES


def test_the_provider_wheel_has_exactly_its_imports(provider: Path) -> None:
    with zipfile.ZipFile(provider) as archive:
        names = archive.namelist()
        record = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode()
        assert archive.testzip() is None

    assert [line.partition(",")[0] for line in record.splitlines()] == names
    packages = {name.split("/")[1] for name in names if name.startswith("dashboard/")}
    assert packages == {"__init__.py", "errors.py", "provider", "vllm"}
    of_vllm = {name.split("/")[2] for name in names if name.startswith("dashboard/vllm/")}
    assert of_vllm == {"__init__.py", "digests.py", "identity.py", "redaction.py", "schemas", "spelling.py"}
    assert cut(provider.with_name(provider.name.replace(CUT, WHOLE))).read_bytes() == provider.read_bytes()


def test_the_wheel_has_name_version_and_license(metadata: Message) -> None:
    assert metadata["Name"] == "vllm-fleet-dashboard"
    assert metadata["Version"] == dashboard.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_provider_has_no_requirements_and_the_dashboard_those_of_its_file(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])

    assert metadata.get_all("Provides-Extra") == ["dashboard", "pdf", "postgres"]
    by_extra = {
        "dashboard": "requirements.txt",
        "pdf": "requirements-pdf.txt",
        "postgres": "requirements-postgres.txt",
    }
    found = {extra: [each for each in required if each.endswith(f'; extra == "{extra}"')] for extra in by_extra}
    assert [each for each in required if not any(each in some for some in found.values())] == []
    for extra, file in by_extra.items():
        names = [match.group() for each in found[extra] if (match := REQUIREMENT.match(each))]
        assert names == REQUIREMENT.findall((ROOT / file).read_text())


@pytest.mark.parametrize("where", ["site", "provider_site"])
def test_vllm_finds_both_entry_points(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(request.getfixturevalue(where))])

    for group, value in (("general", "register"), ("endpoint", "endpoint")):
        (found,) = entry_points(group=f"vllm.{group}_plugins")
        assert found.name == NAME
        assert found.value == f"dashboard.provider.plugin:{value}"


@pytest.mark.parametrize("where", ["site", "provider_site"])
def test_the_provider_prints_its_switch_with_vllm_only(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    done = python("-S", "-m", "dashboard.provider", path=request.getfixturevalue(where), cwd=tmp_path, environment=BARE)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "export VLLM_PLUGINS=fleet_config\n"
    assert "install the wheel" not in done.stderr


def test_without_vllm_the_provider_prints_no_switch(site: Path, tmp_path: Path) -> None:
    done = python("-S", "-m", "dashboard.provider", path=site, cwd=tmp_path, environment=BARE)

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


def test_the_wheels_dashboard_runs_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    port, fleet_port = free_port(), free_port()
    command = [sys.executable, "-m", "dashboard", "demo", "--port", str(port), "--fleet-port", str(fleet_port)]
    with started([*command, "--replicas", "3"], environment={"PYTHONPATH": str(site)}, cwd=tmp_path):
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url)
        assert httpx2.get(f"{url}/api/v1/fleet", trust_env=False).json()["coverage"]["up"] == 3
        done = python("-m", "dashboard", "rules", "RT-01", path=site, cwd=tmp_path, environment=dict(os.environ))

    assert done.stdout.startswith("# RT-01")
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_streamlit_run_app_py_serves_the_wheels_own_script_and_settings() -> None:
    found = discover_asgi_app(ROOT / "app.py")

    assert (found.is_asgi_app, found.import_string) == (True, "app:app")
    assert not (ROOT / "app.py").is_symlink()
    assert launch.app_arguments(Options())["script_path"] == ROOT / "dashboard" / "web" / "main.py"
    assert (ROOT / ".streamlit" / "config.toml").resolve() == ROOT / "dashboard" / "web" / ".streamlit" / "config.toml"


def test_the_installed_setuptools_is_supported() -> None:
    needed = re.search(r"setuptools>=(\d+)", (ROOT / "pyproject.toml").read_text())

    assert needed
    assert int(distribution("setuptools").version.partition(".")[0]) >= int(needed[1])
