"""The site of the documents: built in strict mode, every link and anchor checked, a page for each rule, one host."""

import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from dashboard.rules.catalogue import ALL_RULES
from tests.deploy.test_alerts import ALERTS
from tests.docs_pages import DOCUMENTS
from tests.serving import ROOT
from tests.tools import site

pytestmark = [pytest.mark.long, pytest.mark.browser]

PROJECT = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
BASE = PROJECT["site_url"]


class Read(HTMLParser):
    """What a page links, loads and defines."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given and (tag == "a" or given.get("rel") in {"canonical", "prev", "next", "sitemap"}):
            self.links.add(given["href"])
        else:
            self.loaded |= {given[name] for name in ("href", "src") if name in given}


@pytest.fixture(scope="module")
def pages() -> dict[str, Read]:
    """Build the site; return its pages by URL below the base."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = [file for file in site.SITE.rglob("*.html") if file.name != "404.html"]
    return {
        f"{file.parent.relative_to(site.SITE)}/".removeprefix("./"): Read(file.read_text()) for file in sorted(files)
    }


@pytest.fixture
def address(pages: dict[str, Read]) -> Iterator[str]:
    """Serve the built site."""
    assert pages
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site.SITE))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Log nothing."""

    def log_message(self, *_: object) -> None:
        return


def test_every_document_and_every_rule_has_its_page(pages: dict[str, Read]) -> None:
    wanted = {page.with_suffix("") for each in DOCUMENTS if (page := site.page_of(each))} - {Path("index")}

    assert {f"{each}/" for each in wanted} <= pages.keys()
    assert {f"rules/{rule.id}/" for rule in ALL_RULES} <= pages.keys()
    assert "rules/" in pages


def test_every_link_and_anchor_of_the_site_exists(pages: dict[str, Read]) -> None:
    found = {(page, urljoin(f"{BASE}{page}", link)) for page, read in pages.items() for link in read.links}
    own = [(page, urlsplit(link)) for page, link in found if link.startswith(BASE)]
    prefix = urlsplit(BASE).path
    wrong = []
    for page, link in own:
        target = unquote(link.path.removeprefix(prefix))
        anchor = unquote(link.fragment)
        known = pages.get(target)
        is_there = known is not None or (site.SITE / target).is_file()
        if not is_there or (anchor and (known is None or anchor not in known.ids)):
            wrong.append((page, link.geturl()))

    assert len(own) > 2000
    assert wrong == []


def test_the_runbooks_of_alerts_are_on_the_site(pages: dict[str, Read]) -> None:
    runbooks = [urlsplit(each["annotations"]["runbook_url"].removeprefix(BASE)) for each in ALERTS.values()]
    named = [each for each in runbooks if "$labels" not in each.path]

    assert named
    assert [each for each in named if each.fragment not in pages[each.path].ids] == []
    assert {each.path for each in runbooks} - {each.path for each in named} == {"rules/{{ $labels.rule }}/"}


def test_links_to_files_of_the_repository_name_files_that_exist(pages: dict[str, Read]) -> None:
    named = {link for read in pages.values() for link in read.links if link.startswith(site.REPOSITORY)}

    assert len(named) > 10
    assert [
        each for each in named if not (ROOT / each.removeprefix(f"{site.REPOSITORY}/").partition("#")[0]).exists()
    ] == []


def test_nothing_is_loaded_from_another_host(pages: dict[str, Read]) -> None:
    foreign = {(page, each) for page, read in pages.items() for each in read.loaded if re.match(r"(https?:)?//", each)}

    assert foreign == set()


def test_chromium_draws_the_diagram_finds_a_rule_and_contacts_this_host_only(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/architecture/")
        page.wait_for_function("document.querySelector('.mermaid')?.shadowRoot !== undefined")
        page.goto(address)
        page.wait_for_load_state("networkidle")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type("block-size-differs", delay=30)
        page.get_by_text("RT-01").first.wait_for()
        browser.close()

    assert [each for each in asked if not each.startswith((address, "data:", "blob:"))] == []
    assert any(each.endswith("/mermaid.min.js") for each in asked)
