"""The process that makes a PDF of HTML from standard input. WeasyPrint, an extra, is loaded here only."""

import logging
import sys
from importlib import import_module
from types import ModuleType

from dashboard import __version__

WHEEL = f"vllm_fleet_dashboard-{__version__}-py3-none-any.whl"
HOW = (
    f"install it with pip install '{WHEEL}[dashboard,pdf]', or in a checkout pip install -r requirements-pdf.txt; it "
    "needs Pango too (in Debian libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0). Without it, any browser "
    "prints the HTML report to a PDF"
)


def main() -> None:
    """Read the report, write its pages; without WeasyPrint say what to install, and end with 1."""
    try:
        weasyprint = _weasyprint()
    except (ImportError, OSError):  # OSError: WeasyPrint is there, the libraries that it loads are not
        sys.exit(f"A PDF needs WeasyPrint, which this Python cannot load: {HOW}.")
    sys.stdout.buffer.write(_pages(weasyprint, sys.stdin.buffer.read().decode()))


def _pages(weasyprint: ModuleType, html: str) -> bytes:
    """Make the pages: with an outline, tags for screen readers, and nothing fetched. Their time is that of the data."""
    offline = import_module("weasyprint.urls").URLFetcher(allowed_protocols=())
    pages: bytes = weasyprint.HTML(string=html, url_fetcher=offline).write_pdf(pdf_tags=True)
    return pages


def _weasyprint() -> ModuleType:
    loaded = import_module("weasyprint")
    # It names each line of the style sheet that is for browsers.
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    return loaded


if __name__ == "__main__":
    main()
