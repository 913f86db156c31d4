"""Who can share prefixes with whom, as a small table of cohorts; of very many cohorts, as a list of groups."""

from collections.abc import Iterable

from dashboard.compare import Share, SharingCell, SharingVerdict, cause_text
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.fleet.formatting import count
from dashboard.report.pools.sharing import ABOUT, SHARE_WORDS, SPLIT, group_lines
from dashboard.web import markup

_GLYPHS = {Share.YES: "good", Share.NO: "differs", Share.PARTLY: "partly", Share.UNKNOWN: "unknown"}
_ONE = markup.said("one replica")


def sharing_matrix(sharing: SharingVerdict, kind: str) -> str:
    """Draw the cohorts of a pool against each other, where there is something to see; else nothing. HTML.

    `kind` is the severity of the verdict, whose tint marks what its own settings do not show: who does not share within
    itself.
    """
    number = len(sharing.cohorts)
    if number > MOST_COHORTS:
        drawn = _groups(sharing)
    else:
        cells = sharing.cells
        is_split = any(cell.share in SPLIT for cell in cells)
        is_told = is_split or any(each.is_reporting for each in sharing.cohorts)
        drawn = _table(sharing, cells, kind) if is_split or (number > 1 and is_told) else ""
    return f'<div class="sharing-row">{drawn}<p class="foot">{ABOUT}</p></div>' if drawn else ""


def _table(sharing: SharingVerdict, cells: Iterable[SharingCell], kind: str) -> str:
    by_pair = {(cell.one, cell.other): cell for cell in cells}
    by_pair |= {(cell.other, cell.one): cell for cell in cells}
    single = {each.letter for each in sharing.cohorts if each.replicas == 1}
    letters = [each.letter for each in sharing.cohorts]
    head = "".join(f'<th scope="col">{_name(each.letter, each.replicas)}</th>' for each in sharing.cohorts)
    is_mixed = len({cell.is_measured for cell in cells if cell.share is not Share.UNKNOWN}) > 1
    rows = "".join(
        f'<tr><th scope="row">{markup.letter(own)}</th>'
        + "".join(
            _alone(own)
            if own == other and own in single and by_pair[own, own].share not in SPLIT
            else _cell(by_pair[own, other], own, other, is_mixed=is_mixed)
            for other in letters
        )
        + "</tr>"
        for own in letters
    )
    return (
        f'<div class="scroll sharing {kind}"><table><caption class="said">Which cohorts can share prefixes</caption>'
        f'<thead><tr><th scope="col">Can share with</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _name(letter: str, replicas: int) -> str:
    seen = f'<span aria-hidden="true">×{replicas:,}</span>'
    return f"{markup.letter(letter)} {seen}{markup.said(count(replicas, 'replica'))}"


def _cell(cell: SharingCell, own: str, other: str, *, is_mixed: bool) -> str:
    """Draw one cell: a glyph, its word, and as a tooltip and for the ear how it is known, and why."""
    source = "" if cell.share is Share.UNKNOWN else "measured, " if cell.is_measured else "derived from settings, "
    who = f"within {own}" if own == other else f"{own} with {other}"
    why = f"{who}: {SHARE_WORDS[cell.share]}; {source}{cause_text(cell)}"
    derived = " " + markup.muted("(derived)") if is_mixed and source and not cell.is_measured else ""
    kind = f"{cell.share} own" if own == other else cell.share
    seen = f"{markup.glyph(_GLYPHS[cell.share], '')} {SHARE_WORDS[cell.share]}{derived}"
    return f'<td class="{kind}" title="{markup.text(why)}">{seen}{markup.said(f": {source}{cause_text(cell)}")}</td>'


def _alone(own: str) -> str:
    """Draw the cell of one replica with itself: there is nobody to share with."""
    return f'<td class="own" title="within {own}: one replica"><span aria-hidden="true">–</span>{_ONE}</td>'


def _groups(sharing: SharingVerdict) -> str:
    items = "".join(f"<li>{markup.text(each)}</li>" for each in group_lines(sharing))
    return f'<ul class="sharing-groups" aria-label="Groups that share prefixes">{items}</ul>' if items else ""
