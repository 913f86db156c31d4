"""The audit log: changed and exported snapshots, accepted findings. One JSON object a line, on standard error."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import streamlit as st

from dashboard.errors import DashboardError
from dashboard.fleet.formatting import iso
from dashboard.service import utc_now
from dashboard.web.edge import PEER_HEADER

LONGEST_VALUE = 200  # characters of what a visitor typed or sent
UNKNOWN = "unknown"  # outside of a server
CLAIMS = {"forwarded_for": "X-Forwarded-For", "user": "X-Forwarded-User"}  # true only behind a proxy that sets them


def visitor() -> Mapping[str, str]:
    """Return the address of the connection, and the claims of its headers."""
    headers = st.context.headers
    claims = {key: headers[header] for key, header in CLAIMS.items() if header in headers}
    return {"remote": headers.get(PEER_HEADER, UNKNOWN), **claims}


@contextmanager
def recorded(action: str, who: Mapping[str, str] | None = None, **fields: Any) -> Iterator[dict[str, Any]]:
    """Log an action once it is done, or as refused; the body may add to `fields`, which name the object."""
    line = {"audit": action, **(who or visitor())}
    try:
        yield fields
    except DashboardError as error:
        _write({**line, "audit": f"{action}_refused", **fields, "refused": str(error)})
        raise
    _write({**line, **fields})


def _write(line: Mapping[str, Any]) -> None:
    cut = {key: value[:LONGEST_VALUE] if isinstance(value, str) else value for key, value in line.items()}
    sys.stderr.write(f"{json.dumps({'audit': cut['audit'], 'at': iso(utc_now()), **cut})}\n")
