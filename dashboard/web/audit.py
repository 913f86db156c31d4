"""The audit log: who changed or exported which snapshot. One JSON object a line, on standard error."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import streamlit as st

from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import iso
from dashboard.service import utc_now
from dashboard.web.edge import PEER_HEADER

LONGEST_VALUE = 200  # characters of what a visitor typed or sent
UNKNOWN = "unknown"  # outside of a server
CLAIMS = {"forwarded_for": "X-Forwarded-For", "user": "X-Forwarded-User"}  # true only where a proxy sets them


def visitor() -> Mapping[str, str]:
    """Return who looks at the page: the address that the connection is from, and what its headers claim."""
    headers = st.context.headers
    claimed = {key: headers[header] for key, header in CLAIMS.items() if header in headers}
    return {"remote": headers.get(PEER_HEADER, UNKNOWN), **claimed}


@contextmanager
def recorded(action: str, who: Mapping[str, str] | None = None, **what: Any) -> Iterator[dict[str, Any]]:
    """Log what is done inside, also where it fails. `what`, and what the body adds to it, names the snapshot."""
    who = who or visitor()
    try:
        yield what
    except SnapshotError as error:
        _write(action, who, {**what, "refused": str(error)})
        raise
    _write(action, who, what)


def _write(action: str, who: Mapping[str, str], what: Mapping[str, Any]) -> None:
    told = {"audit": action, "at": iso(utc_now()), **who, **what}
    shown = {key: text[:LONGEST_VALUE] if isinstance(text, str) else text for key, text in told.items()}
    sys.stderr.write(f"{json.dumps(shown)}\n")
