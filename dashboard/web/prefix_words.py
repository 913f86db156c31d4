"""The verdict on prefix sharing in a table's cell. HTML."""

from collections.abc import Mapping

from dashboard.compare import SharingVerdict, Verdict
from dashboard.report.pools.sharing import severity, short_text
from dashboard.rules.findings import Severity
from dashboard.web import markup

_SAID = {Verdict.DIFFERS: "differs:", Verdict.AGREES: "good:", Verdict.UNKNOWN: "unknown:", Verdict.OFF: "off:"}


def prefix_words(verdict: SharingVerdict, named: Mapping[str, Severity], *, is_quiet: bool = False) -> str:
    """Write the verdict for a table's cell: `B and C differ from A`.

    `named` are the settings that findings of the pool name, with the worst severity. `is_quiet`: nothing uses shared
    prefixes of the pool.
    """
    words = short_text(verdict)
    if is_quiet:
        return markup.muted(f"not needed here ({words})")
    return f"{markup.glyph(severity(verdict, named), _SAID[verdict.verdict])} {markup.text(words)}"
