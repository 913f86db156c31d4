"""What the terminal shows, made by rich."""

from io import StringIO

from rich.console import Console, Group, RenderableType

from dashboard.fleet.formatting import without_commands


def printed(*parts: RenderableType, width: int, colour: bool) -> str:
    """Return what rich prints, at most `width` columns wide, without blanks at the end of lines.

    Lines are folded, so a value may begin one: none is a command to the CI system that reads its log.
    """
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False)
    console.print(Group(*parts))
    return without_commands("".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()))
