"""Build the site of the documents into build/site: README, docs/, and a page for each rule.

Documents are written for the repository. Here a link to another document becomes one to its page, and a link to any
other file one to the repository. Mermaid, which draws one diagram, is served by the site itself.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from base64 import b64decode
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES, SITE = BUILD / "pages", BUILD / "site"
REPOSITORY = "https://github.com/your-org/vllm-fleet-dashboard/blob/main"
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
MERMAID = "mermaid@12.3.0"
INTEGRITY = "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw=="  # sha512
STYLE = """
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .7rem; }
.md-typeset table:not([class]) td:first-child code { white-space: nowrap; }
"""
_LINK = re.compile(r"(\]\()(?!https?://|#)([^)#\s]+)(#[^)]*)?(\))")
_CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"\[([^]]+)\]\(([\w/-]+\.md)\)")


def page_of(file: Path) -> Path | None:
    """Return the place of a document below PAGES; none for other files."""
    name = file.relative_to(ROOT)
    if name.suffix != ".md" or not (str(name) in DOCUMENTS or name.parts[0] == "docs"):
        return None
    place = Path(*name.parts[1:]) if name.parts[0] == "docs" else name
    return place.with_name("index.md") if place.name == "README.md" else place


def page_text(file: Path) -> str:
    """Return a document whose links work on the site."""
    own = page_of(file)
    assert own

    def moved(found: re.Match[str]) -> str:
        target = (file.parent / found[2]).resolve()
        page = page_of(target)
        if page:
            link = os.path.relpath(page, own.parent)
        elif target.suffix == ".webp":
            (PAGES / "assets").mkdir(exist_ok=True)
            shutil.copyfile(target, PAGES / "assets" / target.name)
            link = os.path.relpath(Path("assets", target.name), own.parent)
        elif target.suffix == ".json" and target.parent == ROOT / "docs":
            link = os.path.relpath(target.name, own.parent)
        else:
            link = f"{REPOSITORY}/{target.relative_to(ROOT)}"
        return f"{found[1]}{link}{found[3] or ''}{found[4]}"

    parts = _CODE.split(file.read_text())
    text = "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)
    if "```mermaid" in text:  # before the theme looks for it, which otherwise loads it from another host
        text += f'\n<script src="{os.path.relpath("assets/mermaid.min.js", own.with_suffix(""))}"></script>\n'
    return text


def navigation() -> str:
    """Return the pages in the order in which the README lists them."""
    _, _, listed = (ROOT / "README.md").read_text().partition("\n## Documentation\n")
    pages = [(name, page_of(ROOT / file)) for name, file in (*_NAMED.findall(listed), ("Security", "SECURITY.md"))]
    entries = ['{"Home" = "index.md"}', *(f'{{"{name[0].upper()}{name[1:]}" = "{page}"}}' for name, page in pages)]
    return f"nav = [{', '.join(entries)}]\n"


def write_pages() -> None:
    """Write the documents as they are on the site."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for file in (*(ROOT / name for name in DOCUMENTS), *sorted((ROOT / "docs").rglob("*"))):
        page = page_of(file)
        if page:
            (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
            (PAGES / page).write_text(page_text(file))
        elif file.is_file():
            shutil.copyfile(file, PAGES / file.name)
    (PAGES / "site.css").write_text(STYLE)
    text = (ROOT / "zensical.toml").read_text()
    (BUILD / "zensical.toml").write_text(text.replace("[project]\n", f"[project]\n{navigation()}", 1))


def add_mermaid() -> None:
    """Take Mermaid's script from npm, once; its package has to be the known one."""
    file = BUILD / f"{MERMAID.replace('@', '-')}.tgz"
    if not file.exists():
        command = ["npm", "pack", MERMAID, "--silent", "--pack-destination", str(BUILD)]
        subprocess.run(command, cwd=BUILD, check=True, stdout=subprocess.DEVNULL)
    if hashlib.sha512(file.read_bytes()).digest() != b64decode(INTEGRITY):
        sys.exit(f"{file.name} is not the known package; remove it")
    with tarfile.open(file) as archive:
        script = archive.extractfile("package/dist/mermaid.min.js")
        assert script
        (PAGES / "assets" / "mermaid.min.js").write_bytes(script.read())


def main() -> None:
    """Build the site; warnings are errors."""
    BUILD.mkdir(exist_ok=True)
    write_pages()
    add_mermaid()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    done = subprocess.run([*command, "--config-file", "zensical.toml"], cwd=BUILD, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
