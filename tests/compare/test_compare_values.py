"""All values of one path, with who tells them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import Member, ValueHolders, compare_pool, group_by_value
from dashboard.fleet import Document, Role, Source, State
from tests.compare.pools import PATHS, compared, fleets, pool_of, setting

Fleet = tuple[list[Member], dict[str, Document]]


def test_values_say_who_has_them_and_the_most_frequent_comes_first() -> None:
    pool, documents = pool_of((1, {"x": 1, "y": 1}), (2, {"x": 2}), (1, {"y": 2}))

    assert group_by_value(pool, documents, "x", unsupported=lambda *_: True) == (
        ValueHolders("2", State.REPORTED, 2, ("http://1-0:80", "http://1-1:80"), ("A",), (Source.SERVER_INFO,)),
        ValueHolders("1", State.REPORTED, 1, ("http://0-0:80",), ("B",), (Source.SERVER_INFO,)),
        ValueHolders("null", State.UNSUPPORTED, 1, ("http://2-0:80",), ("A",), ()),
    )


def test_one_value_may_have_several_sources_in_the_order_of_trust_and_null_comes_from_the_section() -> None:
    documents = {
        "a": Document("a", None, {"lora.rank": setting(None, Source.METRICS), "x": setting(1)}),
        "b": Document("b", None, {"lora": setting(None, Source.CONFIG_API)}),
    }
    members = [Member(key, key, fresh=True, identity=0) for key in documents]
    (value,) = group_by_value(compare_pool("p", Role.BOTH, members, documents), documents, "lora.rank")

    assert (value.state, value.sources) == (State.NULL, (Source.CONFIG_API, Source.METRICS))
    assert (value.replicas, value.cohorts) == (("a", "b"), ("A",))


@given(fleets(), st.sampled_from(PATHS))
def test_every_replica_that_was_read_has_exactly_one_of_the_values(fleet: Fleet, path: str) -> None:
    pool = compared(fleet)
    found = group_by_value(pool, fleet[1], path)

    assert sorted(replica for value in found for replica in value.replicas) == sorted(
        member.id for member in fleet[0] if member.document
    )
    assert len({(value.value, value.state) for value in found}) == len(found)
    assert all(value.count == len(value.replicas) for value in found)
