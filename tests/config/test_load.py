"""fleet.yaml and the environment: their options, and one sentence per mistake."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config import Options, PollOptions, TargetOptions, load_options
from dashboard.config.model import check_pattern
from dashboard.errors import OptionsError
from tests.config.mistakes import mistakes_of
from vllm_fleet_provider.shared.redaction import MARKER, also_redact, is_secret, redact, redact_prose

pytestmark = pytest.mark.usefixtures("working_folder")

KEYS = ", ".join(Options.model_fields)
ROUTERS = "'prefix-hash', 'kv-events', 'approximate' or 'none'"
KINDS_OF_ROUTERS = "'llm-d', 'production-stack', 'dynamo', 'lmcache' or 'mooncake'"
SUPPRESSED = "{rule: RT-01, owner: me, reason: why, until: 2026-12-31"
NOT_A_MAPPING = "not a mapping; write lines of `key: value`"
NOT_A_LIST = "not a list; begin each entry with `- `"
EMPTY = "empty; write a string or remove the key"


def test_fleet_config_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleet.yaml").write_text("name: not this one")
    Path("other.yaml").write_text("name: other\n")
    monkeypatch.setenv("FLEET_CONFIG", "other.yaml")
    assert load_options().name == "other"

    monkeypatch.setenv("FLEET_CONFIG", "missing.yaml")
    with pytest.raises(
        OptionsError, match=r"^missing\.yaml: No such file or directory; name an options file that can be read$"
    ):
        load_options()


def test_targets_are_addresses_or_mappings_with_labels_as_text() -> None:
    text = "targets:\n  - GPU-1:8000\n  - {url: 'https://gpu-2/', labels: {rack: 1.10, spare: true}}\n"
    Path("fleet.yaml").write_text(text)

    assert load_options().targets == (
        TargetOptions(url="http://gpu-1:8000"),
        TargetOptions(url="https://gpu-2:443", labels={"rack": "1.10", "spare": "true"}),
    )


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "odd [name]"
    folder.mkdir()
    text = "credentials: {token_file: t, ca_file: /etc/ca.pem}\nfile_sd: [{files: ['a/*.json', '/abs/*.yaml']}]\n"
    (folder / "f.yaml").write_text(text)

    options = load_options(folder / "f.yaml")

    assert options.credentials is not None
    assert (options.credentials.token_file, options.credentials.ca_file) == (folder / "t", Path("/etc/ca.pem"))
    assert options.file_sd[0].files == (f"{tmp_path}/odd [[]name]/a/*.json", "/abs/*.yaml")


def test_environment_variables_override_the_file_unless_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleet.yaml").write_text("name: file\ntargets: [a]\npoll: {interval_seconds: 30, connections: 7}\n")
    monkeypatch.setenv("FLEET_POLL__INTERVAL_SECONDS", "60")
    monkeypatch.setenv("FLEET_TARGETS", '["b", {"url": "c", "labels": {"rack": 5}}]')
    monkeypatch.setenv("FLEET_NAME", "")

    options = load_options()

    assert (options.name, options.poll) == ("file", PollOptions(interval_seconds=60, connections=7))
    assert options.targets == (
        TargetOptions(url="http://b:80"),
        TargetOptions(url="http://c:80", labels={"rack": "5"}),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nam: x", "nam: unknown key; did you mean name?"),
        ("pol:", "pol: unknown key; did you mean poll?"),
        ("{name: x, zzz: x}", f"zzz: unknown key; the keys here are {KEYS}"),
        ("{name: x, _env_file: x}", f"_env_file: unknown key; the keys here are {KEYS}"),
        (
            "targets: [{url: a, credentials: {token_fil: x}}]",
            "targets[0].credentials.token_fil: unknown key; did you mean token_file?",
        ),
        ("{name: x, name: y}", "name: duplicate of line 2; keep one"),
        ("name: [x]", "name: expected a string"),
        ("name: ''", f"name: {EMPTY}"),
        ("name: " + "x" * 101, "name: longer than 100 characters; shorten it"),
        ("poll: {interval_seconds: soon}", "poll.interval_seconds: expected a number such as 15"),
        ("poll: {interval_seconds: nan}", "poll.interval_seconds: expected a finite number such as 15"),
        ("poll: {interval_seconds: 0.5}", "poll.interval_seconds: too small; the minimum is 1"),
        ("poll: {interval_seconds: 1e9}", "poll.interval_seconds: too large; the maximum is 86400"),
        ("poll: {connections: 2.5}", "poll.connections: expected a whole number such as 100"),
        ("poll: {max_answer_bytes: 1000000000}", "poll.max_answer_bytes: too large; the maximum is 268435456"),
        (
            "poll: {probe_timeout_seconds: 30}",
            "poll: probe_timeout_seconds is longer than replica_timeout_seconds; raise replica_timeout_seconds",
        ),
        ("poll: fast", f"poll: {NOT_A_MAPPING}"),
        ("targets: a", f"targets: {NOT_A_LIST}"),
        ("targets: [{labels: {}}]", "targets[0].url: missing"),
        ("targets: [{url: a, labels: [b]}]", f"targets[0].labels: {NOT_A_MAPPING}"),
        ("targets: [{url: a, labels: {b: {}}}]", "targets[0].labels.b: expected a string"),
        ("targets: [a, 'x y']", "targets[1].url: 'x y' has no host; write http://host:port"),
        (
            "targets: ['http://u:hunter2@h']",
            "targets[0].url: '***@h' contains credentials; use token_env or token_file, and write http://host:port",
        ),
        ("file_sd: [{files: []}]", "file_sd[0].files: empty; write at least one entry"),
        ('file_sd: [{files: ["a\\0b"]}]', "file_sd[0].files[0]: contains a null character; write the path of a file"),
        ("dns_sd: [{names: []}]", "dns_sd[0].names: empty; write at least one entry"),
        ("dns_sd: [{names: [a/b]}]", "dns_sd[0].names[0]: not a DNS name; write it without scheme, port or path"),
        ("dns_sd: [{names: [a], type: A}]", "dns_sd[0]: port is missing; set it, or change type"),
        ("dns_sd: [{names: [a], port: 80}]", "dns_sd[0]: an SRV record has the port; remove port, or change type"),
        ("dns_sd: [{names: [a], type: MX}]", "dns_sd[0].type: unknown value; expected 'SRV', 'A' or 'AAAA'"),
        (
            "http_sd: [{url: 'ftp://a'}]",
            "http_sd[0].url: 'ftp://a' has a scheme other than http and https; write http://host:port",
        ),
        (
            "http_sd: [{url: 'http://u:hunter2@h/x'}]",
            "http_sd[0].url: '***@h' contains credentials; use token_env or token_file, and write http://host:port",
        ),
        (
            "http_sd: [{url: 'http://h/x y?hunter2'}]",
            "http_sd[0].url: 'http://h/x y…' has a fragment or invalid characters; write spaces as %20",
        ),
        ("kubernetes: [{}]", "kubernetes[0]: inference_pool, selector or service is needed; set one of them"),
        (
            "kubernetes: [{selector: a, inference_pool: b}]",
            "kubernetes[0]: inference_pool, selector and service exclude each other; keep one",
        ),
        (
            "kubernetes: [{selector: 'a=$b'}]",
            "kubernetes[0].selector: not a label selector; write one such as app=vllm,tier!=test",
        ),
        (
            "kubernetes: [{selector: a, port: 70000}]",
            "kubernetes[0].port: not a port; write its number or its name in the pod",
        ),
        (
            "kubernetes: [{selector: a, keep_labels: ['a b']}]",
            "kubernetes[0].keep_labels[0]: not the key of a label in Kubernetes; write one such as llm-d.ai/role",
        ),
        ("routers: [{url: a}]", "routers[0].kind: missing"),
        ("routers: [{kind: envoy, url: a}]", f"routers[0].kind: unknown value; expected {KINDS_OF_ROUTERS}"),
        (
            "routers: [{kind: llm-d}]",
            "routers[0]: url, inference_pool, selector or config_file is needed; set one of them",
        ),
        (
            "routers: [{kind: llm-d, inference_pool: a, selector: b}]",
            "routers[0]: url, inference_pool and selector exclude each other; keep one",
        ),
        *(
            (
                f"routers: [{{kind: {kind}, {places}}}]",
                "routers[0]: inference_pool and config_file are of llm-d only; set url or selector",
            )
            for kind, places in (("dynamo", "inference_pool: a"), ("lmcache", "config_file: a"))
        ),
        ("routers: [{kind: llm-d, url: a, pools: []}]", "routers[0].pools: empty; write at least one entry"),
        ("routers: [{kind: llm-d, url: a, pools: chat}]", f"routers[0].pools: {NOT_A_LIST}"),
        ("routers: [{kind: llm-d, url: a, pool: chat}]", "routers[0].pool: unknown key; did you mean pools?"),
        (
            "prometheus: [{url: 'http://p/?hunter2'}]",
            "prometheus[0].url: 'http://p/…' has a query or a fragment; write http://host:port",
        ),
        (
            "prometheus: [{url: p, selector: 'up == 1'}]",
            'prometheus[0].selector: not label matchers of PromQL; write some such as {job="vllm"}',
        ),
        (
            "prometheus: [{url: p, authorization: {username: me}}]",
            "prometheus[0].authorization: password_file is missing; set both or none",
        ),
        (
            "prometheus: [{url: p, authorization: {username: me, password_file: f, token_env: T}}]",
            "prometheus[0].authorization: a token and a user name are both set; keep one",
        ),
        (
            "prometheus: [{url: p, max_answer_bytes: 1}]",
            "prometheus[0].max_answer_bytes: too small; the minimum is 65536",
        ),
        (
            "prometheus: [{url: p, address_label: a-b}]",
            "prometheus[0].address_label: not the name of a label in Prometheus; write letters, digits and _",
        ),
        (
            "prometheus: [{url: p, authorization: {username: 'a:b', password_file: f}}]",
            "prometheus[0].authorization.username: not a user name; write one without colon",
        ),
        (
            "prometheus: [{url: p, tenant: a b}]",
            "prometheus[0].tenant: not a tenant; write one word of plain characters",
        ),
        ("credentials: {ca_file: []}", "credentials.ca_file: expected the path of a file"),
        (
            "credentials: {token_env: hf_hunter2!}",
            "credentials.token_env: not the name of an environment variable; write the name, not the secret",
        ),
        (
            "credentials: {token_env: A, token_file: b}",
            "credentials: token_env and token_file are both set; keep one",
        ),
        (
            "credentials: {token: hunter2}",
            "credentials.token: no secrets in clear text; use token_env or token_file",
        ),
        *(  # they would let foreign sites in by DNS rebinding
            (
                f"allowed_hosts: ['{text}']",
                "allowed_hosts[0]: allows every site; write names, or globs such as *.example.com",
            )
            for text in ("*", "*.*", "?*", "*:8501")
        ),
        (
            "allowed_hosts: ['https://fleet.example.com']",
            (
                "allowed_hosts[0]: not a host name; write it without scheme and path, such as fleet.example.com or "
                "fleet.example.com:8443"
            ),
        ),
        *(
            (
                f"targets_allowed: ['{text}']",
                "targets_allowed[0]: not a network; write one such as 10.0.0.0/8, 10.0.0.7:8000 or [fd00::/8]:8000",
            )
            for text in ("10.0.0.7/8", "10.*", "1.2.3", "[::1", "fd00::/129", "[a]:1")
        ),
        ("targets_allowed: ['gpu:99999']", "targets_allowed[0]: has a port outside 1 to 65535"),
        (
            "targets_allowed: ['http://gpu']",
            "targets_allowed[0]: not a network; write one such as 10.0.0.0/8, 10.0.0.7:8000 or [fd00::/8]:8000",
        ),
        (
            "targets_allowed: ['*']",
            "targets_allowed[0]: allows every site; write names, or globs such as *.example.com",
        ),
        ("a: [1", "not YAML: did not find expected ',' or ']'"),
        ("pools: {chat: }", f"pools.chat: {NOT_A_MAPPING}"),
        ("pools: {router: {rooter: none}}", "pools.router.rooter: unknown key; did you mean router?"),
        ("pools: {chat: {router: hash}}", f"pools.chat.router: unknown value; expected {ROUTERS}"),
        ("pools: {chat: {disaggregated: maybe}}", "pools.chat.disaggregated: expected true or false"),
        (
            "pools: {chat: {expects: {block_size: large}}}",
            "pools.chat.expects.block_size: expected a whole number such as 16",
        ),
        (
            "pools: {chat: {expects: {event_topic: 'kv@{hots}'}}}",
            "pools.chat.expects.event_topic: unknown placeholder; only {host}, {port} and {model} are allowed",
        ),
        ("rules: {RT_01: {}}", "rules.RT_01: unknown rule; did you mean RT-01?"),
        ("rules: {rt12: {}}", "rules.rt12: unknown rule; did you mean RT-12?"),
        ("rules: {ID-04: {}}", "rules.ID-04: unknown rule; there are ID-01 to ID-03 and ID-05 to ID-17"),
        ("rules: {sh-9: {}}", "rules.sh-9: unknown rule; there are SH-01 to SH-07"),
        ("rules: {RT-01: {}, rt-01: {}}", "rules.rt-01: duplicate RT-01; keep one"),
        ("rules: {block-size-difers: {}}", "rules.block-size-difers: unknown rule; did you mean RT-01?"),
        ("rules: {everything: {}}", "rules.everything: unknown rule; see `python -m dashboard rules`"),
        (
            "rules: {rt-01: {severity: high}}",
            "rules.RT-01.severity: unknown value; expected 'critical', 'warning' or 'info'",
        ),
        (
            "rules: {cp-01: {parameters: {tolerance: -1}}}",
            "rules.CP-01.parameters.tolerance: too small; the minimum is 0",
        ),
        (
            "rules: {RT-01: {parameters: {tolerance: 1}}}",
            "rules.RT-01.parameters.tolerance: unknown parameter; RT-01 has none",
        ),
        (f"suppress: [{SUPPRESSED}, pools: a}}]", "suppress[0].pools: unknown key; did you mean pool?"),
        (f"suppress: [{SUPPRESSED}, labels: {{}}}}]", "suppress[0].labels: empty; write at least one entry"),
        (
            "suppress: [{rule: RT01, owner: a, reason: b, until: 2026-12-31}]",
            "suppress[0].rule: unknown rule; did you mean RT-01?",
        ),
        (
            "suppress: [{rule: RT-01, owner: a, reason: ' ', until: 2026-12-31}]",
            "suppress[0].reason: empty; write a string",
        ),
        ("suppress: [{rule: RT-01, owner: a, reason: a, until: }]", "suppress[0].until: missing"),
        *(
            (
                f"suppress: [{{rule: RT-01, owner: a, reason: b, until: {text}}}]",
                "suppress[0].until: expected a date such as 2026-12-31",
            )
            for text in ("soon", "2026-02-30", "20261231", "1772323200", "[]")
        ),
    ],
)
def test_each_mistake_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    assert mistakes_of(f"# first\n{text}") == (f"fleet.yaml:2: {sentence}",)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("FLEET_POLL__CONNECTIONS", "0", "poll.connections: too small; the minimum is 1"),
        ("FLEET_POLL__CONECTIONS", "1", "poll.conections: unknown key; did you mean connections?"),
        ("FLEET_POL__CONNECTIONS", "1", "unknown key; did you mean poll?"),
        ("FLEET_POLL", '{"connections": 0}', "poll.connections: too small; the minimum is 1"),
        ("FLEET_POLL", "5", f"poll: {NOT_A_MAPPING}"),
        ("FLEET_TARGETS", "gpu-1", "not JSON; write lists and mappings as JSON"),
        ("FLEET_TARGETS", '["a", {"labels": {}}]', "targets[1].url: missing"),
        ("FLEET_TARGETS__0__URL", "a", f"targets: {NOT_A_LIST}"),
        (
            "FLEET_CREDENTIALS__TOKEN",
            "hunter2",
            "credentials.token: no secrets in clear text; use token_env or token_file",
        ),
        ("FLEET_POOLS__CHAT__ROUTER", "hash", f"pools.chat.router: unknown value; expected {ROUTERS}"),
        ("FLEET_RULES", '{"RT-01": {"enabled": 2}}', "rules.RT-01.enabled: expected true or false"),
        # Else a dashboard that was meant to be read-only is not.
        ("FLEET_READONLY", "true", "unknown key; did you mean read_only?"),
        ("FLEET_ALLOWED_HOST", "a", "unknown key; did you mean allowed_hosts?"),
        ("FLEET_TARGET", "a", "unknown key; did you mean targets?"),
    ],
)
def test_a_mistake_in_the_environment_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert mistakes_of("poll: {connections: 5}\ntargets: [a]\n") == (f"environment variable {variable}: {sentence}",)


def test_a_mistake_in_the_file_names_the_file_also_with_variables_of_that_section(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLEET_POLL__INTERVAL_SECONDS", "60")
    assert mistakes_of("poll: {connections: 0}\n") == ("fleet.yaml:1: poll.connections: too small; the minimum is 1",)


def test_a_list_in_place_of_options_is_refused() -> None:
    assert mistakes_of("- a") == (f"fleet.yaml:1: {NOT_A_MAPPING}, such as `name: my fleet`",)


def test_variables_of_kubernetes_for_a_service_named_fleet_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("FLEET_SERVICE_HOST", "10.0.0.1")
    assert load_options() == Options()


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "hunter2: x",
        "hunter2: x\nhunter2: y",
        "machine: hunter2\nlogin: hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "user hunter2: [",
        "root:hunter2:0:0:/root",
        "&hunter2 x",
        "*hunter2",
        "!hunter2 x",
        "%hunter2 x",
        "'hunter2",
        '"\\hunter2"',
        "{hunter2: !hunter2 x}",
        "?hunter2",
        "@hunter2",
        "a: |hunter2",
        "pools: {a: {router: hunter2}}\nrules: {RT-01: {severity: hunter2}}\nsuppress: [{rule: hunter2}]",
    ],
)
def test_no_mistake_repeats_a_value_because_the_file_may_be_a_secret(text: str) -> None:
    assert "hunter2" not in " ".join(mistakes_of(text))


@pytest.fixture
def _without_redact_options() -> Iterator[None]:
    yield
    also_redact((), ())


@pytest.mark.usefixtures("_without_redact_options")
def test_names_and_patterns_under_redact_are_secret() -> None:
    Path("fleet.yaml").write_text("redact:\n  names: [license_id]\n  patterns: ['ACME-[0-9]{4,8}', 'corp_\\w+']\n")
    assert redact({"vendorLicenseId": "x", "note": "ACME-1234"}) == {"vendorLicenseId": "x", "note": "ACME-1234"}
    options = load_options().redact

    also_redact(options.names, options.patterns)

    values = {"vendorLicenseId": "x", "license_id": 7, "license": "y", "note": "see ACME-1234.", "z": ["corp_a b"]}
    clean = {"vendorLicenseId": MARKER, "note": f"see {MARKER}.", "z": [f"{MARKER} b"]}
    assert redact(values) == {**values, **clean}
    assert redact_prose("license_id: x, ACME-99999") == f"license_id: {MARKER}, {MARKER}"
    also_redact((), ())
    assert not is_secret("license_id")
    assert redact({"note": "ACME-1234"}) == {"note": "ACME-1234"}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "invalid Python regular expression (missing ), unterminated subpattern at position 0)"),
        ("x" * 201, "longer than 200 characters"),
        ("", "matches an empty text"),
        ("a{0,3}", "matches an empty text"),
        (r"\s", "matches an empty text or a blank"),
        ("(?:a{1,9}){1,9}b", "repeats a group"),
        ("(?:a|b){2}c", "repeats a group"),
        ("a*b", "has * or + before its end"),
        ("ab{2,}c", "has * or + before its end"),
        (r"(ab)\1", "has a back reference"),
        ("(?=a)b", "has an unsupported kind of group"),
        ("a{0,50}a{0,50}b", "in too many ways"),
        ("x?" * 20 + "y", "in too many ways"),
    ],
)
def test_a_pattern_that_is_invalid_or_slow_is_refused_with_its_line(pattern: str, why: str) -> None:
    quoted = pattern.replace("'", "''")
    (mistake,) = mistakes_of(f"redact:\n  patterns:\n    - 'fine'\n    - '{quoted}'\n")
    assert re.match(rf"fleet\.yaml:4: redact\.patterns\[1\]: .*{re.escape(why)}", mistake)


@pytest.mark.parametrize(
    "pattern",
    ["ACME-[0-9]{8}", r"(?i)lic_[a-z0-9]{16,64}", r"(?:foo|bar)_\w+", "[]a]{2}", r"a\{b{}", "ab?c{2}d*"],
)
def test_a_pattern_with_linear_time_is_accepted(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("name", ["a", "cache_config.license", "*", "x" * 101])
def test_a_name_under_redact_that_is_not_the_end_of_a_setting_is_refused(name: str) -> None:
    (mistake,) = mistakes_of(f"redact:\n  names: ['{name}']\n")
    assert mistake.startswith("fleet.yaml:2: redact.names[0]: not the name of a setting")
