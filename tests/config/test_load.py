"""fleet.yaml and the environment: what they give, and one sentence per mistake."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.config import Options, PollOptions, TargetOptions, load_options
from dashboard.errors import OptionsError

KEYS = ", ".join(Options.model_fields)


@pytest.fixture(autouse=True)
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Write ./fleet.yaml, in an empty folder, with no variable of ours set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("FLEET_")]:
        monkeypatch.delenv(name)

    def write_file(text: str | bytes) -> None:
        Path("fleet.yaml").write_bytes(text.encode() if isinstance(text, str) else text)

    return write_file


def mistakes() -> tuple[str, ...]:
    with pytest.raises(OptionsError) as caught:
        load_options()
    return caught.value.mistakes


def test_fleet_config_names_the_file(monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]) -> None:
    write("name: not this one")
    Path("other.yaml").write_text("name: other\n")
    monkeypatch.setenv("FLEET_CONFIG", "other.yaml")
    assert load_options().name == "other"
    monkeypatch.setenv("FLEET_CONFIG", "missing.yaml")
    assert mistakes() == ("missing.yaml: No such file or directory; name the options file",)


def test_targets_are_addresses_or_mappings_and_become_ids(write: Callable[[str], None]) -> None:
    write("targets:\n  - GPU-1:8000\n  - {url: 'https://gpu-2/', labels: {rack: 1.10, spare: true}}\n")
    assert load_options().targets == (
        TargetOptions(url="http://gpu-1:8000"),
        TargetOptions(url="https://gpu-2:443", labels={"rack": "1.10", "spare": "true"}),
    )


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "odd [name]"
    folder.mkdir()
    (folder / "f.yaml").write_text(
        "credentials: {token_file: t, ca_file: /etc/ca.pem}\nfile_sd: [{files: ['a/*.json', '/abs/*.yaml']}]\n"
    )
    options = load_options(folder / "f.yaml")
    assert options.credentials is not None
    assert options.credentials.token_file == folder / "t"
    assert options.credentials.ca_file == Path("/etc/ca.pem")
    assert options.file_sd[0].files == (f"{tmp_path}/odd [[]name]/a/*.json", "/abs/*.yaml")


def test_the_environment_goes_before_the_file(monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]) -> None:
    write("name: file\ntargets: [a]\npoll: {interval_seconds: 30, connections: 7}\n")
    monkeypatch.setenv("FLEET_POLL__INTERVAL_SECONDS", "60")
    monkeypatch.setenv("FLEET_TARGETS", '["b", {"url": "c", "labels": {"rack": 5}}]')
    monkeypatch.setenv("FLEET_NAME", "")
    options = load_options()
    assert options.name == "file"
    assert options.poll == PollOptions(interval_seconds=60, connections=7)
    assert options.targets == (
        TargetOptions(url="http://b:80"),
        TargetOptions(url="http://c:80", labels={"rack": "5"}),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nam: x", "fleet.yaml:1: nam: unknown key; did you mean name?"),
        (
            "name: x\nzzz: x",
            (f"fleet.yaml:2: zzz: unknown key; the keys here are {KEYS}"),
        ),
        (
            "poll:\n  intervall_seconds: 15",
            "fleet.yaml:2: poll.intervall_seconds: unknown key; did you mean interval_seconds?",
        ),
        (
            "targets: [{url: a, credentials: {token_fil: x}}]",
            "fleet.yaml:1: targets[0].credentials.token_fil: unknown key; did you mean token_file?",
        ),
        (
            "name: x\n_env_file: x",
            (f"fleet.yaml:2: _env_file: unknown key; the keys here are {KEYS}"),
        ),
        ("pol:", "fleet.yaml:1: pol: unknown key; did you mean poll?"),
        ("name: x\nname: y", "fleet.yaml:2: name: duplicate of line 1; keep one"),
        ("name: [x]", "fleet.yaml:1: name: expected a string"),
        ("name: ''", "fleet.yaml:1: name: empty; write a string or remove the key"),
        ("name: " + "x" * 101, "fleet.yaml:1: name: longer than 100 characters; shorten it"),
        (
            "poll:\n  interval_seconds: soon",
            "fleet.yaml:2: poll.interval_seconds: expected a number such as 15",
        ),
        ("poll: {interval_seconds: []}", "fleet.yaml:1: poll.interval_seconds: expected a number such as 15"),
        (
            "poll: {interval_seconds: nan}",
            "fleet.yaml:1: poll.interval_seconds: expected a finite number such as 15",
        ),
        ("poll: {interval_seconds: 0.5}", "fleet.yaml:1: poll.interval_seconds: too small; the minimum is 1"),
        ("poll: {interval_seconds: 1e9}", "fleet.yaml:1: poll.interval_seconds: too large; the maximum is 86400"),
        ("poll: {connections: 2.5}", "fleet.yaml:1: poll.connections: expected a whole number such as 100"),
        ("poll: {connections: {}}", "fleet.yaml:1: poll.connections: expected a whole number such as 100"),
        ("poll: {max_answer_bytes: 1}", "fleet.yaml:1: poll.max_answer_bytes: too small; the minimum is 65536"),
        (
            "poll: {max_answer_bytes: 1000000000}",
            "fleet.yaml:1: poll.max_answer_bytes: too large; the maximum is 268435456",
        ),
        (
            "name: x\npoll:\n  probe_timeout_seconds: 30",
            (
                "fleet.yaml:2: poll: probe_timeout_seconds is longer than replica_timeout_seconds;"
                " raise replica_timeout_seconds"
            ),
        ),
        ("poll: fast", "fleet.yaml:1: poll: not a mapping; write lines of `key: value`"),
        ("targets: a", "fleet.yaml:1: targets: not a list; begin each entry with `- `"),
        ("targets:\n- labels: {}", "fleet.yaml:2: targets[0].url: missing"),
        (
            "targets: [{url: a, labels: [b]}]",
            "fleet.yaml:1: targets[0].labels: not a mapping; write lines of `key: value`",
        ),
        ("targets: [{url: a, labels: {b: {}}}]", "fleet.yaml:1: targets[0].labels.b: expected a string"),
        ("targets:\n- a\n- 'x y'", "fleet.yaml:3: targets[1].url: 'x y' names no host; write http://host:port"),
        (
            "targets:\n- http://u:hunter2@h",
            (
                "fleet.yaml:2: targets[0].url: '***@h' holds credentials;"
                " use token_env or token_file, and write http://host:port"
            ),
        ),
        ("file_sd: [{files: []}]", "fleet.yaml:1: file_sd[0].files: empty; write at least one entry"),
        (
            'file_sd: [{files: ["a\\0b"]}]',
            "fleet.yaml:1: file_sd[0].files[0]: contains a null character; write the path of a file",
        ),
        ("credentials: {ca_file: []}", "fleet.yaml:1: credentials.ca_file: expected the path of a file"),
        (
            "credentials: {token_env: hf_hunter2!}",
            (
                "fleet.yaml:1: credentials.token_env: not the name of an environment variable; "
                "write the name, not the secret"
            ),
        ),
        (
            "credentials: {token_env: A, token_file: b}",
            "fleet.yaml:1: credentials: token_env and token_file are both set; keep one",
        ),
        (
            "credentials:\n  token: hunter2",
            ("fleet.yaml:2: credentials.token: no secrets in clear text; use token_env or token_file"),
        ),
        ("ignore: ['']", "fleet.yaml:1: ignore[0]: empty; write a string or remove the key"),
        ("- a", "fleet.yaml:1: not a mapping; write lines of `key: value`, such as `name: my fleet`"),
        ("a: [1", "fleet.yaml:1: not YAML: did not find expected ',' or ']'"),
    ],
)
def test_each_mistake_has_its_sentence(write: Callable[[str], None], text: str, sentence: str) -> None:
    write(text)
    assert mistakes() == (sentence,)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("FLEET_POLL__CONNECTIONS", "0", "poll.connections: too small; the minimum is 1"),
        ("FLEET_POLL__CONECTIONS", "1", "poll.conections: unknown key; did you mean connections?"),
        ("FLEET_POL__CONNECTIONS", "1", "unknown key; did you mean poll?"),
        ("FLEET_POLL", '{"connections": 0}', "poll.connections: too small; the minimum is 1"),
        ("FLEET_POLL", "5", "poll: not a mapping; write lines of `key: value`"),
        ("FLEET_TARGETS", "gpu-1", "not JSON; write lists and mappings as JSON"),
        ("FLEET_TARGETS", '["a", {"labels": {}}]', "targets[1].url: missing"),
        ("FLEET_TARGETS__0__URL", "a", "targets: not a list; begin each entry with `- `"),
        (
            "FLEET_CREDENTIALS__TOKEN",
            "hunter2",
            ("credentials.token: no secrets in clear text; use token_env or token_file"),
        ),
    ],
)
def test_a_mistake_in_the_environment_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None], variable: str, value: str, sentence: str
) -> None:
    write("poll: {connections: 5}\ntargets: [a]\n")
    monkeypatch.setenv(variable, value)
    assert mistakes() == (f"environment variable {variable}: {sentence}",)


def test_a_mistake_in_the_file_is_not_blamed_on_the_environment(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]
) -> None:
    write("poll: {connections: 0}\n")
    monkeypatch.setenv("FLEET_POLL__INTERVAL_SECONDS", "60")
    assert mistakes() == ("fleet.yaml:1: poll.connections: too small; the minimum is 1",)


@pytest.mark.parametrize("glob", ["*", "*.*", "?*"])
def test_a_glob_that_allows_every_host_is_a_mistake(write: Callable[[str], None], glob: str) -> None:
    """It would let foreign sites in by DNS rebinding."""
    write(f"allowed_hosts: ['{glob}']\n")
    said = "allows every site; write names, or globs such as *.example.com"
    assert mistakes() == (f"fleet.yaml:1: allowed_hosts[0]: {said}",)


@pytest.mark.parametrize(
    ("variable", "option"),
    [("FLEET_ALLOWED_HOST", "allowed_hosts"), ("FLEET_READONLY", "read_only"), ("FLEET_TARGET", "targets")],
)
def test_a_variable_that_is_nearly_an_option_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, variable: str, option: str
) -> None:
    """Else a dashboard that was meant to be read-only would not be."""
    monkeypatch.setenv(variable, "true")
    assert mistakes() == (f"environment variable {variable}: unknown key; did you mean {option}?",)


def test_variables_that_kubernetes_sets_for_a_service_called_fleet_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
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
    ],
)
def test_a_secret_that_is_given_as_the_options_is_not_quoted(write: Callable[[str], None], text: str) -> None:
    """Somebody mixed up two files, and CI keeps what is printed."""
    write(text)

    assert "hunter2" not in " ".join(mistakes())
