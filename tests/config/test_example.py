"""fleet.example.yaml is valid, and documents every option."""

import os
from pathlib import Path

import pytest

from dashboard.config import Options, PollOptions, load_options, policy_of
from dashboard.fleet import RouterKind
from dashboard.rules.domain import Router

EXAMPLE = Path(__file__).parents[2] / "fleet.example.yaml"


def test_the_example_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("FLEET_")]:
        monkeypatch.delenv(name)
    options = load_options(EXAMPLE)
    assert [target.url for target in options.targets] == [
        "http://10.0.0.1:8000",
        "https://gpu-7.example.com:443/team-a",
    ]
    assert options.poll == PollOptions(), "the example shows the defaults"
    assert (options.name, options.ignore) == (Options().name, Options().ignore)


def test_the_examples_of_routers_are_of_every_kind_and_of_every_place() -> None:
    routers = load_options(EXAMPLE).routers
    llm_d, by_url, stack = routers[:3]

    assert {each.kind for each in routers} == set(RouterKind)
    assert (llm_d.inference_pool, llm_d.namespace, llm_d.port, llm_d.scheme) == ("chat-70b", "llm-d", 9090, "http")
    assert (by_url.url, by_url.config_file) == ("http://10.0.0.40:9090", EXAMPLE.parent / "epp" / "plugins.yaml")
    assert (stack.selector, stack.pools) == ("app.kubernetes.io/component=router", ("*",))
    assert (stack.kubeconfig, stack.context) == (EXAMPLE.parent / "secrets" / "kubeconfig", "prod")
    assert [each.authorization.token_env for each in routers if each.authorization] == [None, "LLM_D_TOKEN"]


def test_the_examples_of_rules_are_about_the_pool_and_the_replica_of_the_targets() -> None:
    target = load_options(EXAMPLE).targets[1]
    policy = policy_of(load_options(EXAMPLE))
    (suppression,) = policy.suppressions

    assert policy.declared(target.labels["pool"]).router is Router.KV_EVENTS
    assert (suppression.pool, suppression.replicas) == (target.labels["pool"], (target.labels["name"],))
