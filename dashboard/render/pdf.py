"""A report as PDF, made of its HTML in a process of its own.

The pages of 1,000 replicas take half a minute and 0.6 GB: neither is taken from a server that others are looking at.
"""

import os
import subprocess
import sys
from pathlib import Path

from dashboard.errors import ReportError

SECONDS = 300  # ten times what 1,000 replicas take
_PACKAGES = Path(__file__).parents[2]


def to_pdf(html: str) -> bytes:
    """Return the HTML of `to_html` as a PDF; equal HTML gives equal bytes.

    Raises ReportError where WeasyPrint cannot be loaded or exceeds its time limit.
    """
    path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH", ""))))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.render.pdf_pages"],
            input=html.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        raise ReportError(f"The PDF was not done within {SECONDS} s; print the HTML report with a browser.") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ReportError(reason or "The PDF could not be made; print the HTML report with a browser.")
    return done.stdout
