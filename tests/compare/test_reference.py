"""What a pool is compared with, and what that tells."""

import pytest

from dashboard.compare import (
    MAJORITY,
    Member,
    Reference,
    ReferenceKind,
    compare_pool,
    parse_reference,
    reference_values,
)
from dashboard.fleet import Role, SettingValue, State
from tests.compare.pools import document, pool_of

SIXTEEN, NULL = SettingValue("16", State.REPORTED), SettingValue("null", State.NULL)
HOLDERS = (
    (3, {"block": 16, "seed": 0, "lora": None, "quiet": State.UNKNOWN}),
    (1, {"block": 32, "seed": 0, "lora.rank": 8}),
    (1, {"block": 16}),
)


def values(reference: Reference) -> dict[str, SettingValue]:
    pool, documents = pool_of(*HOLDERS)
    return dict(reference_values(pool, documents, reference))


def test_the_majority_tells_its_values_and_what_is_equal_everywhere() -> None:
    assert values(MAJORITY) == {"block": SIXTEEN, "seed": SettingValue("0", State.REPORTED), "lora.rank": NULL}


def test_the_majority_tells_nothing_where_there_is_none() -> None:
    pool, documents = pool_of((2, {"block": 16, "seed": 0}), (2, {"block": 32, "seed": 0}))

    assert reference_values(pool, documents, MAJORITY) == {"seed": SettingValue("0", State.REPORTED)}


def test_the_majority_tells_nothing_where_only_a_stale_replica_disagrees() -> None:
    documents = {"a": document("a", {"seed": 0}), "b": document("b", {"seed": 1})}
    members = [Member("a", "a", fresh=True, identity=0), Member("b", "b", fresh=False, identity=0)]
    pool = compare_pool("p", Role.BOTH, members, documents)

    assert reference_values(pool, documents, MAJORITY) == {}


def test_a_cohort_tells_what_its_members_say_together() -> None:
    assert values(Reference(ReferenceKind.COHORT, "B"))["block"] == SettingValue("32", State.REPORTED)
    assert values(Reference(ReferenceKind.COHORT, "A"))["lora.rank"] == NULL


def test_a_replica_tells_only_what_it_said_itself() -> None:
    assert values(Reference(ReferenceKind.REPLICA, "http://2-0:80")) == {"block": SIXTEEN}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("majority", ReferenceKind.MAJORITY),
        ("B", ReferenceKind.COHORT),
        ("http://1-0:80", ReferenceKind.REPLICA),
    ],
)
def test_a_reference_is_read_from_the_url_and_written_back(text: str, kind: ReferenceKind) -> None:
    reference = parse_reference(text, pool_of(*HOLDERS)[0])

    assert (reference.kind, reference.text) == (kind, text)


@pytest.mark.parametrize("text", [None, "", "Z", "b", "http://nobody:80", "<script>", "A" * 10_000, "\x00"])
def test_anything_else_in_the_url_is_the_majority(text: str | None) -> None:
    assert parse_reference(text, pool_of(*HOLDERS)[0]) == MAJORITY
