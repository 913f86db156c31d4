"""Names of replicas, devices, pools and findings: short, in natural order; as anchors and in file names."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica
from dashboard.fleet.formatting import middle_cut, natural, one_line
from dashboard.fleet.pieces import Kind, Link, Piece, Text, shortlist_texts

MOST_NAMED = 3  # replicas named in a list; more are counted
LONGEST_NAME = 40  # characters of a name in a list or an anchor: it is foreign, and can be of any length
MOST_DEVICES = 2  # kinds named for one pool
_OTHER = re.compile(r"[^a-z0-9]+")
_BESIDE_THE_MODEL = re.compile(r"^(NVIDIA|AMD Instinct|AMD) |[- ](SXM|PCIe|HBM|NVL|\d+ ?GB).*$")


def brief(name: str) -> str:
    return middle_cut(one_line(name), LONGEST_NAME)


def in_natural_order(replicas: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return sorted(replicas, key=lambda each: natural(names.get(each, each)))


def names_of(replicas: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return [names.get(each, each) for each in in_natural_order(replicas, names)]


def find_replicas(fleet: Fleet, text: str) -> list[Replica]:
    """Return the replica with this id; without one those with this name, or this address without its scheme."""
    if text in fleet.by_id:
        return [fleet.by_id[text]]
    return [each for each in fleet.replicas if text and text in {each.name, each.id.partition("://")[2]}]


def replica_text(
    replicas: Iterable[str],
    names: Mapping[str, str],
    most: int = MOST_NAMED,
    choices: Callable[[str], tuple[tuple[str, str], ...]] = lambda _: (),
) -> Text:
    """Return the names of replicas as links: `a, b and 12 more`. `choices` are parameters of their URLs."""
    ids = in_natural_order(replicas, names)
    named = [
        (Piece(brief(names.get(each, each)), link=Link(Kind.REPLICA, each, choices=choices(each))),) for each in ids
    ]
    return shortlist_texts(named, most)


def slug(name: str) -> str:
    """Return a name as an anchor or part of a file name; two names can have the same."""
    return _OTHER.sub("-", name.lower()).strip("-")[:LONGEST_NAME].strip("-") or "unnamed"


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Return a slug for each name, numbered where an earlier name has the same one already."""
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        first = slug(name)
        given, number = first, 1
        while given in taken:
            number += 1
            given = f"{first}-{number}"
        taken.add(given)
        found[name] = given
    return found


def device_words(replicas: Iterable[Replica]) -> str:
    """Return the devices of replicas' engines, the most frequent first: `H100 ×4`; empty where none are reported."""
    kinds: Counter[tuple[str, int]] = Counter()
    for replica in replicas:
        on_each = Counter((device.dp_rank, device.name) for device in replica.devices)
        kinds.update((name, number) for (_, name), number in on_each.items())
    names = [f"{short_device(name)} ×{number}" for (name, number), _ in kinds.most_common(MOST_DEVICES)]
    return ", ".join(names) + (", …" if len(kinds) > MOST_DEVICES else "")


def short_device(name: str) -> str:
    """Return a device name without vendor, socket and memory: `H100` of `NVIDIA H100 80GB HBM3`."""
    return _BESIDE_THE_MODEL.sub("", name).strip() or name
