"""The parts of fleet.yaml about rules become the policy of a fleet."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dashboard.config import Options, load_options, policy_of
from dashboard.config.rules import options_of
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy, Store
from dashboard.rules.findings import Draft, Severity, Suppression
from dashboard.rules.policy import Policy, RuleChange
from dashboard.rules.registry import Rule, rule
from tests.rules.made_up import text_of

pytestmark = pytest.mark.usefixtures("working_folder")


def policy(text: str) -> Policy:
    Path("fleet.yaml").write_text(text)
    return policy_of(load_options())


def test_every_option_of_pools_rules_and_suppressions_is_read() -> None:
    read = policy(
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
        rules:
          cp-01: {severity: info}
        suppress:
          - {rule: co-14, owner: kv-team, reason: " until the migration ", until: 2026-12-31}
          - rule: RT-01
            pool: chat-*
            replicas: [chat-70b-04, "http://10.0.0.1:*"]
            labels: {site: north, rack: 7}
            owner: me
            reason: why
            until: 2028-02-29
        """
    )

    expects = Expectations(16, "sha256_cbor", SeedPolicy.ENVIRONMENT, "kv@{host}:{port}@{model}")
    replicas, labels = ("chat-70b-04", "http://10.0.0.1:*"), {"site": "north", "rack": "7"}
    assert read == Policy(
        pools={"chat-70b": PoolDeclaration(Router.KV_EVENTS, Store.P2P, disaggregated=True, expects=expects)},
        rules={"CP-01": RuleChange(severity=Severity.INFO)},
        suppressions=(
            Suppression("CO-14", "kv-team", "until the migration", date(2026, 12, 31), number=1),
            Suppression("RT-01", "me", "why", date(2028, 2, 29), "chat-*", replicas, labels, number=2),
        ),
    )


def test_every_rule_of_the_catalogue_can_be_changed_and_suppressed() -> None:
    parameters = {each.id: {name: str(value) for name, value in each.parameters.items()} for each in ALL_RULES}
    suppressed = [{"rule": each.id, "owner": "me", "reason": "why", "until": "2026-12-31"} for each in ALL_RULES]
    rules = {name: {"enabled": "false", "parameters": values} for name, values in parameters.items()}

    read = policy_of(Options.model_validate({"rules": rules, "suppress": suppressed}))

    assert read.rules == {each.id: RuleChange(enabled=False, parameters=each.parameters) for each in ALL_RULES}
    assert [each.rule for each in read.suppressions] == [each.id for each in ALL_RULES]


def test_environment_variables_override_the_file_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_POOLS", '{"chat": {"disaggregated": true, "expects": {"block_size": 32}}}')
    monkeypatch.setenv("FLEET_RULES__RT-01__ENABLED", "false")
    monkeypatch.setenv("FLEET_SUPPRESS", '[{"rule": "RT-01", "owner": "a", "reason": "b", "until": "2026-12-31"}]')

    read = policy(
        "pools: {chat: {router: none}, embed: {router: approximate}}\n"
        "rules: {rt-01: {severity: info}}\nsuppress: [{rule: wrong}]"
    )

    assert read == Policy(
        pools={
            "chat": PoolDeclaration(Router.NONE, None, disaggregated=True, expects=Expectations(block_size=32)),
            "embed": PoolDeclaration(Router.APPROXIMATE),
        },
        rules={"RT-01": RuleChange(enabled=False, severity=Severity.INFO)},
        suppressions=(Suppression("RT-01", "a", "b", date(2026, 12, 31), number=1),),
    )


def rule_with_a_parameter_of_each_type() -> Rule:
    def check(
        _pool: object, *, tolerance: float = 0.1, least: int = 3, strict: bool = True, unit: str = "tokens"
    ) -> tuple[Draft, ...]:
        raise AssertionError(tolerance, least, strict, unit)

    return rule("CP-99", text_of())(check)


def test_parameters_have_the_types_of_their_defaults_and_only_written_ones_are_kept() -> None:
    model = options_of(rule_with_a_parameter_of_each_type())

    every = model.model_validate({"parameters": {"tolerance": "0.2", "least": "5", "strict": "false", "unit": "7"}})
    some = model.model_validate({"parameters": {"least": "5", "strict": None}})

    assert every.parameters.model_dump() == {"tolerance": 0.2, "least": 5, "strict": False, "unit": "7"}
    assert some.parameters.model_dump(exclude_unset=True) == {"least": 5}


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"tolerance": "much"}, "float_parsing"),
        ({"tolerance": "nan"}, "finite_number"),
        ({"least": "0.5"}, "int_parsing"),
        ({"strict": "maybe"}, "bool_parsing"),
        ({"unit": []}, "string_type"),
        ({"tolerance": "-1"}, "greater_than_equal"),
        ({"least": "-1"}, "greater_than_equal"),
        ({"tolerence": "1"}, "extra_forbidden"),
    ],
)
def test_a_parameter_of_another_type_or_name_is_refused(parameters: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options_of(rule_with_a_parameter_of_each_type()).model_validate({"parameters": parameters})
    assert [each["type"] for each in caught.value.errors()] == [kind]
