"""fleet.yaml and the environment: their options, and one sentence per mistake."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config import Options, PollOptions, TargetOptions, load_options
from dashboard.config.model import check_pattern
from dashboard.errors import OptionsError
from tests.config.mistakes import mistakes_of, one_mistake_each
from vllm_fleet_provider.shared.redaction import MARKER, also_redact, is_secret, redact, redact_prose

pytestmark = pytest.mark.usefixtures("working_folder")

NOT_A_MAPPING = "not a mapping; write lines of `key: value`"
NOT_A_LIST = "not a list; begin each entry with `- `"


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


@pytest.mark.parametrize(("text", "sentence"), list(one_mistake_each()))
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
        (
            "FLEET_POOLS__CHAT__ROUTER",
            "hash",
            "pools.chat.router: unknown value; expected 'prefix-hash', 'kv-events', 'approximate' or 'none'",
        ),
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
