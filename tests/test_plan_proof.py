"""The plan against the simulated fleet: the next poll after the restarts of a cause finds what was predicted."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Fix
from dashboard.analysis.plan import plan_of
from dashboard.config import Options
from dashboard.demo import default_fleet, demo_options, in_thread, targets
from dashboard.demo.describe import Behaviour
from dashboard.demo.server import DemoServer
from dashboard.fleet import Target
from dashboard.service import poll_once
from dashboard.sources.discovery import DiscoveryResult

# Those that answer: a poll of the others takes seconds, and nothing is predicted of them.
FLEET = tuple(each for each in default_fleet() if each.behaviour is Behaviour.NORMAL)
CAUSES = (
    "cache_config.block_size",
    "cache_config.prefix_caching_hash_algo",
    "env.PYTHONHASHSEED",
    "cache_config.kv_offloading_backend+cache_config.kv_offloading_size",
    "env.VLLM_SERVER_DEV_MODE",
    "scheduler_config.max_num_batched_tokens+scheduler_config.max_num_seqs",
    "cache_config.gpu_memory_utilization",
    "env.VLLM_PLUGINS",
    "model_config.max_logprobs",
    "version",
)


def polled(server: DemoServer) -> Fleet:
    known = [Target(f"http://{each['targets'][0]}", each["labels"]) for each in targets(FLEET, server.port)]
    options = Options.model_validate(demo_options(datetime.now(UTC).date()))
    return poll_once(options, DiscoveryResult(tuple(known)))


def restart(server: DemoServer, fix: Fix) -> None:
    for group in fix.groups:
        patch = group.patch
        words = [word for each in patch.flags for word in each]
        for replica in group.replicas:
            address = str(urlsplit(replica).hostname)
            server.restart(address, words, dict(patch.variables), patch.removed, patch.image)


def test_the_causes_of_the_demo_that_settings_end_are_these() -> None:
    with in_thread(FLEET) as server:
        assert sorted(each.key for each in plan_of(polled(server)).causes if each.fixes) == sorted(CAUSES)


@pytest.mark.few(3)
@pytest.mark.parametrize("key", CAUSES)
def test_after_the_restarts_the_next_poll_has_exactly_the_predicted_findings(key: str) -> None:
    with in_thread(FLEET) as server:
        before = polled(server)
        (fix,) = (each.fixes[0] for each in plan_of(before).causes if each.key == key)
        restart(server, fix)
        after = {each.id for each in polled(server).inspection.findings}

    predicted = {each.id for each in (*before.inspection.findings, *fix.new)} - {each.id for each in fix.fixed}
    known_after = {each.id for each in fix.open}
    assert after - known_after == predicted - known_after
