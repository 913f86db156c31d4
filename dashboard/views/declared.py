"""What vLLM declares of one setting, by version: the field reference as a section."""

import json
from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.fleet.formatting import setting_text
from dashboard.fleet.pieces import plain
from dashboard.views.blocks import Cell, Column, Paragraph, Section, Table
from dashboard.vllm.field_reference import Declaration, declarations, known_sentences

DECLARED = "declared"  # anchor of the section


def declared_section(path: str) -> Section:
    """Return what a setting does, and what vLLM declares of it by version."""
    known = declarations(path)
    if not known:
        why = "not a variable of vLLM" if path.startswith("env.") else "no vLLM version declares it"
        return Section(DECLARED, "Field reference", (Paragraph(plain(f"Not in the field reference: {why}.")),))
    columns = (
        Column("vLLM"),
        Column("Type", is_code=True),
        Column("Default", is_code=True),
        Column("Flag", is_code=True),
    )
    rows = tuple(
        (Cell(versions), Cell(each.type), Cell(default_text(each)), Cell(" ".join(each.flags) or _variable(path)))
        for versions, each in zip(_spans(known), known, strict=True)
    )
    note = "Read from vLLM's source: the newest patch of each minor version since 0.12."
    table = Table("field-reference", "Declared by vLLM", columns, rows, note)
    sentence = known_sentences().get(path)
    return Section(DECLARED, "Field reference", (*([Paragraph(plain(sentence))] if sentence else []), table))


def default_text(declared: Declaration) -> str:
    """Write a default: its value, or `computed (SYMBOL)`."""
    if declared.default is None:
        return f"computed ({declared.computed})"
    return setting_text(declared.default, State.NULL if json.loads(declared.default) is None else State.REPORTED)


def _spans(known: tuple[Declaration, ...]) -> Iterator[str]:
    for each, following in zip(known, [*known[1:], None], strict=True):
        if each.until:
            yield each.since if each.since == each.until else f"{each.since} to {each.until}"
        elif following is None:
            yield f"{each.since} and newer"
        else:
            yield f"{each.since} to before {following.since}"


def _variable(path: str) -> str:
    return path.removeprefix("env.") if path.startswith("env.") else ""
