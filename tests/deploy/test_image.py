"""The image: built by buildah, run by podman without privileges, a network or a writable root.

No registry is asked: its base is made by mmdebstrap from the mirror of Debian. Its own storage is removed afterwards.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.deploy.image import FILE, argument, instructions
from tests.serving import ROOT, wait_for

NAME = "localhost/vllm-fleet-dashboard:test"
LARGEST = 1_250_000_000  # bytes; the base of a registry is smaller
OPTIONS = "name: container\ntargets: [127.0.0.1:1]\naccess: {allow_anonymous: viewer}\n"
SAFE = ("--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges")
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")  # podman's own may be above those of this machine
GET = "import sys, urllib.request as r; print(r.urlopen('http://127.0.0.1:8501' + sys.argv[1]).status)"


class Engine:
    """Podman with a storage of its own."""

    def __init__(self, root: Path) -> None:
        self.options = ("--root", str(root / "storage"), "--runroot", str(root / "run"))

    def run(self, *arguments: str, program: str = "podman", is_checked: bool = True) -> str:
        """Return what it prints; what it logs is shown when it fails."""
        own = ("--runtime", "runc") if program == "podman" else ()
        done = subprocess.run(
            [program, *self.options, *own, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert not (is_checked and done.returncode), done.stdout + done.stderr
        return done.stdout.strip()

    def inside(self, *command: str, is_checked: bool = True) -> str:
        return self.run("exec", "fleet", *command, is_checked=is_checked)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Build the image. Podman takes no path of more than 50 characters, so its folder is not one of pytest."""
    folder = Path(mkdtemp(prefix="fleet-"))
    engine = Engine(folder)
    try:
        base = next(rest.split()[0] for name, rest in instructions() if name == "FROM")
        assert base == "docker.io/library/debian:bookworm-slim"
        system = folder / "base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(system)], check=True)
        engine.run("import", str(system), base)
        system.unlink()
        (folder / "pip.conf").write_text("[global]\ncert = /run/trusted.pem\n")
        trusted = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
        engine.run(
            *("build", "--isolation=chroot", "--network=host", "--pull-never", "--format=docker", f"--tag={NAME}"),
            *(f"--volume={folder / 'pip.conf'}:/etc/pip.conf:ro", f"--volume={trusted}:/run/trusted.pem:ro"),
            *(f"--file={FILE}", str(ROOT)),
            program="buildah",
        )
        yield engine
    finally:
        engine.run("rm", "--all", "--force", is_checked=False)
        engine.run("rmi", "--all", "--force", is_checked=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def started(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Start it with its own command, as compose.yaml does, and wait for the first poll."""
    file = tmp_path_factory.mktemp("options") / "fleet.yaml"
    file.write_text(OPTIONS)
    file.chmod(0o644)
    mounts = (f"--volume={file}:/etc/fleet/fleet.yaml:ro", "--volume=data:/var/lib/fleet")
    engine.run("run", "--detach", "--name=fleet", "--network=none", *SAFE, *LIMITS, *mounts, NAME)
    wait_for(lambda: get(engine, "/readyz") == "200")
    return engine


def get(engine: Engine, path: str) -> str:
    return engine.inside("/opt/venv/bin/python", "-c", GET, path, is_checked=False)


@pytest.mark.long
def test_the_image_serves_as_another_user_with_a_read_only_root(started: Engine) -> None:
    assert started.inside("id", "-u") == "65532"
    assert [get(started, path) for path in ("/livez", "/readyz", "/healthz", "/", "/metrics")] == ["200"] * 5
    for folder in ("/", "/app", "/opt/venv", "/etc", "/var"):
        assert started.inside("sh", "-c", f"touch {folder}/written 2>&1", is_checked=False).endswith("file system")
    wait_for(lambda: "history.db" in started.inside("ls", "/var/lib/fleet/data"))


@pytest.mark.long
def test_its_python_is_the_one_of_debian_on_which_these_tests_run(started: Engine) -> None:
    version = started.inside("/opt/venv/bin/python", "-c", "import sys; print(*sys.version_info[:2])")

    assert version == "3 11"
    assert started.inside("cat", "/etc/debian_version").startswith("12.")
    assert tuple(map(int, version.split())) == sys.version_info[:2]


@pytest.mark.long
def test_its_health_check_passes_and_sigterm_ends_it_with_0(started: Engine) -> None:
    wanted = json.loads(argument("HEALTHCHECK").partition("CMD ")[2])
    (found,) = json.loads(started.run("inspect", "fleet"))

    assert found["Config"]["Healthcheck"]["Test"] == ["CMD", *wanted]
    assert started.run("healthcheck", "run", "fleet") == ""
    started.run("stop", "--time=20", "fleet")
    (stopped,) = json.loads(started.run("inspect", "fleet"))
    assert stopped["State"]["ExitCode"] == 0, "SIGTERM ends it"
    assert stopped["State"]["Health"]["Log"][-1]["ExitCode"] == 0
    started.run("start", "fleet")
    wait_for(lambda: get(started, "/readyz") == "200")


@pytest.mark.long
def test_it_has_what_the_checkout_has_and_a_bounded_size(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(engine.run("inspect", NAME))
    list_files = "find /app -type f -o -type l | sort"
    files = engine.run("run", "--rm", "--network=none", *LIMITS, "--entrypoint=sh", NAME, "-c", list_files).split("\n")

    with capfd.disabled():
        print(f"\nimage: {found['Size'] / 1e6:,.0f} MB unpacked, with the base of mmdebstrap", file=sys.stderr)
    assert found["Size"] < LARGEST
    assert {"/app/app.py", "/app/.streamlit/config.toml", "/app/dashboard/__main__.py"} <= set(files)
    assert [each for each in files if "__pycache__" in each] == []
