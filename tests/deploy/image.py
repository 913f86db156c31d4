"""What the container file installs and starts, without a container: its folders are below another one."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.serving import ROOT, free_port, started, wait_until_healthy

FILE = ROOT / "deploy" / "Containerfile"
PORT = 8501


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their arguments."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def argument(name: str) -> str:
    """Return the argument of the only instruction of this name."""
    (found,) = [rest for each, rest in instructions() if each == name]
    return found


def moved(text: str, root: Path) -> str:
    """Return a text whose paths of the container are below `root`."""
    return re.sub(r"(?<![\w.])/(opt|build|app|etc/fleet|var/lib|tmp)\b", rf"{root}/\1", text)


def link_image(root: Path) -> None:
    """Put this checkout and its Python where the image has its own."""
    (root / "opt").mkdir()
    (root / "opt" / "venv").symlink_to(sys.prefix)
    (root / "app").symlink_to(ROOT)


@contextmanager
def running(root: Path, environment: Mapping[str, str] | None = None, **more: Any) -> Iterator[str]:
    """Start what the container starts, on a free port; yield the URL after the first poll. `more` is Popen's."""
    port = free_port()
    words = [yaml.safe_load(moved(argument(name), root)) for name in ("ENTRYPOINT", "CMD")]
    command = [str(port) if each == str(PORT) else each for each in (*words[0], *words[1])]
    own = dict(each.split("=") for each in moved(argument("ENV"), root).split())
    with started(command, environment={**own, **(environment or {})}, cwd=root / "app", **more):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
