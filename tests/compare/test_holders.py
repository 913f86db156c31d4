"""Which replicas have which value of a setting."""

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import holders
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Document, Replica, SettingValue, State
from dashboard.vllm.lookahead import LOOKAHEAD
from tests.compare.pools import PATHS, compared, document, fleets, pool_of

UNIT = "cache_config.prefix_match_unit"
Fleet = tuple[list[Replica], dict[str, Document]]


def test_values_have_their_replicas_numbers_by_size_and_states_without_a_value_last() -> None:
    pool, documents = pool_of((1, {UNIT: 32, "y": 1}), (1, {UNIT: 4}), (2, {"y": 2}), (1, {"y": 1, UNIT: 32}))
    documents["d2"] = document("d2", {"y": 2}, version="0.12.0")

    assert list(holders(pool, documents, UNIT).items()) == [
        (SettingValue("32", State.REPORTED), ("http://0-0:80", "http://3-0:80")),
        (SettingValue("4", State.REPORTED), ("http://1-0:80",)),
        (SettingValue("null", State.UNSUPPORTED), ("http://2-0:80", "http://2-1:80")),
    ]


@given(fleets(), st.sampled_from([*PATHS, LOOKAHEAD]))
def test_every_replica_with_a_document_has_the_value_of_its_document(fleet: Fleet, path: str) -> None:
    found = {replica: value for value, ids in holders(compared(fleet), fleet[1], path).items() for replica in ids}

    assert found.keys() == {each.id for each in fleet[0] if each.document}
    for each in fleet[0]:
        if each.document:
            own = lookup_setting(fleet[1][each.document].settings, path)
            assert found[each.id] == (SettingValue(*own[:2]) if own else SettingValue("null", State.ABSENT))
