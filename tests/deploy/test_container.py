"""The container file: its lines are linted, and its steps are run without a container: no image is built here."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.serving import ROOT, free_port, started, wait_for, wait_until_healthy

FILE = ROOT / "deploy" / "Containerfile"
USER = 65532
PYTHON = "/usr/bin/python3"  # other users may run it


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their arguments."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def argument(name: str) -> str:
    """Return the argument of the only instruction of this name."""
    (found,) = [rest for each, rest in instructions() if each == name]
    return found


def test_the_linter_has_no_complaint() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, str(FILE)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_every_copied_file_exists_and_the_user_is_not_root() -> None:
    copied = [rest.split()[0] for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]

    assert [each for each in copied if not (ROOT / each).exists()] == []
    assert argument("USER") == f"{USER}:{USER}"


def test_the_compose_file_has_the_same_limits_and_its_files() -> None:
    services = yaml.safe_load((FILE.parent / "compose.yaml").read_text())["services"]
    dashboard = services["dashboard"]

    assert (dashboard["read_only"], dashboard["cap_drop"]) == (True, ["ALL"])
    assert (ROOT / dashboard["build"]["dockerfile"]).samefile(FILE)
    mounted = [each.split(":") for each in services["prometheus"]["volumes"]]
    assert [own for own, *_ in mounted if not (FILE.parent / own).is_file()] == ["./prometheus/token"]
    (configuration,) = (FILE.parent / own for own, inside, _ in mounted if inside.endswith("/prometheus.yml"))
    folder, options = Path("/etc/prometheus"), yaml.safe_load(configuration.read_text())
    (job,) = options["scrape_configs"]
    named = [*options["rule_files"], job["authorization"]["credentials_file"]]
    assert {str(folder / each) for each in named} < {inside for _, inside, _ in mounted}


@pytest.mark.long
def test_the_steps_install_and_start_it_as_another_user_with_a_read_only_tree() -> None:
    """It downloads every requirement. Folders of the container are below a new one."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    try:
        _install(folder)
        _start(folder)
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
        shutil.rmtree(folder)


def _moved(text: str, folder: Path) -> str:
    return re.sub(r"(?<![\w.])/(opt|build|app|etc/fleet|var/lib|tmp)\b", rf"{folder}/\1", text)


def _install(folder: Path) -> None:
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            source, target = rest.split()
            place = Path(_moved(target, folder))
            place = place / source if target.endswith("/") else place
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile)(ROOT / source, place)
        elif name == "RUN" and "/opt/venv" in rest:
            command = _moved(rest, folder).replace("python -m venv", f"{PYTHON} -m venv", 1)
            subprocess.run(["/bin/sh", "-c", command], check=True)
    for name in ("etc/fleet", "var/lib/fleet", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/fleet/fleet.yaml").write_text(
        "name: container\ntargets: [127.0.0.1:1]\naccess: {allow_anonymous: viewer}\n"
    )
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(folder)], check=True)
    for name in ("var/lib/fleet", "tmp"):
        (folder / name).chmod(0o777)


def _start(folder: Path) -> None:
    port = free_port()
    words = [yaml.safe_load(_moved(argument(name), folder)) for name in ("ENTRYPOINT", "CMD")]
    command = [str(port) if each == "8501" else each for each in (*words[0], *words[1])]
    pairs = dict(each.split("=") for each in _moved(argument("ENV"), folder).split())
    as_user = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
    with started(command, environment=pairs, cwd=folder / "app", **as_user):
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url)
        assert [httpx2.get(url + path).status_code for path in ("/livez", "/readyz", "/")] == [200, 200, 200]
        wait_for(lambda: "vllm_fleet_history_last_recorded_timestamp_seconds " in httpx2.get(f"{url}/metrics").text)
