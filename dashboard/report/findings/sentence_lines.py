"""Sentences on findings as lines in which values and what is typed are set as code."""

import json
import re
from collections import Counter
from collections.abc import Iterable

from dashboard.fleet import State
from dashboard.fleet.formatting import told_text
from dashboard.fleet.pieces import Piece, Style
from dashboard.rules.findings import Evidence
from dashboard.views.blocks import Line

WORDS_OF = ("/", "replicas.")  # paths of evidence that is no setting: a route, a replica's own state
_CODE = re.compile(r"`([^`]+)`")


def with_values(sentence: str, evidence: Iterable[Evidence]) -> Line:
    """Return a sentence whose values, those that its evidence holds, are code.

    A value is marked as often as the evidence holds it: what follows may be a number of replicas that looks the same.
    """
    left = Counter(text for each in evidence for text in _spellings(each))
    if not left:
        return (Piece(sentence),)
    spelled = "|".join(re.escape(text) for text in sorted(left, key=len, reverse=True))
    pieces, at = [], 0
    for found in re.finditer(rf"(?<![\w.])(?:{spelled})(?!\w|\.\w)", sentence):
        text = found.group()
        pieces += [Piece(sentence[at : found.start()]), Piece(text, Style.CODE if left[text] > 0 else Style.PLAIN)]
        at = found.end()
        left[text] -= 1
    return tuple(piece for piece in (*pieces, Piece(sentence[at:])) if piece.text)


def with_code(text: str) -> Line:
    """Return one of our own sentences, in which what stands between backticks is code."""
    parts = _CODE.split(text)
    return tuple(Piece(part, Style.CODE if place % 2 else Style.PLAIN) for place, part in enumerate(parts) if part)


def _spellings(evidence: Evidence) -> list[str]:
    """Return the ways in which a sentence may write a value; none for words that only tell what became of a request."""
    if evidence.state is not State.REPORTED or evidence.path.startswith(WORDS_OF):
        return []
    loaded = json.loads(evidence.value)
    plain = loaded if isinstance(loaded, str) else evidence.value
    return list(dict.fromkeys(text for text in (told_text(evidence.value, evidence.state), plain) if text.strip()))
