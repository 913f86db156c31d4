"""A real Prometheus server on loopback that scrapes addresses."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.serving import free_port, started, wait_for


@contextmanager
def prometheus(
    folder: Path,
    groups: Iterable[Mapping[str, Any]],
    interval: str = "1s",
    jobs: Iterable[Mapping[str, Any]] = (),
    external_labels: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Scrape groups of targets, in the shape of file_sd, and other jobs, once in each interval; yield the server's URL.

    Files that jobs name are in `folder`.
    """
    (folder / "targets.json").write_text(json.dumps(list(groups)))
    job = {"job_name": "vllm", "file_sd_configs": [{"files": [str(folder / "targets.json")]}]}
    general = {"scrape_interval": interval, "external_labels": dict(external_labels or {})}
    options = {"global": general, "scrape_configs": [job, *jobs]}
    (folder / "prometheus.yml").write_text(json.dumps(options))  # JSON is YAML
    with prometheus_on(folder / "prometheus.yml") as url:
        yield url


@contextmanager
def prometheus_on(file: Path) -> Iterator[str]:
    """Start Prometheus with a configuration file, and with its data beside that; yield the server's URL."""
    program = shutil.which("prometheus")
    assert program, "prometheus is missing: tests/tools/install installs it"
    port = free_port()
    command = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={file.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with started(command) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _is_ready(url, process))
        yield url


def wait_for_result(url: str, query: str, is_met: Callable[[list[Any]], bool]) -> None:
    """Wait until the result of an instant query meets a condition."""

    def met() -> bool:
        answer = httpx2.post(f"{url}/api/v1/query", data={"query": query}, trust_env=False)
        return is_met(answer.json()["data"]["result"])

    wait_for(met)


def _is_ready(url: str, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "prometheus ended"
    try:
        return httpx2.get(f"{url}/-/ready", trust_env=False).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False
