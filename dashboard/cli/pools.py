"""A pool that is named on the command line and is not there: one sentence for every command."""

from collections.abc import Iterable
from typing import NoReturn

from dashboard.cli.terminal import wrong
from dashboard.fleet.formatting import natural

MOST_NAMED = 12  # pools that the sentence names before it counts the rest


def no_such_pool(name: str, pools: Iterable[str], *, said: str = "there is no pool") -> NoReturn:
    """Say which pools there are, and end with 2. `said` is what stands before the name that was asked for."""
    known = [repr(each) for each in sorted(set(pools), key=natural)]
    left = len(known) - MOST_NAMED
    more = f" and {left:,} more" if left > 0 else ""
    wrong(f"{said} {name!r}; there are: {', '.join(known[:MOST_NAMED]) or 'none'}{more}")
