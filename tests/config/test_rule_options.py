"""Every mistake in what fleet.yaml says about rules ends with one sentence, with its line."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dashboard.config import load_options, policy_of
from dashboard.config.rules import options_of
from dashboard.errors import OptionsError
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Severity
from dashboard.rules.policy import RuleChange
from dashboard.rules.registry import Rule, rule

KNOWN = "{rule: RT-01, owner: me, reason: why, until: 2026-12-31"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in an empty folder, with no variable of ours set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("FLEET_")]:
        monkeypatch.delenv(name)


def mistakes(text: str) -> tuple[str, ...]:
    Path("fleet.yaml").write_text(text)
    with pytest.raises(OptionsError) as caught:
        load_options()
    return caught.value.mistakes


def made() -> Rule:
    """A rule with a parameter of each type."""

    def check(
        _pool: object, *, tolerance: float = 0.1, least: int = 3, strict: bool = True, unit: str = "tokens"
    ) -> tuple[Draft, ...]:
        raise AssertionError(tolerance, least, strict, unit)

    return rule("CP-99", {ImpactContext.MODEL: Severity.INFO})(check)


def test_parameters_become_what_their_defaults_are_and_only_those_written_are_kept() -> None:
    model = options_of(made())

    written = model.model_validate({"parameters": {"tolerance": "0.2", "least": "5", "strict": "false", "unit": "7"}})
    assert written.parameters.model_dump() == {"tolerance": 0.2, "least": 5, "strict": False, "unit": "7"}
    some = model.model_validate({"parameters": {"least": "5", "strict": None}})
    assert some.parameters.model_dump(exclude_unset=True) == {"least": 5}


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"tolerance": "much"}, "float_parsing"),
        ({"tolerance": "nan"}, "finite_number"),
        ({"least": "0.5"}, "int_parsing"),
        ({"strict": "maybe"}, "bool_parsing"),
        ({"strict": []}, "bool_type"),
        ({"unit": []}, "string_type"),
        ({"tolerance": "-1"}, "greater_than_equal"),
        ({"least": "-1"}, "greater_than_equal"),
        ({"tolerence": "1"}, "extra_forbidden"),
    ],
)
def test_a_parameter_of_another_type_or_name_is_refused(parameters: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options_of(made()).model_validate({"parameters": parameters})
    assert [each["type"] for each in caught.value.errors()] == [kind]


ROUTERS = "'prefix-hash', 'kv-events', 'approximate' or 'none'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pools: [chat]", "pools: not a mapping; write lines of `key: value`"),
        ("pools: {chat: }", "pools.chat: not a mapping; write lines of `key: value`"),
        ("pools: {chat: {rooter: none}}", "pools.chat.rooter: unknown key; did you mean router?"),
        ("pools: {router: {rooter: none}}", "pools.router.rooter: unknown key; did you mean router?"),
        ("pools: {chat: {router: hash}}", f"pools.chat.router: unknown value; expected {ROUTERS}"),
        (
            "pools: {chat: {kv_store: disk}}",
            "pools.chat.kv_store: unknown value; expected 'none', 'lmcache', 'mooncake', 'file' or 'p2p'",
        ),
        (
            "pools: {chat: {disaggregated: maybe}}",
            "pools.chat.disaggregated: expected true or false",
        ),
        ("pools: {chat: {disaggregated: []}}", "pools.chat.disaggregated: expected true or false"),
        ("pools: {chat: {expects: 16}}", "pools.chat.expects: not a mapping; write lines of `key: value`"),
        (
            "pools: {chat: {expects: {blocksize: 16}}}",
            "pools.chat.expects.blocksize: unknown key; did you mean block_size?",
        ),
        (
            "pools: {chat: {expects: {block_size: large}}}",
            "pools.chat.expects.block_size: expected a whole number such as 16",
        ),
        ("pools: {chat: {expects: {block_size: 0}}}", "pools.chat.expects.block_size: too small; the minimum is 1"),
        (
            "pools: {chat: {expects: {seed_policy: 42}}}",
            "pools.chat.expects.seed_policy: unknown value; expected 'default', 'environment' or 'random'",
        ),
        (
            "pools: {chat: {expects: {event_topic: 'kv@{hots}'}}}",
            ("pools.chat.expects.event_topic: unknown placeholder; only {host}, {port} and {model} are allowed"),
        ),
        (
            "pools: {chat: {expects: {event_topic: ''}}}",
            "pools.chat.expects.event_topic: empty; write a string or remove the key",
        ),
        ("rules: [RT-01]", "rules: not a mapping; write lines of `key: value`"),
        ("rules: {RT-01: off}", "rules.RT-01: not a mapping; write lines of `key: value`"),
        ("rules: {RT_01: {}}", "rules.RT_01: unknown rule; did you mean RT-01?"),
        ("rules: {RT-1: {}}", "rules.RT-1: unknown rule; did you mean RT-01?"),
        ("rules: {rt12: {}}", "rules.rt12: unknown rule; did you mean RT-12?"),
        ("rules: {XT-01: {}}", "rules.XT-01: unknown rule; did you mean RT-01?"),
        ("rules: {ID-04: {}}", "rules.ID-04: unknown rule; there are ID-01 to ID-03 and ID-05 to ID-08"),
        ("rules: {sh-9: {}}", "rules.sh-9: unknown rule; there are SH-01 to SH-05"),
        ("rules: {RT-01: {}, rt-01: {}}", "rules.rt-01: duplicate RT-01; keep one"),
        ("rules: {Rt-01: {}, rt-01: {}}", "rules.rt-01: duplicate RT-01; keep one"),
        (
            "rules: {rt-01: {severity: high}}",
            "rules.RT-01.severity: unknown value; expected 'critical', 'warning' or 'info'",
        ),
        (
            "rules: {cp-01: {parameters: {tolerance: -1}}}",
            "rules.CP-01.parameters.tolerance: too small; the minimum is 0",
        ),
        (
            "pools: {chat: {expects: {hash_algorithm: md5}}}",
            (
                "pools.chat.expects.hash_algorithm: unknown value;"
                " expected 'sha256', 'sha256_cbor', 'xxhash' or 'xxhash_cbor'"
            ),
        ),
        ("rules: {block-size-difers: {}}", "rules.block-size-difers: unknown rule; did you mean RT-01?"),
        ("rules: {everything: {}}", "rules.everything: unknown rule; see `python -m dashboard rules`"),
        ("rules: {RT-01: {enabeld: true}}", "rules.RT-01.enabeld: unknown key; did you mean enabled?"),
        (
            "rules: {RT-01: {severity: fatal}}",
            "rules.RT-01.severity: unknown value; expected 'critical', 'warning' or 'info'",
        ),
        (
            "rules: {RT-01: {parameters: {tolerance: 1}}}",
            "rules.RT-01.parameters.tolerance: unknown parameter; RT-01 has none",
        ),
        ("suppress: {rule: RT-01}", "suppress: not a list; begin each entry with `- `"),
        ("suppress: [RT-01]", "suppress[0]: not a mapping; write lines of `key: value`"),
        (f"suppress: [{KNOWN}, pools: a}}]", "suppress[0].pools: unknown key; did you mean pool?"),
        (f"suppress: [{KNOWN}, pool: ''}}]", "suppress[0].pool: empty; write a string or remove the key"),
        (f"suppress: [{KNOWN}, replicas: chat}}]", "suppress[0].replicas: not a list; begin each entry with `- `"),
        (f"suppress: [{KNOWN}, replicas: []}}]", "suppress[0].replicas: empty; write at least one entry"),
        (f"suppress: [{KNOWN}, replicas: ['']}}]", "suppress[0].replicas[0]: empty; write a string or remove the key"),
        (
            f"suppress: [{KNOWN}, labels: {{}}}}]",
            "suppress[0].labels: empty; write at least one label or remove the key",
        ),
        (
            "suppress: [{rule: RT01, owner: a, reason: b, until: 2026-12-31}]",
            "suppress[0].rule: unknown rule; did you mean RT-01?",
        ),
        (
            "suppress: [{rule: RT-01, owner: a, reason: ' ', until: 2026-12-31}]",
            "suppress[0].reason: empty; write a string",
        ),
        ("suppress: [{rule: RT-01, owner: a, until: 2026-12-31}]", "suppress[0].reason: missing"),
        ("suppress: [{rule: RT-01, reason: a, until: 2026-12-31}]", "suppress[0].owner: missing"),
        ("suppress: [{owner: a, reason: a, until: 2026-12-31}]", "suppress[0].rule: missing"),
        ("suppress: [{rule: RT-01, owner: a, reason: a, until: }]", "suppress[0].until: missing"),
        *(
            (
                f"suppress: [{{rule: RT-01, owner: a, reason: b, until: {text}}}]",
                "suppress[0].until: expected a date such as 2026-12-31",
            )
            for text in ("soon", "2026-02-30", "31.12.2026", "2026-12-31T00:00", "20261231", "1772323200", "[]")
        ),
    ],
)
def test_each_mistake_has_its_sentence(text: str, sentence: str) -> None:
    assert mistakes(f"# first\n{text}") == (f"fleet.yaml:2: {sentence}",)


def test_rules_are_meant_by_their_ids_in_letters_of_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    until = "owner: me, reason: why, until: 2026-12-31"
    Path("fleet.yaml").write_text(f"rules: {{rt-01: {{severity: info}}}}\nsuppress: [{{rule: co-14, {until}}}]")
    monkeypatch.setenv("FLEET_RULES__RT-01__ENABLED", "false")
    policy = policy_of(load_options())

    assert policy.rules == {"RT-01": RuleChange(enabled=False, severity=Severity.INFO)}
    assert policy.suppressions[0].rule == "CO-14"


def test_a_value_that_might_be_a_secret_is_not_repeated() -> None:
    told = mistakes("pools: {a: {router: hunter2}}\nrules: {RT-01: {severity: hunter2}}\nsuppress: [{rule: hunter2}]")
    assert "hunter2" not in " ".join(told)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("FLEET_POOLS", '{"chat": {"router": "hash"}}', f"pools.chat.router: unknown value; expected {ROUTERS}"),
        ("FLEET_POOLS__CHAT__ROUTER", "hash", f"pools.chat.router: unknown value; expected {ROUTERS}"),
        ("FLEET_RULES", '{"RT_01": {}}', "rules.RT_01: unknown rule; did you mean RT-01?"),
        ("FLEET_RULES", '{"RT-01": {"enabled": 2}}', "rules.RT-01.enabled: expected true or false"),
        ("FLEET_SUPPRESS", "RT-01", "not JSON; write lists and mappings as JSON"),
        (
            "FLEET_SUPPRESS",
            '[{"rule": "RT-01", "owner": "a", "reason": "b", "until": 20261231}]',
            "suppress[0].until: expected a date such as 2026-12-31",
        ),
    ],
)
def test_a_mistake_in_the_environment_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert mistakes("name: x") == (f"environment variable {variable}: {sentence}",)
