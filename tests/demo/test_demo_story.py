"""The default fleet: pools, names, addresses, seed."""

import json

from dashboard.demo import default_fleet
from dashboard.demo.describe import DemoReplica, Speaks
from tests.demo.conftest import answer_of, process_of

FLEET = default_fleet()


def _instance_id(replica: DemoReplica) -> str:
    answer = answer_of(process_of(replica, frozenset(Speaks)), "/server_info")
    return str(json.loads(answer.body)["vllm_config"]["instance_id"])


def test_addresses_and_names_are_unique_and_fewer_replicas_are_the_first_of_the_fleet() -> None:
    assert default_fleet(5) == FLEET[:5]
    for fleet in (FLEET, default_fleet(1000)):
        assert len({replica.address for replica in fleet}) == len(fleet)
        assert len({replica.name for replica in fleet}) == len(fleet)


def test_a_thousand_replicas_have_some_thirty_documents() -> None:
    fleet = default_fleet(1000)
    assert len(fleet) == 1000

    documents = {(replica.configuration, replica.speaks, replica.api_key) for replica in fleet}
    assert 30 <= len(documents) <= 60
    assert sum(Speaks.PROVIDER in replica.speaks for replica in fleet) > 600
    assert len({replica.labels.get("cluster") for replica in fleet}) > 20
    assert len({(replica.labels.get("cluster"), replica.labels.get("pool")) for replica in fleet}) > 100


def test_the_seed_changes_only_identities() -> None:
    other = default_fleet(seed=1)
    assert default_fleet() == FLEET
    assert [one.configuration for one in other] == [one.configuration for one in FLEET]
    assert all(_instance_id(one) != _instance_id(two) for one, two in zip(other, FLEET, strict=True))
