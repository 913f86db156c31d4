"""Which disaggregated pools serve one model together."""

from dashboard.rules.subject import FleetSubject, PoolSubject


def partners(fleet: FleetSubject) -> list[list[PoolSubject]]:
    """Group the disaggregated pools of a fleet: those of one name but for the role, or with a served name in common."""
    groups: list[tuple[set[str], list[PoolSubject]]] = []
    for subject in (each for each in fleet.subjects if each.domain.disaggregated):
        names, members = names_of(subject), [subject]
        apart = []
        for known, pools in groups:
            if known & names:
                names, members = names | known, pools + members
            else:
                apart.append((known, pools))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def names_of(subject: PoolSubject) -> set[str]:
    """Return what a pool's model goes by: the pool's own name without its role, and the names that it serves."""
    stem = subject.name.removesuffix("/prefill").removesuffix("/decode")
    return {stem} | {name for each in subject.all_replicas for name in each.served_model_names}
