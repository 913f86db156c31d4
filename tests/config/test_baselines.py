"""Baselines are read whole, or refused with place, cause and action."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config import load_options, policy_of
from dashboard.config.baselines import read_baseline
from dashboard.fleet import Baseline, Tolerance
from tests.config.mistakes import mistakes_of

pytestmark = pytest.mark.usefixtures("working_folder")

WHOLE = """\
# made of cohort A
version: 1
pool: chat-70b                 # name or glob
expected:
  cache_config.block_size: 16  # the router cuts 16: é
  cache_config.kv_offloading_size: null
  model_config.dtype: torch.bfloat16
  model_config.revision: "1.10"
  model_config.note: "a # b"  ## twice
  # of the line below
  model_config.allowed_media_domains: [b, a]
  compilation_config.sizes:    # of a list
    - 1
    - 2
tolerated:                     # in place of one value
  scheduler_config.max_num_seqs: {any_of: [128, 256]}  # either
  cache_config.gpu_memory_utilization: {at_least: 0.90, at_most: 0.95}
ignored:                       # globs
  - observability_config.*     # irrelevant
"""
BEGIN = "version: 1\npool: chat\n"
NOT_A_BASELINE = "1: not a baseline; write lines of `key: value`, the first `version: 1`"
NOTHING = "1: nothing is expected or tolerated; write settings under `expected`"


def write_baselines(**files: str) -> None:
    Path("baselines").mkdir()
    for name, text in files.items():
        Path("baselines", f"{name}.yaml").write_text(text)


def test_every_part_of_a_baseline_is_read() -> None:
    baseline, mistakes = read_baseline(WHOLE.encode("utf-8-sig"), "baselines/agreed.yaml")

    assert mistakes == ()
    assert baseline == Baseline(
        name="agreed",
        pool="chat-70b",
        expected={
            "cache_config.block_size": "16",
            "cache_config.kv_offloading_size": "null",
            "model_config.dtype": '"bfloat16"',
            "model_config.revision": '"1.10"',
            "model_config.note": '"a # b"',
            "model_config.allowed_media_domains": '["a","b"]',
            "compilation_config.sizes": "[1,2]",
        },
        tolerated={
            "scheduler_config.max_num_seqs": Tolerance(("128", "256")),
            "cache_config.gpu_memory_utilization": Tolerance((), 0.9, 0.95),
        },
        ignored=("observability_config.*",),
        comments={
            "cache_config.block_size": "the router cuts 16: é",
            "model_config.note": "twice",
            "compilation_config.sizes": "of a list",
            "scheduler_config.max_num_seqs": "either",
        },
        file="baselines/agreed.yaml",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16", "16"),
        ("'16'", "16"),
        ("1.5", "1.5"),
        ("0.90", '"0.90"'),
        ("true", "true"),
        ("'null'", '"null"'),
        ("~", "null"),
        ("", "null"),
        ("fp8", '"fp8"'),
        ("{a: [1, x], b: null}", '{"a":[1,"x"],"b":null}'),
    ],
)
def test_a_value_is_a_number_only_where_its_spelling_is_canonical(text: str, expected: str) -> None:
    baseline, mistakes = read_baseline(f"{BEGIN}expected:\n  a: {text}\n".encode(), "chat.yaml")

    assert baseline, mistakes
    assert baseline.expected == {"a": expected}


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("", [NOT_A_BASELINE]),
        ("- a\n", [NOT_A_BASELINE]),
        ('{"schema_version": 1}', ["1: a saved fleet, not a baseline; use --snapshot"]),
        ("version: 1\npool: [\n", ["2: not YAML: did not find expected node content"]),
        ("version: 1\nversion: 1\n", ["2: version: duplicate of line 1; keep one"]),
        ("expected: {a: 1}\n", ["1: pool: missing", "1: version: missing"]),
        (
            "version: 2\npool: ' '\nexpected: {a: 1}\n",
            ["1: version: unknown value; expected '1'", "2: pool: empty; write the name of a pool, or a glob"],
        ),
        (f"{BEGIN}expect:\n  a: 1\n", ["3: expect: unknown key; did you mean expected?"]),
        (BEGIN, [NOTHING]),
        (f"{BEGIN}expected: {{}}\n", [NOTHING]),
        (f"{BEGIN}expected:\n  '': 1\n", ["4: expected.: empty; write a string or remove the key"]),
        (
            f"{BEGIN}expected:\n  a.api_key: sk-1234\n",
            ["4: expected.a.api_key: no secrets in a baseline: they are not compared; remove it"],
        ),
        (
            f"{BEGIN}expected:\n  a: 1\ntolerated:\n  a: {{any_of: [1]}}\n",
            ["6: tolerated.a: also expected on line 4; keep one"],
        ),
        (
            f"{BEGIN}tolerated:\n  a: 1\n  b: {{}}\n  c: {{at_most: null}}\n",
            [
                "4: tolerated.a: not a mapping; write lines of `key: value`",
                "5: tolerated.b: expected {any_of: [...]} or {at_least: ..., at_most: ...}",
                "6: tolerated.c: expected {any_of: [...]} or {at_least: ..., at_most: ...}",
            ],
        ),
        (
            f"{BEGIN}tolerated:\n  a: {{any_of: [1], at_least: 1}}\n",
            ["4: tolerated.a: any_of and a range; keep one of them"],
        ),
        (
            f"{BEGIN}tolerated:\n  a: {{at_least: 0.95, at_most: 0.9}}\n",
            ["4: tolerated.a: at_least 0.95 is more than at_most 0.9"],
        ),
        (
            f"{BEGIN}tolerated:\n  a: {{at_least: low, at_most: true}}\n",
            [f"4: tolerated.a.{end}: expected a number such as 0.9" for end in ("at_least", "at_most")],
        ),
        (f"{BEGIN}expected: {{a: 1}}\nignored:\n  - a.*\n  - [b]\n", ["6: ignored[1]: expected a string"]),
    ],
)
def test_each_mistake_is_one_sentence_with_its_line(text: str, mistakes: list[str]) -> None:
    baseline, found = read_baseline(text.encode(), "chat.yaml")

    assert baseline is None
    assert [f"{line}: {sentence}" for line, sentence in found] == mistakes


@given(
    st.one_of(
        st.binary(max_size=60), st.text("version: 1\npool: chat\nexpected: {a}[]#'\"-|", max_size=80).map(str.encode)
    )
)
def test_any_bytes_give_a_baseline_or_mistakes(raw: bytes) -> None:
    baseline, mistakes = read_baseline(raw, "chat.yaml")

    assert (baseline is None) is bool(mistakes)


def test_files_and_globs_start_at_the_folder_of_the_options() -> None:
    Path("deep").mkdir()
    os.chdir("deep")
    write_baselines(b=f"{BEGIN}expected: {{a: 1}}", a="{version: 1, pool: 'ch*', expected: {b: 1}}")
    Path("fleet.yaml").write_text("baselines: [baselines/b.yaml, 'baselines/*.yaml']")
    os.chdir("..")

    policy = policy_of(load_options(Path("deep/fleet.yaml")))

    assert [(each.name, each.pool, each.file) for each in policy.baselines] == [
        ("b", "chat", "baselines/b.yaml"),
        ("a", "ch*", "baselines/a.yaml"),
    ]
    found = [policy.baseline(pool) for pool in ("chat", "chat-2", "embed")]
    assert found == [*policy.baselines, None]


def test_mistakes_name_the_baseline_file() -> None:
    text = "version: 3\npool: x\nexpected: {a: 1}\n"
    write_baselines(a=f"{BEGIN}expected: {{a: 1}}", b=f"{BEGIN}expected: {{a: 2}}", c=text)
    Path("baselines/d.yaml").mkdir()

    assert mistakes_of("baselines: ['baselines/*.yaml']") == (
        "baselines/b.yaml:2: pool: chat already has a baseline in baselines/a.yaml; keep one",
        "baselines/c.yaml:1: version: unknown value; expected '1'",
        "baselines/d.yaml: Is a directory; name a baseline file",
    )


def test_a_missing_file_is_a_mistake_at_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mistakes_of("name: mine\nbaselines:\n  - nowhere/*.yaml\n") == (
        "fleet.yaml:3: baselines[0]: no file matches nowhere/*.yaml; name baseline files, or remove it",
    )
    monkeypatch.setenv("FLEET_BASELINES", '["none.yaml"]')
    (mistake,) = mistakes_of("name: mine\n")
    assert mistake.startswith("environment variable FLEET_BASELINES: baselines[0]: no file matches none.yaml; ")
