"""The command `validate`: every mistake in options files and baselines with its line and column, and nothing else."""

import os
import socket
from pathlib import Path

import pytest

from dashboard.config import TARGET_SOURCES
from tests.commands import assert_wrong_usage, last_line, run
from tests.config.mistakes import one_mistake_each


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


@pytest.mark.parametrize(("text", "sentence"), list(one_mistake_each()))
def test_each_mistake_is_what_the_loader_says_with_its_column(text: str, sentence: str) -> None:
    done = run("validate", write("fleet.yaml", f"# first\n{text}\n"))
    (line,) = [each for each in done.stdout.splitlines() if ": note: " not in each]
    place, _, said = line.partition(": ")

    assert (done.exit_code, said, last_line(done)) == (1, sentence, "exit 1: 1 mistake.")
    assert place.startswith("fleet.yaml:2:")
    assert 1 <= int(place.rpartition(":")[2]) <= len(text)


def test_the_line_and_the_column_are_those_of_the_key_or_of_the_entry() -> None:
    write("fleet.yaml", 'nam: x\npoll:\n  interval_seconds: soon\ntargets: [a, "x y"]\nbaselines:\n  - none.yaml\n')

    assert run("validate").stdout.splitlines() == [
        "fleet.yaml:1:1: nam: unknown key; did you mean name?",
        "fleet.yaml:3:3: poll.interval_seconds: expected a number such as 15",
        "fleet.yaml:4:14: targets[1].url: 'x y' has no host; write http://host:port",
    ]
    write("fleet.yaml", "baselines:\n  - none.yaml\n")
    assert run("validate").stdout.startswith("fleet.yaml:2:5: baselines[0]: no file matches ")


def test_the_mistakes_in_all_files_that_the_options_name_are_reported_at_once(folder: Path) -> None:
    write("fleet.yaml", "baselines: [b/*.yaml]\nsuppressions_file: s.yaml\naccess: {tokens_file: t.yaml}\n")
    (folder / "b").mkdir()
    write("b/chat.yaml", "version: 1\npool: chat\nexpcted: {}\n")
    write("s.yaml", "suppress:\n  - rule: RT-01\n    owner: me\n    until: 2026-12-31\n")
    write("t.yaml", "tokens:\n- {name: ci, role: root, sha256: ab}\n")
    done = run("validate", "fleet.yaml", "b/chat.yaml", "t.yaml")

    assert done.stdout.splitlines() == [
        "b/chat.yaml:3:1: expcted: unknown key; did you mean expected?",
        "s.yaml:2:5: suppress[0].reason: missing",
        "t.yaml:2:14: tokens[0].role: not a role; write viewer, editor, admin",
        "t.yaml:2:26: tokens[0].sha256: not a SHA-256; python -m dashboard token new prints the line to add",
    ]
    assert (done.exit_code, last_line(done)) == (1, "exit 1: 4 mistakes.")


def test_missing_secrets_are_notes_and_nothing_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IS_SET", "x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        sources = {
            "targets": f"[{{url: '{url}', credentials: {{token_env: NOT_SET, ca_file: ca.pem}}}}]",
            "http_sd": f"[{{url: '{url}', credentials: {{token_env: IS_SET}}}}]",
            "prometheus": f"[{{url: '{url}'}}]",
        }
        assert sources.keys() <= set(TARGET_SOURCES)
        done = run("validate", write("fleet.yaml", "".join(f"{key}: {value}\n" for key, value in sources.items())))
        with pytest.raises(BlockingIOError):
            server.accept()

    assert [each.partition("note: ")[2] for each in done.stdout.splitlines()] == [
        "targets[0].credentials.token_env: the variable NOT_SET is not set here",
        "targets[0].credentials.ca_file: no file ca.pem here",
    ]
    assert (done.exit_code, done.stderr) == (0, "exit 0: 1 file without mistakes.\n")
    assert not Path("data").exists()


