"""Rules on identity: replicas on one host, ranks, foreign addresses, and failures of every kind."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from dashboard.fleet import FailureKind, ReplicaState
from dashboard.fleet.formatting import FAILURE_WORDS
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.identity.addresses import endpoint_of, host_of, is_own, port_of, processes, rank_of
from dashboard.rules.identity.coverage import MAX_ROWS, STEPS
from dashboard.rules.registry import Scope
from dashboard.rules.subject import FleetSubject, PoolSubject
from tests import builders
from tests.builders import HOSTILE
from tests.rules import subjects

IDENTITY = tuple(each for each in ALL_RULES if each.family is Family.IDENTITY)

STRANGE: list[Any] = [None, True, -1, 0.5, 2**63, "16", "", HOSTILE, [], [[1]], {}, {"a": [None]}]
EVENTS = {"kv_events_config.enable_kv_cache_events": True}
NIXL = {"kv_transfer_config.kv_connector": "NixlConnector"}
RANK = "parallel_config.data_parallel_rank"
MASTER = "parallel_config.data_parallel_master_ip"
RPC_PORT = "parallel_config.data_parallel_rpc_port"
TWO = {"parallel_config.data_parallel_size": 2}
TOPIC = {"kv_events_config.topic": "kv@10.0.0.5@chat"}


def at(addresses: Sequence[str], *entries: dict[str, Any]) -> PoolSubject:
    """A pool of replicas with these addresses."""
    pool = subjects.pool(*entries)
    placed = (replace(each, id=address) for each, address in zip(pool.all_replicas, addresses, strict=True))
    return replace(pool, all_replicas=tuple(placed))


def drafts(rule: str, *pools: PoolSubject) -> list[Draft]:
    subject = subjects.whole(*pools) if BY_ID[rule].scope is Scope.FLEET else pools[0]
    return list(BY_ID[rule].check(subject))


@pytest.mark.parametrize(
    ("replica", "host"),
    [
        ("http://10.0.0.5:8000", "10.0.0.5"),
        ("https://gpu-7.example.com:443/team-a", "gpu-7.example.com"),
        ("http://[fd00::1]:8000", "[fd00::1]"),
        ("no address at all", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_replica_is_in_its_id(replica: str, host: str) -> None:
    assert host_of(replica) == host


def test_a_wildcard_and_the_loopback_are_each_machines_own() -> None:
    assert all(map(is_own, ["*", "", "0.0.0.0", "::", "[::]", "localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]))
    assert not any(map(is_own, ["10.0.0.5", "localhost.example.com", "router", "1270.0.0.1", "fd00::1"]))


def test_an_endpoint_is_a_host_and_a_port_that_is_known() -> None:
    assert endpoint_of("tcp://*:5557") == ("*", 5557)
    assert endpoint_of("tcp://[fd00::1]:5557") == ("[fd00::1]", 5557)
    assert [endpoint_of(each) for each in ("tcp://*:0", "tcp://*:99999", "ipc:///tmp/x", "tcp://*:", 5557, None)] == [
        None
    ] * 6


def test_ports_and_ranks_of_another_type_are_none() -> None:
    assert [port_of(each) for each in (5600, 0, -1, 65_536, "5600", True, None)] == [5600, *[None] * 6]
    assert rank_of(2, 1) == 1
    assert [rank_of(*each) for each in ((1, 0), (2, -1), (2, "1"), (True, 1), (2, None), (None, 1))] == [None] * 6


def test_of_the_addresses_of_one_process_the_first_stands_for_it() -> None:
    known = subjects.pool(
        {"same_process": ["http://chat-2:8000"]}, {"same_process": ["http://chat-1:8000"]}, {}
    ).all_replicas

    assert processes([each.id for each in known], known) == ("http://chat-1:8000", "http://chat-3:8000")
    assert processes(["http://chat-2:8000"], known) == ("http://chat-2:8000",)


def test_ranks_on_one_host_with_a_local_master_are_one_engine() -> None:
    ids = ["http://10.0.0.5:8000", "http://10.0.0.5:8001", "http://10.0.0.6:8000"]
    alike = {"settings": {**TWO, "parallel_config.enable_eplb": True}}
    other = {"settings": {**TWO, "parallel_config.enable_eplb": False}}
    entries = [
        {**settings, "identity": {MASTER: "127.0.0.1", RPC_PORT: 29_550, RANK: rank}}
        for rank, settings in enumerate((alike, other, other))
    ]
    (draft,) = drafts("ID-01", at(ids, *entries))

    assert draft.replicas == tuple(ids[:2])
    assert "enable_eplb differs: false on 1 and true on 1" in draft.sentence
    assert '"10.0.0.5"' in {each.value for each in draft.evidence}


def test_a_replica_that_does_not_tell_its_rank_belongs_to_no_engine() -> None:
    told = {MASTER: "10.0.0.1", RPC_PORT: 29_550}
    entries = [{"settings": {**TWO, "parallel_config.enable_eplb": rank}, "identity": told} for rank in (True, False)]

    assert drafts("ID-01", subjects.pool(*entries)) == []


def test_two_addresses_of_each_rank_are_still_the_ranks_of_one_engine() -> None:
    """Four addresses, two processes, one id: vLLM appends another rank to each."""
    entries = [
        {
            "settings": TWO,
            "identity": {"kv_transfer_config.engine_id": "decode", RANK: number // 2},
            "same_process": [f"http://chat-{(number ^ 1) + 1}:8000"],
        }
        for number in range(4)
    ]

    assert drafts("ID-02", subjects.pool(*entries)) == []


def test_an_engine_id_that_is_an_attack_stays_on_one_line() -> None:
    entry = {"replicas": 2, "identity": {"kv_transfer_config.engine_id": f"{HOSTILE}\n" * 100}}
    (draft,) = drafts("ID-02", subjects.pool(entry))

    assert draft.sentence.isprintable()
    assert len(draft.sentence) < 200


def test_replicas_on_one_host_with_one_port_are_told_though_their_networks_may_be_apart() -> None:
    ids = ["http://10.0.0.5:8000", "http://10.0.0.5:8001", "http://10.0.0.6:8000"]
    entry = {"settings": {**EVENTS, "kv_events_config.endpoint": "tcp://*:5557"}, "replicas": 3}
    (draft,) = drafts("ID-03", at(ids, entry))

    assert draft.replicas == tuple(ids[:2])
    assert draft.sentence == "2 replicas on 10.0.0.5 have the same port for KV events: 5557."
    assert (draft.severity, draft.assumptions) == (Severity.WARNING, ("replicas on one host share its network",))
    assert [each.text for each in draft.remedy.snippets] == ["--kv-events-config.endpoint 'tcp://*:5558'"]


def test_the_same_port_on_two_hosts_each_is_two_findings_that_are_told_apart() -> None:
    ids = [f"http://10.0.0.{host}:{port}" for host in (5, 6) for port in (8000, 8001)]
    side = {"env.VLLM_NIXL_SIDE_CHANNEL_HOST": "localhost", "env.VLLM_NIXL_SIDE_CHANNEL_PORT": 5600}
    found = drafts("ID-03", at(ids, {"settings": NIXL, "identity": side, "replicas": 4}))

    assert [each.replicas for each in found] == [tuple(ids[:2]), tuple(ids[2:])]
    assert len({repr(sorted((row.path, row.value) for row in each.evidence)) for each in found}) == 2
    assert found[0].remedy.snippets[0].text == "export VLLM_NIXL_SIDE_CHANNEL_PORT=5601"


def test_addresses_that_are_this_machines_own_tell_nothing_of_the_host() -> None:
    """They may be the ends of tunnels to different hosts."""
    ids = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    entry = {"settings": {**EVENTS, "kv_events_config.endpoint": "tcp://*:5557"}, "replicas": 2}

    assert drafts("ID-03", at(ids, entry)) == []


def test_two_addresses_of_one_process_have_one_side_channel_and_one_topic() -> None:
    side = {"env.VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.5", "env.VLLM_NIXL_SIDE_CHANNEL_PORT": 5600, **TOPIC}
    settings = {**NIXL, **EVENTS}
    entries = [
        {"settings": settings, "identity": side, "same_process": [f"http://chat-{other}:8000"]} for other in (2, 1)
    ]

    assert drafts("ID-03", subjects.pool(*entries)) == []


def test_ranks_of_one_engine_on_one_host_publish_under_one_topic() -> None:
    ids = ["http://10.0.0.5:8000", "http://10.0.0.5:8001"]
    entries = [{"settings": {**EVENTS, **TWO}, "identity": {**TOPIC, RANK: rank}} for rank in (0, 1)]

    assert drafts("ID-03", at(ids, *entries)) == []


@pytest.mark.parametrize(
    ("ids", "ranks"),
    [
        (["http://10.0.0.5:8000", "http://10.0.0.6:8000"], [0, 1]),
        (["http://10.0.0.5:8000", "http://10.0.0.5:8001"], [0, 0]),
        (["http://10.0.0.5:8000", "http://10.0.0.5:8001"], [0, None]),
    ],
    ids=["two hosts", "one rank", "one that is no rank"],
)
def test_others_that_publish_under_one_topic_are_told(ids: list[str], ranks: list[int | None]) -> None:
    entries = [{"settings": {**EVENTS, **TWO}, "identity": {**TOPIC, RANK: rank}} for rank in ranks]
    (draft,) = drafts("ID-03", at(ids, *entries))

    assert draft.replicas == tuple(ids)
    assert "--kv-events-config.topic=kv@$(POD_IP)@chat" in draft.remedy.snippets[0].text


def test_a_topic_of_any_shape_is_pasted_as_one_yaml_string() -> None:
    topic = f'kv@10.0.0.5:8000@{HOSTILE}"\n- evil'
    (draft,) = drafts("ID-03", subjects.pool({"replicas": 2, "settings": {**EVENTS, "kv_events_config.topic": topic}}))
    line = draft.remedy.snippets[0].text.rpartition("  - ")[2]

    assert json.loads(line) == f'--kv-events-config.topic=kv@$(POD_IP):8000@{HOSTILE}"\n- evil'
    assert draft.sentence.isprintable()


def test_every_kind_of_failure_has_words_and_a_remedy() -> None:
    assert set(FAILURE_WORDS) == set(FailureKind)
    assert set(STEPS) == {*FailureKind, None}
    assert all(reason and not reason.endswith(".") for reason in FAILURE_WORDS.values())
    assert all(remedy.endswith(".") for remedy in STEPS.values())


@pytest.mark.parametrize("kind", FailureKind)
def test_a_failure_of_any_kind_is_told_with_its_own_sentence(kind: FailureKind) -> None:
    down = builders.down("gpu-9", pool=None, kind=kind, detail=HOSTILE)
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (down,)))

    assert draft.sentence == f"1 of 1 replica without a pool is unreachable: {FAILURE_WORDS[kind]}."
    assert json.loads(draft.evidence[-1].value) == HOSTILE
    assert draft.remedy.sentence == STEPS[kind].format(where="http://gpu-9:8000")
    assert all("gpu-9" in each.text or each.text.startswith("poll:") for each in draft.remedy.snippets)


def test_a_key_goes_to_the_targets_that_want_one_and_to_no_other() -> None:
    down = tuple(builders.down(f"chat-{number}", kind=FailureKind.UNAUTHORIZED) for number in range(5))
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), down))
    told = yaml.safe_load(draft.remedy.snippets[0].text)

    assert told == {
        "targets": [
            {"url": f"http://chat-{number}:8000", "credentials": {"token_env": "VLLM_API_KEY"}} for number in range(3)
        ]
    }
    assert draft.remedy.snippets[0].text.endswith("# and so on for 5 targets")
    assert draft.remedy.sentence == "Configure the API key for these 5 addresses alone."


def test_an_address_of_any_shape_stays_one_string_and_on_one_line() -> None:
    evil = f"http://{HOSTILE}\n- evil{'x' * 500}"
    kinds = (FailureKind.UNAUTHORIZED, FailureKind.DECODE)
    down = tuple(replace(builders.down(kind=kind), id=evil) for kind in kinds)
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), down))
    texts = [each.text for each in draft.remedy.snippets]

    assert draft.remedy.sentence.isprintable()
    assert len(draft.remedy.sentence) < 400
    assert sorted(str(yaml.safe_load(text)["targets"][0]) for text in texts) == sorted(
        ["http://10.0.0.1:8000", str({"url": evil, "credentials": {"token_env": "VLLM_API_KEY"}})]
    )


def test_a_replica_that_is_down_without_a_reason_is_told() -> None:
    down = replace(builders.down(), failure=None)
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (down,)))

    assert draft.sentence.endswith("is unreachable: no answer.")
    assert json.loads(draft.evidence[-1].value) == "No probe gave a reply."


def test_an_outage_of_the_whole_fleet_is_counted_whole_and_shown_in_part() -> None:
    down = tuple(builders.down(f"chat-{number}", detail=f"chat-{number} is silent.") for number in range(500))
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), down))

    assert draft.sentence == "500 of 500 replicas of this pool are unreachable: connection refused."
    assert len(draft.replicas) == 500
    assert sum(each.path == "replicas.reason" for each in draft.evidence) == MAX_ROWS


def test_who_is_down_is_down_also_when_it_was_read_lately() -> None:
    down = replace(builders.replica(), state=ReplicaState.DOWN)
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (down,)))

    assert draft.severity is Severity.WARNING
    assert " is unreachable" in draft.sentence


def test_three_addresses_of_one_process_are_one_finding_on_the_last_two() -> None:
    names = [f"http://chat-{number}:8000" for number in (1, 2, 3)]
    entries = [
        {"identity": {"instance_id": "7"}, "same_process": [each for each in names if each != own]} for own in names
    ]
    (draft,) = drafts("ID-07", subjects.pool(*entries))

    assert draft.replicas == tuple(names[1:])
    assert draft.sentence.startswith("3 addresses")
    assert draft.evidence[0].replicas == tuple(names)


@pytest.mark.parametrize("rule", IDENTITY, ids=lambda rule: rule.id)
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: json.dumps(value)[:20])
def test_no_rule_raises_whatever_identity_holds(rule: Any, value: Any) -> None:
    keys = ["kv_transfer_config.engine_id", "instance_id", MASTER, RPC_PORT, RANK, *TOPIC]
    keys += ["kv_events_config.endpoint", "kv_events_config.replay_endpoint"]
    keys += [f"env.VLLM_{kind}_SIDE_CHANNEL_{part}" for kind in ("NIXL", "P2P") for part in ("HOST", "PORT")]
    tiers = {"kv_transfer_config.kv_connector_extra_config.secondary_tiers": [{"type": "p2p"}, value]}
    settings = {
        **EVENTS,
        "parallel_config.data_parallel_size": value,
        "kv_transfer_config.kv_connector": "NixlConnector",
    }
    entry = {"settings": {**settings, **tiers}, "identity": dict.fromkeys(keys, value), "replicas": 2}
    found = drafts(rule.id, subjects.pool(entry))

    assert all(draft.sentence.isprintable() for draft in found)
