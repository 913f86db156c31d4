"""Whether a pool's replicas can share prefixes: in a few words, and as a sentence with its values."""

from collections.abc import Iterator, Mapping, Sequence

from dashboard.compare import Part, SharingSentence, Verdict
from dashboard.compare.derived_sentence import DERIVED
from dashboard.compare.sharing_sentence import MEASURED
from dashboard.fleet import Pool
from dashboard.report.pools.prefix_words import severity, short_words
from dashboard.rules.findings import Severity
from dashboard.web import markup

_BASES = {MEASURED.strip(), DERIVED.strip()}
_SAID = {Verdict.DIFFERS: "differs:", Verdict.AGREES: "good:", Verdict.UNKNOWN: "unknown:", Verdict.OFF: "off:"}


def prefix_words(
    pool: Pool, sentence: SharingSentence, named: Mapping[str, Severity], *, is_quiet: bool = False
) -> str:
    """Say for a table's cell whether a pool's replicas differ: `B and C differ from A`. HTML.

    `named` are the settings that findings of the pool name, with the worst severity. `is_quiet`: it matters to nobody.
    """
    if is_quiet:
        return markup.muted(f"not needed here ({short_words(pool, sentence)})")
    kind, words = severity(sentence, named), short_words(pool, sentence)
    return f"{markup.glyph(kind, _SAID[sentence.verdict])} {markup.text(words)}"


def prefix_band(sentence: SharingSentence, named: Mapping[str, Severity]) -> str:
    """Write the whole sentence as a framed statement: its claim in bold, its values in monospace. HTML."""
    body = "".join(_parts(sentence.parts))
    kind = severity(sentence, named)
    return markup.notice(kind, f"{markup.glyph(kind, _SAID[sentence.verdict])} {body}")


def _parts(parts: Sequence[Part]) -> Iterator[str]:
    """Write in a quiet voice how it is known, what is claimed in bold, then why; once, or for each way to know."""
    is_claimed = False
    for part in parts:
        if part.is_value:
            yield markup.code(part.text)
        elif part.text.strip() in _BASES:
            is_claimed = False
            yield markup.muted(part.text)
        else:
            yield markup.text(part.text) if is_claimed else markup.claim(part.text)
            is_claimed = True
