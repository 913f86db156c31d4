"""The default fleet: pools, names, addresses, seed."""

import json
from collections import Counter

from dashboard.demo import default_fleet, targets
from dashboard.demo.describe import DemoReplica, Speaks
from tests.demo.conftest import answer_of, process_of

FLEET = default_fleet()


def _instance_id(replica: DemoReplica) -> str:
    answer = answer_of(process_of(replica, frozenset(Speaks)), "/server_info")
    return str(json.loads(answer.body)["vllm_config"]["instance_id"])


def test_forty_two_replicas_in_five_pools() -> None:
    pools = Counter(replica.labels.get("pool") or replica.labels["role"] for replica in FLEET)
    assert pools == {"chat-70b": 17, "gemma-27b": 8, "prefill": 2, "decode": 8, "qwen3-8b": 7}


def test_addresses_and_names_are_unique_and_fewer_replicas_are_the_shortlist_the_fleet() -> None:
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


def test_targets_are_in_the_format_of_file_sd() -> None:
    found = targets(FLEET, 8000)
    image = "vllm/vllm-openai:v0.32.0"
    labels = {"name": "chat-70b-01", "pool": "chat-70b", "image": image}
    assert found[0] == {"targets": ["127.1.0.1:8000"], "labels": labels}
    assert found[27]["labels"] == {"name": "deepseek-v3-decode-0", "role": "decode", "image": image}
    assert len(found) == len(FLEET)
