"""Names of replicas and pools in lists: short, on one line, in natural order."""

from collections.abc import Callable, Iterable, Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import middle_cut, natural, one_line
from dashboard.fleet.pieces import Kind, Link, Piece, Text, join_texts, plain

MOST_NAMED = 3  # replicas named in a list; more are counted
LONGEST_NAME = 40  # characters of a replica's or pool's name in a list


def brief(name: str) -> str:
    """Return a name on one line, cut to LONGEST_NAME."""
    return middle_cut(one_line(name), LONGEST_NAME)


def in_natural_order(replicas: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return ids of replicas in natural order of their names."""
    return sorted(replicas, key=lambda each: natural(names.get(each, each)))


def names_of(replicas: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return the names of replicas in natural order."""
    return [names.get(each, each) for each in in_natural_order(replicas, names)]


def replica_names(fleet: Fleet) -> dict[str, str]:
    """Return the name of each replica by its id."""
    return {each.id: each.name for each in fleet.replicas}


def replica_text(
    replicas: Iterable[str],
    names: Mapping[str, str],
    most: int = MOST_NAMED,
    choices: Callable[[str], tuple[tuple[str, str], ...]] = lambda _: (),
) -> Text:
    """Return the names of replicas as links: `a, b and 12 more`. `choices` are parameters of their URLs."""
    ids = in_natural_order(replicas, names)
    named = [
        (Piece(brief(names.get(each, each)), link=Link(Kind.REPLICA, each, choices=choices(each))),)
        for each in ids[:most]
    ]
    return join_texts([*named, *([plain(f"{len(ids) - most:,} more")] if len(ids) > most else [])])
