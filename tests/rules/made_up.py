"""The text of rules that tests declare."""

from typing import Any

from dashboard.rules.registry import RuleText


def text_of(why: dict[str, tuple[str, str]] | None = None, **more: Any) -> RuleText:
    """Return the text of a rule; `why` has a severity and a reason by impact context."""
    impact = {context: {"severity": severity, "why": reason} for context, (severity, reason) in (why or {}).items()}
    given = {"id": "CP-99", "fix": "", "exceptions": "", "evidence": (), "example": "", **more}
    return RuleText(impact=impact, **given)
