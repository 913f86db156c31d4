"""`baseline` writes a pool's settings, and `check --baseline` fails on any deviation."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from dashboard.fleet import Failure, FailureKind, ReplicaState
from dashboard.rules.catalogue import ALL_RULES
from tests.builders import alike, document, down, fleet, replica
from tests.commands import assert_wrong_usage, last_line, run
from tests.saved_fleets import saved

BEGIN = "version: 1\npool: chat\n"
SEQS = "scheduler_config.max_num_seqs"
QUIET = ["--min-coverage", "0"]


@pytest.fixture(autouse=True)
def _saved_fleet(working_folder: Path) -> None:
    """Save a fleet: three replicas of cohort A, one of B, one down."""
    first, second = document(), document({"scheduler_config.max_num_seqs": 128})
    members = [*alike("chat", 3, first), replica("chat-04", document=second), down("chat-05")]
    (working_folder / "fleet.json").write_bytes(saved(fleet(members, [first, second])))


def made(*arguments: str) -> Result:
    return run("baseline", "chat", "--snapshot", "fleet.json", *arguments)


def checked(*arguments: str) -> Result:
    return run("check", "--snapshot", "fleet.json", *QUIET, *arguments)


def only_baselines(**more: object) -> None:
    """Write fleet.yaml with BL-01 as the only enabled rule."""
    off = {rule.id: {"enabled": False} for rule in ALL_RULES if rule.id != "BL-01"}
    Path("fleet.yaml").write_text(yaml.safe_dump({"rules": off, **more}))


def test_the_default_is_the_largest_cohort_on_standard_output() -> None:
    done = made()

    assert (done.exit_code, done.stderr) == (0, "")
    assert "# Expected settings of pool chat. Source: cohort A, 3 replicas.\n" in done.stdout
    assert "# prod-eu · live · data as of 2026-03-02T11:42:05Z · 4 of 5 answered" in done.stdout
    assert yaml.safe_load(done.stdout)["expected"]["scheduler_config.max_num_seqs"] == 256


@pytest.mark.parametrize("of", ["A", "chat-02"])
def test_a_source_with_incomplete_data_is_a_warning_with_the_reason(of: str) -> None:
    late: dict[str, Any] = {
        "state": ReplicaState.PARTIAL,
        "failure": Failure(FailureKind.TIMEOUT, "/server_info took too long."),
    }
    first, second = (replica(name, document=document(), **late) for name in ("chat-01", "chat-02"))
    Path("fleet.json").write_bytes(saved(fleet([first, second], [document()])))

    done = made("--of", of)

    assert done.exit_code == 0
    assert "Incomplete data, so settings are missing: " in done.stderr
    assert "chat-02 (/server_info took too long)" in done.stderr
    assert ("chat-01" in done.stderr) is (of == "A")


def test_a_check_against_a_new_baseline_fails_for_other_cohorts_only() -> None:
    done = made("-o", "chat.yaml")
    assert (done.exit_code, done.stdout) == (0, "")
    assert last_line(done) == "chat.yaml: 17 settings of cohort A, 3 replicas."

    only_baselines()
    failed = checked("--baseline", "chat.yaml")
    assert failed.exit_code == 1
    assert "1 setting deviates from the baseline chat: max_num_seqs is 128, expected 256." in failed.stdout
    assert last_line(failed) == (
        "exit 1: 1 warning (BL-01 in chat); --fail-on critical, and any deviation from --baseline chat.yaml; "
        "1 of 5 replicas in chat not read, not compared with chat.yaml."
    )


def test_a_deviation_from_a_baseline_of_the_options_fails_by_its_severity_only() -> None:
    made("-o", "chat.yaml")
    only_baselines(baselines=["chat.yaml"])

    assert checked().exit_code == 0
    assert checked("--fail-on", "warning").exit_code == 1
    assert checked("--baseline", "chat.yaml").exit_code == 1


def test_several_baselines_must_each_match_a_pool() -> None:
    Path("a.yaml").write_text(f"{BEGIN}expected: {{cache_config.block_size: 16}}")
    Path("b.yaml").write_text("{version: 1, pool: 'c*', expected: {cache_config.block_size: 32}}")
    only_baselines()

    done = checked("--baseline", "a.yaml", "--baseline", "b.yaml")

    assert done.exit_code == 3
    assert "no replica was compared with b.yaml (it matches no pool)" in last_line(done)
    assert checked("--baseline", "a.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("{version: 1, pool: embed, expected: {a: 1}}", {}, "it matches no pool"),
        (f"{BEGIN}expected: {{a: 1}}", {}, "a: reported by 0 of 5 replicas"),
        (f"{BEGIN}expected: {{a: 1}}", {"rules": {"BL-01": {"enabled": False}}}, "Disabled in fleet.yaml"),
    ],
)
def test_a_baseline_that_no_replica_was_compared_with_fails_with_3(
    text: str, options: dict[str, object], why: str
) -> None:
    Path("agreed.yaml").write_text(text)
    only_baselines(**options)

    done = checked("--baseline", "agreed.yaml", "--fail-on", "never")

    assert done.exit_code == 3
    assert f"exit 3: no replica was compared with agreed.yaml ({why})" in last_line(done)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            None,
            ("exit 2: wrong options: --baseline: no file matches x.yaml; name baseline files, or remove it."),
        ),
        (
            "version: 2\npool: chat\nexpected: {a: 1}\n",
            "exit 2: wrong options: x.yaml:1: version: unknown value; expected '1'.",
        ),
        (
            f"{BEGIN}expected: {{a: 2}}\n",
            "exit 2: wrong options: x.yaml: pool: chat already has a baseline in own.yaml; keep one.",
        ),
        ("", "exit 2: wrong options: x.yaml:1: not a baseline; write lines of `key: value`, the first `version: 1`."),
    ],
)
def test_an_unreadable_baseline_is_wrong_usage(text: str | None, why: str) -> None:
    Path("own.yaml").write_text(f"{BEGIN}expected: {{a: 1}}\n")
    only_baselines(baselines=["own.yaml"])
    if text is not None:
        Path("x.yaml").write_text(text)

    done = checked("--baseline", "x.yaml")

    assert (done.exit_code, done.stdout) == (2, "")
    assert last_line(done) == why


def test_update_rewrites_a_baseline_and_lists_the_changes() -> None:
    file = Path("chat.yaml")
    file.write_text(
        f"{BEGIN}expected:\n  scheduler_config.max_num_seqs: 256 # why\n  a.gone: 1\n"
        "ignored: ['*_config.[a-lo-z]*', 'v*']\n"
    )

    done = made("--of", "B", "--update", "chat.yaml")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "  scheduler_config.max_num_seqs: 128 # why\n" in file.read_text()
    assert last_line(done).startswith(
        "chat.yaml updated to cohort B, 1 replica: 1 changed (scheduler_config.max_num_seqs); "
    )
    assert last_line(done).endswith("; 1 kept though not reported (a.gone).")
    assert ("chat.yaml: scheduler_config.max_num_seqs changed; check its comment: # why") in done.stderr
    assert "added (model_config.max_logprobs, model_config.max_model_len" in last_line(done)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["chatt"], "there is no pool 'chatt'; there are: 'chat'."),
        (
            ["chat", "--of", "Z"],
            "--of Z: not a cohort or replica of chat with settings; there are the cohorts A and B,",
        ),
        (["chat", "--of", "chat-05"], "--of chat-05: not a cohort or replica of chat with settings"),
        (
            ["chat", "-o", "fleet.json"],
            "-o fleet.json: the file exists; use --update fleet.json to keep its comments",
        ),
        (
            ["chat", "-o", "a", "--update", "b"],
            "-o and --update: use one of them; --update writes to its own file.",
        ),
        (["chat", "-o", "no/such/folder"], "no/such/folder: No such file or directory; make the folder no/such, or "),
        (["chat", "--update", "none.yaml"], "none.yaml: No such file or directory; use -o FILE for a new one."),
        (["chat", "--update", "embed.yaml"], "--update embed.yaml: baseline of embed, not of chat."),
        (["chat", "--update", "odd.yaml"], "wrong options: odd.yaml:1: not a baseline; write lines"),
        (["chat", "--snapshot", "none.json"], "--snapshot none.json: No such file or directory"),
        (["chat", "host:8000", "--snapshot", "fleet.json"], "cannot be combined with addresses."),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], why: str) -> None:
    Path("embed.yaml").write_text("{version: 1, pool: embed, expected: {a: 1}}")
    Path("odd.yaml").write_text("odd")
    given = [] if "--snapshot" in arguments else ["--snapshot", "fleet.json"]

    done = run("baseline", *arguments, *given)

    assert_wrong_usage(done, why)


def test_settings_derived_from_a_tolerated_one_do_not_deviate() -> None:
    def graphs(seqs: int) -> dict[str, Any]:
        sizes = [1, 2, 4, *range(8, min(2 * seqs, 256) + 1, 8), *range(272, 2 * seqs + 1, 16)]
        return {
            SEQS: seqs,
            "scheduler_config.max_num_batched_tokens": 8192,
            "compilation_config.cudagraph_capture_sizes": sizes,
            "compilation_config.max_cudagraph_capture_size": 2 * seqs,
        }

    first, second = document(graphs(256)), document(graphs(128))
    members = [*alike("chat", 2, first), replica("chat-03", document=second)]
    Path("fleet.json").write_bytes(saved(fleet(members, [first, second])))
    made("-o", "chat.yaml")
    text = Path("chat.yaml").read_text().replace(f"  {SEQS}: 256\n", "")
    Path("chat.yaml").write_text(text.replace("tolerated:\n", f"tolerated:\n  {SEQS}: {{any_of: [128, 256]}}\n"))
    only_baselines()

    assert checked("--baseline", "chat.yaml").exit_code == 0
