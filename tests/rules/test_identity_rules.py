"""Rules on identity: shared hosts, ranks, foreign addresses, and failures of every kind."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from dashboard.fleet import FailureKind, Replica, ReplicaState
from dashboard.fleet.formatting import FAILURE_WORDS
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Draft, Severity
from dashboard.rules.identity.addresses import endpoint_of, host_of, is_local, is_own, port_of, processes, ranks_of
from dashboard.rules.identity.coverage import MAX_ROWS, STEPS
from dashboard.rules.registry import Scope
from dashboard.rules.subject import FleetSubject, PoolSubject
from tests import builders
from tests.builders import HOSTILE
from tests.rules import case

EVENTS = {"kv_events_config.enable_kv_cache_events": True}
ENDPOINT = {**EVENTS, "kv_events_config.endpoint": "tcp://*:5557"}
NIXL = {"kv_transfer_config.kv_connector": "NixlConnector"}
SIDE_HOST, SIDE_PORT = "env.VLLM_NIXL_SIDE_CHANNEL_HOST", "env.VLLM_NIXL_SIDE_CHANNEL_PORT"
RANK, SIZE = "parallel_config.data_parallel_rank", "parallel_config.data_parallel_size"
MASTER = "parallel_config.data_parallel_master_ip"
RPC_PORT = "parallel_config.data_parallel_rpc_port"
TWO = {SIZE: 2}
TOPIC = {"kv_events_config.topic": "kv@10.0.0.5@chat"}
ONE_HOST = ("http://10.0.0.5:8000", "http://10.0.0.5:8001")


def at(addresses: Sequence[str], *entries: Mapping[str, Any]) -> PoolSubject:
    """A pool of replicas with these addresses."""
    pool = case.pool(*map(dict, entries))
    placed = (replace(each, id=address) for each, address in zip(pool.all_replicas, addresses, strict=True))
    return replace(pool, all_replicas=tuple(placed))


def drafts(rule: str, *pools: PoolSubject) -> list[Draft]:
    subject = case.whole(*pools) if BY_ID[rule].scope is Scope.FLEET else pools[0]
    return list(BY_ID[rule].check(subject))


@pytest.mark.parametrize(
    ("replica", "host"),
    [
        ("http://10.0.0.5:8000", "10.0.0.5"),
        ("https://gpu-7.example.com:443/team-a", "gpu-7.example.com"),
        ("http://[fd00::1]:8000", "[fd00::1]"),
        ("eu-1+http://10.0.0.5:8000", "10.0.0.5"),
        ("no address at all", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_replica_is_in_its_id(replica: str, host: str) -> None:
    assert host_of(replica) == host


LOCAL = ("localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]", "0:0:0:0:0:0:0:1", "0.0.0.0", "::", "[::]")
REMOTE = ("10.0.0.5", "pod-3.decode", "localhost.example.com", "1270.0.0.1", "fd00::1", "\x00")


def test_loopback_and_unspecified_addresses_are_local_and_a_wildcard_is_the_reporting_machine() -> None:
    assert all(is_local(each) and is_own(each) for each in LOCAL)
    assert not any(is_local(each) or is_own(each) for each in REMOTE)
    assert [(is_own(each), is_local(each)) for each in ("", "*")] == [(True, False)] * 2


def test_endpoints_ports_and_ranks_of_another_form_are_none() -> None:
    invalid = ("tcp://*:0", "tcp://*:99999", "ipc:///tmp/x", "tcp://*:", 5557, None)
    pairs = [(2, 1), (1, 0), (2, -1), (2, "1"), (True, 1), (2, None), (None, 1)]
    entries = [{"settings": {SIZE: size}, "identity": {RANK: rank}} for size, rank in pairs]

    assert endpoint_of("tcp://*:5557") == ("*", 5557)
    assert endpoint_of("tcp://[fd00::1]:5557") == ("[fd00::1]", 5557)
    assert not any(map(endpoint_of, invalid))
    assert [port_of(each) for each in (5600, 0, -1, 65_536, "5600", True, None)] == [5600, *[None] * 6]
    assert ranks_of(case.pool(*entries)) == {"http://chat-1:8000": 1}


def test_the_first_address_represents_a_process() -> None:
    known = case.whole(
        case.pool({"same_process": ["http://chat-2:8000"]}, {"same_process": ["http://chat-1:8000"]}, {})
    )

    assert processes([each.id for each in known.all_replicas], known) == ("http://chat-1:8000", "http://chat-3:8000")
    assert processes(["http://chat-2:8000"], known) == ("http://chat-2:8000",)


def test_ranks_with_a_local_master_are_one_engine_on_the_same_host_only() -> None:
    ids = (*ONE_HOST, "http://10.0.0.6:8000")
    entries = [
        {
            "settings": {**TWO, "parallel_config.enable_eplb": rank == 0},
            "identity": {MASTER: "127.0.0.1", RPC_PORT: 29_550, RANK: rank},
        }
        for rank in range(3)
    ]
    (draft,) = drafts("ID-01", at(ids, *entries))

    assert draft.replicas == ONE_HOST
    assert "enable_eplb differs: false on 1 and true on 1" in draft.sentence
    assert '"10.0.0.5"' in {each.value for each in draft.evidence}


NAMES = [f"http://chat-{number}:8000" for number in (1, 2, 3, 4)]
SIDE = {SIDE_HOST: "10.0.0.5", SIDE_PORT: 5600, **TOPIC}


@pytest.mark.parametrize(
    ("rule", "pool"),
    [
        pytest.param(
            "ID-01",
            case.pool(
                *(
                    {
                        "settings": {**TWO, "parallel_config.enable_eplb": eplb},
                        "identity": {MASTER: "10.0.0.1", RPC_PORT: 29_550},
                    }
                    for eplb in (True, False)
                )
            ),
            id="no rank reported",
        ),
        pytest.param(
            "ID-02",
            case.pool(
                *(
                    {
                        "settings": TWO,
                        "identity": {"kv_transfer_config.engine_id": "decode", RANK: number // 2},
                        "same_process": [NAMES[number ^ 1]],
                    }
                    for number in range(4)
                )
            ),
            id="two ranks with two addresses each: vLLM appends the rank to their id",
        ),
        pytest.param(
            "ID-03",
            at(("http://127.0.0.1:8000", "http://127.0.0.1:8001"), {"settings": ENDPOINT}, {"settings": ENDPOINT}),
            id="loopback addresses may be tunnels to different hosts",
        ),
        pytest.param(
            "ID-03",
            case.pool(
                *(
                    {"settings": {**NIXL, **EVENTS}, "identity": SIDE, "same_process": [NAMES[other]]}
                    for other in (1, 0)
                )
            ),
            id="two addresses of one process",
        ),
        pytest.param(
            "ID-03",
            at(ONE_HOST, *({"settings": {**EVENTS, **TWO}, "identity": {**TOPIC, RANK: rank}} for rank in (0, 1))),
            id="ranks of one engine on one host have one topic",
        ),
    ],
)
def test_pools_without_a_conflict_have_no_finding(rule: str, pool: PoolSubject) -> None:
    assert drafts(rule, pool) == []


def test_replicas_with_one_port_on_one_host_are_a_warning_because_their_networks_may_be_separate() -> None:
    entry = {"settings": ENDPOINT}
    (draft,) = drafts("ID-03", at((*ONE_HOST, "http://10.0.0.6:8000"), entry, entry, entry))

    assert draft.replicas == ONE_HOST
    assert draft.sentence == "2 replicas on 10.0.0.5 have the same port for KV events: 5557."
    assert (draft.severity, draft.assumptions) == (Severity.WARNING, ("replicas on one host share its network",))
    assert [each.text for each in draft.remedy.snippets] == ["--kv-events-config.endpoint 'tcp://*:5558'"]


def test_the_same_port_on_two_hosts_is_two_findings_with_different_evidence() -> None:
    ids = [f"http://10.0.0.{host}:{port}" for host in (5, 6) for port in (8000, 8001)]
    side = {SIDE_HOST: "localhost", SIDE_PORT: 5600}
    found = drafts("ID-03", at(ids, *[{"settings": NIXL, "identity": side}] * 4))

    assert [each.replicas for each in found] == [tuple(ids[:2]), tuple(ids[2:])]
    assert len({repr(sorted((row.path, row.value) for row in each.evidence)) for each in found}) == 2
    assert found[0].remedy.snippets[0].text == "export VLLM_NIXL_SIDE_CHANNEL_PORT=5601"


@pytest.mark.parametrize(
    "entry", [{"settings": ENDPOINT}, {"settings": EVENTS, "identity": TOPIC}], ids=["port", "topic"]
)
def test_clusters_of_a_hub_may_use_the_same_addresses(entry: dict[str, object]) -> None:
    apart = ("eu+http://10.0.0.5:8000", "us+http://10.0.0.5:8000")
    together = ("eu+http://10.0.0.5:8000", "eu+http://10.0.0.5:8001")

    assert drafts("ID-03", at(apart, entry, entry)) == []
    assert [each.replicas for each in drafts("ID-03", at(together, entry, entry))] == [together]


@pytest.mark.parametrize(
    ("ids", "ranks"),
    [
        (("http://10.0.0.5:8000", "http://10.0.0.6:8000"), [0, 1]),
        (ONE_HOST, [0, 0]),
        (ONE_HOST, [0, None]),
    ],
    ids=["two hosts", "same rank", "one whole engine"],
)
def test_a_topic_of_several_engines_is_a_finding(ids: tuple[str, ...], ranks: list[int | None]) -> None:
    entries = [{"settings": {**EVENTS, **TWO}, "identity": {**TOPIC, RANK: rank}} for rank in ranks]
    (draft,) = drafts("ID-03", at(ids, *entries))

    assert draft.replicas == ids
    assert "--kv-events-config.topic=kv@$(POD_IP)@chat" in draft.remedy.snippets[0].text


def test_hostile_ids_and_topics_are_one_line_and_one_yaml_string() -> None:
    engine = {"replicas": 2, "identity": {"kv_transfer_config.engine_id": f"{HOSTILE}\n" * 100}}
    topic = {**EVENTS, "kv_events_config.topic": f'kv@10.0.0.5:8000@{HOSTILE}"\n- evil'}
    (same_id,) = drafts("ID-02", case.pool(engine))
    (same_topic,) = drafts("ID-03", case.pool({"replicas": 2, "settings": topic}))
    flag = same_topic.remedy.snippets[0].text.rpartition("  - ")[2]

    assert same_id.sentence.isprintable()
    assert len(same_id.sentence) < 200
    assert same_topic.sentence.isprintable()
    assert json.loads(flag) == f'--kv-events-config.topic=kv@$(POD_IP):8000@{HOSTILE}"\n- evil'


@pytest.mark.parametrize("kind", FailureKind)
def test_an_unreachable_replica_has_the_words_and_the_remedy_of_its_failure(kind: FailureKind) -> None:
    down = builders.down("gpu-9", pool=None, kind=kind, detail=HOSTILE)
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (down,)))

    is_other = kind is FailureKind.NOT_VLLM
    state = FAILURE_WORDS[kind] if is_other else f"unreachable: {FAILURE_WORDS[kind]}"
    assert draft.sentence == f"1 of 1 replica without a pool is {state}."
    assert json.loads(draft.evidence[-1].value) == HOSTILE
    assert draft.remedy.sentence == STEPS[kind].format(where="http://gpu-9:8000")
    assert all("gpu-9" in each.text or each.text.startswith("poll:") for each in draft.remedy.snippets)


def test_an_api_key_is_pasted_for_the_targets_that_require_it_alone() -> None:
    down = tuple(builders.down(f"chat-{number}", kind=FailureKind.UNAUTHORIZED) for number in range(5))
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), down))
    credentials = {"token_env": "VLLM_API_KEY"}

    assert yaml.safe_load(draft.remedy.snippets[0].text) == {
        "targets": [{"url": f"http://chat-{number}:8000", "credentials": credentials} for number in range(3)]
    }
    assert draft.remedy.snippets[0].text.endswith("# and so on for 5 targets")
    assert draft.remedy.sentence == (
        "Set a valid API key for these 5 addresses. The reason says whether one is missing or refused."
    )


def test_a_hostile_address_is_one_line_and_one_yaml_string() -> None:
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


@pytest.mark.parametrize(
    "down", [replace(builders.down(), failure=None), replace(builders.replica(), state=ReplicaState.DOWN)]
)
def test_a_replica_without_a_known_failure_has_no_answer(down: Replica) -> None:
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (down,)))

    assert draft.severity is Severity.WARNING
    assert draft.sentence.endswith("is unreachable: no answer.")
    assert json.loads(draft.evidence[-1].value) == "No probe gave a reply."


def test_on_a_hub_the_remedy_is_in_the_options_of_the_dashboard_that_reports_the_replica() -> None:
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), (replace(builders.down(), id="eu+http://chat-1:8000"),)))

    assert draft.remedy.sentence.endswith(" Set options in the fleet.yaml of the dashboard of eu.")
    assert "eu+http" not in draft.remedy.sentence


def test_an_outage_of_the_fleet_counts_all_replicas_and_lists_some_reasons() -> None:
    down = tuple(builders.down(f"chat-{number}", detail=f"chat-{number} is silent.") for number in range(500))
    (draft,) = BY_ID["ID-05"].check(FleetSubject((), down))

    assert draft.sentence == "500 of 500 replicas of this pool are unreachable: connection refused."
    assert len(draft.replicas) == 500
    assert sum(each.path == "replicas.reason" for each in draft.evidence) == MAX_ROWS


def test_further_addresses_of_one_process_are_one_finding() -> None:
    own = NAMES[:3]
    entries = [
        {"identity": {"instance_id": "7"}, "same_process": [each for each in own if each != name]} for name in own
    ]
    (draft,) = drafts("ID-07", case.pool(*entries))

    assert draft.replicas == tuple(own[1:])
    assert draft.sentence.startswith("3 addresses")
    assert draft.evidence[0].replicas == tuple(own)


def test_settings_of_another_replica_tell_no_address_of_a_replica() -> None:
    """A copied topic is `kv@{pod}@chat`, which is equal on all."""
    masked = {"settings": {**EVENTS, "kv_events_config.topic": "kv@{pod}@chat"}}
    known = at(("http://a:1", "http://b:1"), masked, masked)
    copied = replace(
        known, all_replicas=tuple(replace(each, same_digest_as="http://c:1") for each in known.all_replicas)
    )

    assert drafts("ID-03", known)
    assert not drafts("ID-03", copied)
    assert copied.missing(["kv_events_config.topic"]) == 2
    assert copied.reporting("kv_events_config.enable_kv_cache_events") == 2