def test_notes_are_printed_with_the_mistakes_and_for_lists_that_match_no_file(folder: Path) -> None:
    (folder / "pods.yaml").touch()
    write(
        "fleet.yaml",
        "nam: x\nfile_sd: [{files: [pods.yaml, 'more/*.yaml']}]\n"
        "kubernetes:\n- {selector: app=vllm, kubeconfig: eu.conf, labels: {tier_env: prod}, port: 0}\n"
        "credentials: {token_env: NOT_SET}\naccess: {tokens_file: none.yaml}\nsuppressions_file: none.yaml\n",
    )
    done = run("validate")

    assert done.stdout.splitlines() == [
        "fleet.yaml:1:1: nam: unknown key; did you mean name?",
        "fleet.yaml:4:71: kubernetes[0].port: not a port; write its number or its name in the pod",
        "fleet.yaml:2:31: note: file_sd[0].files[1]: no file matches more/*.yaml here",
        "fleet.yaml:4:24: note: kubernetes[0].kubeconfig: no file eu.conf here",
        "fleet.yaml:5:15: note: credentials.token_env: the variable NOT_SET is not set here",
    ]
    assert (done.exit_code, last_line(done)) == (1, "exit 1: 2 mistakes.")


def test_what_should_be_the_name_of_a_variable_but_is_a_secret_is_not_repeated() -> None:
    done = run("validate", write("fleet.yaml", "credentials: {token_env: sk-hunter2}\n"))

    assert done.exit_code == 1
    assert "hunter2" not in done.stdout + done.stderr


def test_the_option_config_names_one_more_file() -> None:
    write("a.yaml", "nam: x\n")
    write("b.yaml", "nam: y\n")

    assert run("validate", "--config", "a.yaml").stdout == "a.yaml:1:1: nam: unknown key; did you mean name?\n"
    assert [each[:6] for each in run("validate", "b.yaml", "--config", "a.yaml").stdout.splitlines()] == [
        "b.yaml",
        "a.yaml",
    ]


def test_only_the_file_counts_not_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_POLL__CONNECTIONS", "7")
    monkeypatch.setenv("FLEET_NMAE", "x")
    monkeypatch.setenv("FLEET_CONFIG", write("mine.yaml", "poll: {connections: 0}\n"))

    assert run("validate").stdout == "mine.yaml:1:8: poll.connections: too small; the minimum is 1\n"
    monkeypatch.setenv("FLEET_CONFIG", write("mine.yaml", "name: mine\n"))
    assert run("validate").exit_code == 0


def test_standard_input_is_a_file_too() -> None:
    done = run("validate", "-", stdin="name: [\n")

    assert (done.exit_code, done.stdout.partition(": ")[2]) == (1, "not YAML: did not find expected node content\n")
    assert run("validate", "-", stdin="name: east\n").exit_code == 0


def test_github_annotates_the_line() -> None:
    done = run("validate", "--format", "github", write("a,b.yaml", "name: x\nsecret: hunter2\n"))

    assert done.stdout == (
        "::error title=options,file=a%2Cb.yaml,line=2,col=1::"
        "secret: no secrets in clear text; use token_env or token_file\n"
    )


@pytest.mark.parametrize("output", ["text", "github"])
def test_hostile_keys_cannot_begin_a_line(output: str) -> None:
    done = run("validate", "--format", output, write("f.yaml", 'name: x\n"a\\n::error::b\\e[31m": y\n'))

    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 1
    assert "\n::" not in f"\n{done.stdout}".replace("\n::error title=options,", "")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_a_file_that_cannot_be_read_is_wrong_usage(name: str) -> None:
    assert_wrong_usage(run("validate", name), f"{name}: ")


def test_a_named_pipe_is_refused_and_that_of_a_shell_is_read() -> None:
    os.mkfifo("pipe")
    reading, writing = os.pipe()
    os.write(writing, b"nam: x\n")
    os.close(writing)

    assert_wrong_usage(run("validate", "pipe"), "pipe: not a regular file; name a file that can be read")
    assert last_line(run("check", "--config", "pipe")) == (
        "exit 2: wrong options: pipe: not a regular file; name an options file that can be read."
    )
    assert last_line(run("check", "http://127.0.0.1:9", "--baseline", "pipe")).endswith(
        "pipe: not a regular file; name a baseline file."
    )
    assert "nam: unknown key" in run("validate", f"/dev/fd/{reading}").stdout
    os.close(reading)


def test_without_a_file_that_of_the_options_is_needed() -> None:
    assert_wrong_usage(run("validate"), "fleet.yaml: No such file or directory; name a file that can be read")
