"""The probes of one replica: what each was asked, what became of it, and the raw answer."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from dashboard.fleet import ProbeResult, Source, formatting

LONGEST = 60_000  # characters of a raw answer that are shown; a browser colours them in a moment
NOT_KEPT = "A snapshot keeps no raw answers, only what was read from them."
NO_ANSWER = "No answer came that could be shown."
NOT_HERE = "This replica has no such path."


class Raw(NamedTuple):
    """An answer fit to be read: JSON indented, or as it came. `left_out` says what is not shown, empty if nothing."""

    text: str
    language: str | None
    left_out: str


def probes_table(probes: Sequence[ProbeResult]) -> pd.DataFrame:
    """Return a row per probe, failures first."""
    rows = [
        (
            _outcome(probe),
            probe.path,
            probe.status,
            probe.size_bytes if probe.status is not None else None,
            probe.elapsed_seconds * 1000,
            probe.observed_at,
            _sentence(probe),
        )
        for probe in in_order(probes)
    ]
    columns = {"Outcome": "string", "Path": "string", "Status": "Int64", "Bytes": "Int64", "ms": "Float64"}
    names = [*columns, "Asked at", "What became of it"]
    return pd.DataFrame(rows, columns=pd.Index(names)).astype({**columns, names[-1]: "string"})


def in_order(probes: Sequence[ProbeResult]) -> list[ProbeResult]:
    """Order probes: those that failed, those that were read, those that are not there."""
    return sorted(probes, key=lambda probe: (probe.failure is None, probe.reply is None, probe.path))


def raw_of(probe: ProbeResult) -> Raw:
    """Make a redacted answer readable. What is no JSON is shown as it came, undecodable bytes replaced."""
    text = probe.raw.decode("utf-8", errors="replace")
    language = None
    try:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        language = "json"
    except (ValueError, RecursionError):
        pass
    said = [_lines_used(probe)] if probe.source is Source.METRICS and len(probe.raw) < probe.size_bytes else []
    if len(text) > LONGEST:
        said.append(f"The first {LONGEST:,} of {len(text):,} characters.")
    return Raw(text[:LONGEST], language, " ".join(said))


def _lines_used(probe: ProbeResult) -> str:
    lines = formatting.count(len(probe.raw.splitlines()), "line")
    return f"Only the lines that are used were kept: {lines} of an answer of {probe.size_bytes:,} bytes."


def _outcome(probe: ProbeResult) -> str:
    if probe.failure is not None:
        return f"✕ {formatting.FAILURE_WORDS[probe.failure.kind]}"
    return "✓ read" if probe.reply is not None else "– not here"


def _sentence(probe: ProbeResult) -> str:
    if probe.failure is not None:
        return formatting.middle_cut(formatting.one_line(probe.failure.detail), 300)
    if probe.reply is None:
        return NOT_HERE
    strange = len(probe.reply.not_understood)
    return f"{formatting.count(strange, 'part')} not understood." if strange else ""
