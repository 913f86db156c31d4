"""A report as PDF, made of its HTML in a process of its own.

The pages of 1,000 replicas take half a minute and 0.6 GB: neither is taken from a server that others are looking at.
WeasyPrint, an extra, is loaded there only.
"""

import logging
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from dashboard import __version__
from dashboard.errors import ReportError

SECONDS = 300  # ten times what 1,000 replicas take
WHEEL = f"vllm_fleet_dashboard-{__version__}-py3-none-any.whl"
HOW = (
    f"install it with pip install '{WHEEL}[dashboard,pdf]', or in a checkout pip install -r requirements-pdf.txt; it "
    "needs Pango too (in Debian libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0). Without it, any browser "
    "prints the HTML report to a PDF"
)
_PACKAGES = Path(__file__).parents[2]


def to_pdf(html: str) -> bytes:
    """Return the HTML of `to_html` as a PDF; equal HTML gives equal bytes.

    Raises ReportError where WeasyPrint cannot be loaded or exceeds its time limit.
    """
    path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH", ""))))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.render.pdf"],
            input=html.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        raise ReportError(f"The PDF timed out after {SECONDS} s; print the HTML report with a browser.") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ReportError(reason or "The PDF could not be made; print the HTML report with a browser.")
    return done.stdout


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
