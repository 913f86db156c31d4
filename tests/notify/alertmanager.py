"""A real Alertmanager on loopback."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.serving import free_port, started, wait_for


@contextmanager
def alertmanager(folder: Path, hook: str) -> Iterator[str]:
    """Send what it gets to the webhook `hook`, grouped as this program groups; yield the server's URL."""
    program = shutil.which("prometheus-alertmanager")
    assert program, "prometheus-alertmanager is missing: tests/tools/install installs it"
    route = {"receiver": "hook", "group_by": ["fleet", "pool"], "group_wait": "1s", "group_interval": "1s"}
    options = {"route": route, "receivers": [{"name": "hook", "webhook_configs": [{"url": hook}]}]}
    (folder / "alertmanager.yml").write_text(json.dumps(options))  # JSON is YAML
    port = free_port()
    command = [
        program,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with started(command) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _is_ready(url, process))
        yield url


def active(url: str) -> list[dict[str, Any]]:
    """The alerts that fire in an Alertmanager."""
    found: list[dict[str, Any]] = httpx2.get(f"{url}/api/v2/alerts", trust_env=False).json()
    return found


def _is_ready(url: str, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "alertmanager ended"
    try:
        return httpx2.get(f"{url}/-/ready", trust_env=False).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False
