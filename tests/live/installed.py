"""Install the provider from its wheel, outside of vLLM's environment."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.serving import ROOT


def install(venv: Path, folder: Path) -> Path:
    """Build the wheel and install it with `pip install --no-deps --target`; return the folder, for PYTHONPATH."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(ROOT / "vllm_fleet_provider", source, ignore=shutil.ignore_patterns("__pycache__"))
    _pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    _pip(str(venv / "bin" / "python"), "install", "--no-deps", "--target", str(site), str(wheel))
    return site


def _pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
