"""`make dist`: sources that give the same wheel, an SBOM of what is installed, the same bytes every time."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.serving import ROOT
from tests.tools.dist import PROJECTS, SBOM, same_archive, write_sbom, write_sources
from vllm_fleet_provider import __version__

EPOCH = "315532800"  # of the Makefile
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(autouse=True)
def _epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)


def copied(folder: Path) -> Path:
    """Copy what git would check out, with other times and modes."""
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    for name in names:
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_none.py").touch()
    return folder


@pytest.mark.long
@pytest.mark.parametrize("project", PROJECTS, ids=["dashboard", "provider"])
def test_the_sources_build_the_wheel_of_the_checkout_and_have_the_same_bytes_every_time(
    project: Path, tmp_path: Path
) -> None:
    archives: list[Path] = []
    for name in ("one", "two"):
        checkout = copied(tmp_path / name)
        os.utime(checkout / "pyproject.toml", (len(archives) + 1, len(archives) + 1))
        (checkout / "pyproject.toml").chmod(0o600 + len(archives) * 0o44)
        (tmp_path / f"dist-{name}").mkdir()
        archives.append(write_sources(checkout / project.relative_to(ROOT), tmp_path / f"dist-{name}"))
    assert archives[0].read_bytes() == archives[1].read_bytes()

    with tarfile.open(archives[0]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
        assert {each.mtime for each in archive} == {int(EPOCH)}
        assert not [each.name for each in archive if "/tests" in each.name]
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert wheel_of(unpacked) == wheel_of(tmp_path / "one" / project.relative_to(ROOT))


def wheel_of(project: Path) -> dict[str, bytes]:
    """Return the files of the wheel."""
    (project / "dist").mkdir()
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=project, check=True, capture_output=True)
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.long
def test_the_sbom_has_every_pinned_package_with_version_and_hashes(tmp_path: Path) -> None:
    document = sbom(tmp_path)
    pinned = re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)

    assert sorted((each["name"], each["version"]) for each in document["components"]) == sorted(pinned)
    assert all(each["externalReferences"][0]["hashes"] for each in document["components"])
    component = document["metadata"]["component"]
    assert (component["name"], component["version"]) == ("vllm-fleet-dashboard", __version__)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"].get("timestamp", "1980-01-01").startswith("1980-01-01")


@pytest.mark.long
def test_the_sbom_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        texts.append(write_sbom(tmp_path / name).read_bytes())

    assert texts[0] == texts[1]


def test_an_archive_whose_time_and_order_differ_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    archives: list[bytes] = []
    for names in ("ab", "ba"):
        with tarfile.open(tmp_path / f"{names}.tar.gz", "w:gz") as archive:
            for name in names:
                os.utime(tmp_path / name, (len(archives), len(archives)))
                archive.add(tmp_path / name, name)
        archives.append((tmp_path / f"{names}.tar.gz").read_bytes())

    assert archives[0] != archives[1]
    assert same_archive(archives[0], 7) == same_archive(archives[1], 7)


def sbom(folder: Path) -> Any:
    file = write_sbom(folder)
    assert file.name == SBOM
    return json.loads(file.read_text())
