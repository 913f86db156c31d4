"""What all replicas of a group have and the rest of their pool does not: version, devices, host, start, labels."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from dashboard.fleet import Replica
from dashboard.fleet.replies import FILE_SCHEME

FEWEST = 2  # replicas on either side: of fewer, any property separates by chance
ONE_IN = 10  # a property counts if at most one in so many others has it
TOGETHER = timedelta(hours=1)  # starts within this time are one event, such as a rollout
NAMING = frozenset({"name", "pool", "role", "cluster"})  # labels that group replicas, so they explain nothing


class Trait(NamedTuple):
    """A property of all replicas of a group. Of the others that report it (`known`), `others` have it as well."""

    name: str
    value: str
    others: int
    known: int
    is_label: bool = False


def shared_traits(group: Sequence[Replica], rest: Sequence[Replica]) -> tuple[Trait, ...]:
    """Return the properties that separate a group from the rest, those that the most others lack first.

    A property counts if all of the group have it, at least half of the rest report it, and at most one in ten of
    those, and fewer than the group, have it as well. With fewer than two replicas on either side there is none.
    """
    if min(len(group), len(rest)) < FEWEST:
        return ()
    traits = [
        each
        for each in _traits(group, rest)
        if each.known >= FEWEST and 2 * each.known >= len(rest)
        if ONE_IN * each.others <= each.known and each.others < len(group)
    ]
    return tuple(sorted(traits, key=lambda each: (each.others - each.known, each.is_label)))


def _traits(group: Sequence[Replica], rest: Sequence[Replica]) -> Iterator[Trait]:
    properties: list[tuple[str, Callable[[Replica], str]]] = [
        ("vLLM", lambda each: each.version or ""),
        ("devices", lambda each: ", ".join(sorted({device.name for device in each.devices}))),
        ("host", _host),
    ]
    for name, read in properties:
        values = {read(each) for each in group}
        known = [value for each in rest if (value := read(each))]
        if len(values) == 1 and (value := values.pop()):
            yield Trait(name, value, known.count(value), len(known))
    yield from _start(group, rest)
    for label in sorted(set(group[0].labels) - NAMING):
        value = group[0].labels[label]
        if all(each.labels.get(label) == value for each in group):  # a replica without the label does not have it
            yield Trait(label, value, sum(each.labels.get(label) == value for each in rest), len(rest), is_label=True)


def _start(group: Sequence[Replica], rest: Sequence[Replica]) -> Iterator[Trait]:
    """Yield when all of a group started, if that was together. Others have it if they started together with them."""
    times = sorted(each.started_at for each in group if each.started_at)
    if len(times) == len(group) and times[-1] - times[0] <= TOGETHER:
        known = [each.started_at for each in rest if each.started_at]
        others = sum(times[-1] - TOGETHER <= each <= times[0] + TOGETHER for each in known)
        first, last = (f"{each:%H:%M}" for each in (times[0], times[-1]))
        between = f"{first} to {last}" if first != last else first
        yield Trait("started", f"{times[0]:%Y-%m-%d} {between} UTC", others, len(known))


def _host(replica: Replica) -> str:
    """Return the host of the address; empty for an imported replica."""
    if replica.id.startswith(FILE_SCHEME):
        return ""
    return replica.id.partition("://")[2].partition("/")[0].rpartition(":")[0]
