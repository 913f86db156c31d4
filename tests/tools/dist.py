"""Write the sources of both wheels, and a CycloneDX SBOM of requirements.lock, into dist/.

The same files give the same bytes: archives have one time, one owner and one order; the SBOM has no time.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from vllm_fleet_provider import __version__

ROOT = Path(__file__).parents[2]
PROJECTS = (ROOT, ROOT / "vllm_fleet_provider")
SBOM = f"vllm-fleet-dashboard-{__version__}.cdx.json"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def write_sources(project: Path, target: Path) -> Path:
    """Build the sources of one project; return the archive."""
    built = set(target.glob("*.tar.gz"))
    subprocess.run([sys.executable, "-c", BUILD, str(target)], cwd=project, check=True, stdout=subprocess.DEVNULL)
    (file,) = set(target.glob("*.tar.gz")) - built
    file.write_bytes(same_archive(file.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
    return file


def same_archive(archive: bytes, time: int) -> bytes:
    """Return an archive whose members have this time, one owner, plain modes, and the order of their names."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=written, mode="wb", filename="", mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            content = old.extractfile(member) if member.isfile() else None
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, time
            clean.mode = 0o755 if member.isdir() else 0o644
            new.addfile(clean, content)
    return written.getvalue()


def write_sbom(target: Path) -> Path:
    """Describe every pinned requirement, with its hashes; the component itself has this version."""
    file = target / SBOM
    names = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-file", str(file)]
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(ROOT / "requirements.lock"), *names]
    subprocess.run([command[0], "-W", "ignore::UserWarning", *command[1:]], check=True)
    document = json.loads(file.read_text())
    root = document["metadata"]["component"]
    root |= {"version": __version__, "purl": f"pkg:pypi/{root['name']}@{__version__}"}
    for each in document["components"]:
        del each["description"]  # the line of the lock, with its hashes once more
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file


def main() -> None:
    """Write all of it, and print the files."""
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for file in (*(write_sources(each, target) for each in PROJECTS), write_sbom(target)):
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
