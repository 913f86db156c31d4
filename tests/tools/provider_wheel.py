"""Cut the provider's own wheel out of the whole one: what vLLM's Python needs, and small enough for a ConfigMap."""

import csv
import hashlib
import io
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

PROJECT = (  # files that a wheel is built from, besides the package
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements.txt",
    "requirements-pdf.txt",
    "requirements-postgres.txt",
)
WHOLE, CUT = "vllm_fleet_dashboard", "vllm_fleet_provider"
KEPT = (
    "dashboard/provider/",
    "dashboard/vllm/__init__.py",
    "dashboard/vllm/schemas/",
    "dashboard/vllm/digests.py",
    "dashboard/vllm/identity.py",
    "dashboard/vllm/redaction.py",
    "dashboard/vllm/spelling.py",
    "dashboard/errors.py",
    "dashboard/__init__.py",
)
KEPT_OF_METADATA = ("WHEEL", "entry_points.txt", "licenses/LICENSE")
PLUGINS = "[vllm."  # the groups of entry points that vLLM reads
SUMMARY = "Reports the resolved configuration of this vLLM server to a fleet dashboard"


def cut(whole: Path) -> Path:
    """Write the provider's wheel next to the whole one and return its file. The same wheel gives the same bytes."""
    target = whole.with_name(whole.name.replace(WHOLE, CUT))
    with zipfile.ZipFile(whole) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name.startswith(KEPT)}
        folder = next(name.split("/")[0] for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        own = folder.replace(WHOLE, CUT)
        files |= {f"{own}/{name}": archive.read(f"{folder}/{name}") for name in KEPT_OF_METADATA}
        files[f"{own}/METADATA"] = _metadata(archive.read(f"{folder}/METADATA").decode())
    files[f"{own}/entry_points.txt"] = _plugins(files[f"{own}/entry_points.txt"].decode())
    files[f"{own}/RECORD"] = _record(files, f"{own}/RECORD")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: no clock
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return target


def _metadata(whole: str) -> bytes:
    """Keep the version and what the wheel demands of Python; it needs no package."""
    kept = ("Metadata-Version:", "Version:", "License-Expression:", "License-File:", "Requires-Python:")
    head = whole.split("\n\n", maxsplit=1)[0].splitlines()
    lines = [line for line in head if line.startswith(kept)]
    return "\n".join([lines[0], "Name: vllm-fleet-provider", *lines[1:], f"Summary: {SUMMARY}", ""]).encode()


def _plugins(whole: str) -> bytes:
    """Keep the entry points for vLLM; the command line is not there."""
    groups = [f"[{group}" for group in whole.split("[") if group]
    return "".join(group for group in groups if group.startswith(PLUGINS)).encode()


def _record(files: dict[str, bytes], name: str) -> bytes:
    """List every file with its hash and size, as a wheel does (PEP 376, PEP 427)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for file, content in files.items():
        digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([file, f"sha256={digest}", len(content)])
    writer.writerow([name, "", ""])
    return out.getvalue().encode()


if __name__ == "__main__":
    for found in Path(sys.argv[1]).glob(f"{WHOLE}-*.whl"):
        cut(found)
