"""What fleet.yaml says about rules becomes the policy by which a fleet is judged."""

import os
from datetime import date
from pathlib import Path

import pytest

from dashboard.config import Options, load_options, policy_of
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy, Store
from dashboard.rules.findings import Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.registry import Rule


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in an empty folder, with no variable of ours set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("FLEET_")]:
        monkeypatch.delenv(name)


def policy(text: str) -> Policy:
    Path("fleet.yaml").write_text(text)
    return policy_of(load_options())


def test_all_that_can_be_said_of_a_pool() -> None:
    told = policy(
        """
        pools:
          chat-70b:
            router: kv-events
            expects:
              block_size: 16
              hash_algorithm: sha256_cbor
              seed_policy: environment
              event_topic: "kv@{host}:{port}@{model}"
            kv_store: p2p
            disaggregated: true
        """
    )

    expects = Expectations(16, "sha256_cbor", SeedPolicy.ENVIRONMENT, "kv@{host}:{port}@{model}")
    assert told.pools == {"chat-70b": Declared(Router.KV_EVENTS, Store.P2P, disaggregated=True, expects=expects)}


def test_only_parameters_that_are_written_are_kept_for_the_rule_knows_the_others() -> None:
    assert policy("rules: {CP-01: {severity: info}}").rules == {"CP-01": RuleChange(severity=Severity.INFO)}
    assert policy("rules: {CP-01: {parameters: {tolerance: 0.2}}}").rules == {
        "CP-01": RuleChange(parameters={"tolerance": 0.2})
    }


def test_every_rule_of_the_catalogue_can_be_changed_and_suppressed() -> None:
    options = Options.model_validate(
        {
            "rules": {each.id: {"enabled": "false", "parameters": _as_text(each)} for each in ALL_RULES},
            "suppress": [
                {"rule": each.id, "owner": "me", "reason": "why", "until": "2026-12-31"} for each in ALL_RULES
            ],
        }
    )

    told = policy_of(options)
    assert told.rules == {each.id: RuleChange(enabled=False, parameters=each.parameters) for each in ALL_RULES}
    assert [each.rule for each in told.suppressions] == [each.id for each in ALL_RULES]


def _as_text(changed: Rule) -> dict[str, str]:
    return {name: str(default) for name, default in changed.parameters.items()}


def test_all_that_can_be_said_of_a_suppression() -> None:
    told = policy(
        """
        suppress:
          - {rule: RT-01, owner: kv-team, reason: " until the migration ", until: 2026-12-31}
          - rule: RT-01
            pool: chat-*
            replicas: [chat-70b-04, "http://10.0.0.1:*"]
            labels: {site: north, rack: 7}
            owner: me
            reason: why
            until: 2028-02-29
        """
    )

    assert told.suppressions == (
        Suppression("RT-01", "kv-team", "until the migration", date(2026, 12, 31), number=1),
        Suppression(
            "RT-01",
            "me",
            "why",
            date(2028, 2, 29),
            pool="chat-*",
            replicas=("chat-70b-04", "http://10.0.0.1:*"),
            labels={"site": "north", "rack": "7"},
            number=2,
        ),
    )


def test_the_environment_says_it_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_POOLS", '{"chat": {"disaggregated": true, "expects": {"block_size": 32}}}')
    monkeypatch.setenv("FLEET_RULES", '{"RT-01": {"enabled": false}}')
    monkeypatch.setenv("FLEET_SUPPRESS", '[{"rule": "RT-01", "owner": "a", "reason": "b", "until": "2026-12-31"}]')

    told = policy("pools: {chat: {router: none}, embed: {router: approximate}}\nsuppress: [{rule: wrong}]")

    assert told == Policy(
        pools={
            "chat": Declared(Router.NONE, None, disaggregated=True, expects=Expectations(block_size=32)),
            "embed": Declared(Router.APPROXIMATE),
        },
        rules={"RT-01": RuleChange(enabled=False)},
        suppressions=(Suppression("RT-01", "a", "b", date(2026, 12, 31), number=1),),
    )
