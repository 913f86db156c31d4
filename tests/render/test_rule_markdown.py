"""A rule's page, the index of all pages, and the list in a terminal."""

import re
from collections.abc import Iterator

import pytest
import yaml

from dashboard.render.console import to_rule_table
from dashboard.render.rule_markdown import headline, rule_index, rule_page, severities, worst
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Severity
from dashboard.rules.registry import Scope, rule


@rule(
    "CP-99",
    {ImpactContext.MODEL: Severity.INFO},
    needs=("engines",),
    scope=Scope.FLEET,
    least=1,
)
def made_up(_fleet: object, *, tolerance: float = 0.2, word: str = "big") -> Iterator[Draft]:  # noqa: ARG001  its page names them
    """Something is too small.

    Why it matters:
        - any pool: a | b.

    Evidence:
        - vllm/a.py
        - measured, see some-org/some.repo#12 and https://example.org/x/y#3
    """
    yield from ()  # its page is read, and it finds nothing


def test_a_page_tells_the_problem_first_and_then_why_per_domain() -> None:
    page = rule_page(BY_ID["RT-01"])

    assert page.startswith("# RT-01: block-size-differs\n\nReplicas of one pool use different block sizes.")
    assert "| prefix-hash | critical | The router hashes blocks" in page
    assert "Family: routing. Scope: the replicas of one pool." in page
    assert "Skipped unless at least 2 replicas report one of these:\n\n- `cache_config.block_size`" in page


def test_issues_are_links_and_files_are_text() -> None:
    assert "[ai-dynamo/dynamo#1233](https://github.com/ai-dynamo/dynamo/issues/1233)" in rule_page(BY_ID["RT-01"])
    assert "- vllm/a.py\n- measured, see [some-org/some.repo#12](https://github.com/some-org/some.repo/issues/12)" in (
        rule_page(made_up)
    )
    assert "and https://example.org/x/y#3\n" in rule_page(made_up)


def test_parameters_are_told_with_their_defaults() -> None:
    page = rule_page(made_up)

    assert "| `tolerance` | `0.2` |\n| `word` | `big` |" in page
    assert "    parameters: {tolerance: 0.2, word: big}" in page
    assert "## Parameters" not in rule_page(BY_ID["RT-01"])


def test_what_one_replica_tells_is_enough_for_some_rules_and_some_need_nothing() -> None:
    needless = rule("CP-98", {ImpactContext.MODEL: Severity.WARNING})(made_up.check)

    assert "Skipped unless at least one replica reports one of these:\n\n- `engines`" in rule_page(made_up)
    assert "Never skipped." in rule_page(needless)


def test_a_pipe_in_a_sentence_does_not_end_its_cell() -> None:
    assert "| any pool | info | a \\| b. |" in rule_page(made_up)


@pytest.mark.parametrize("each", [*ALL_RULES, made_up], ids=lambda each: each.id)
def test_what_a_page_says_about_fleet_yaml_is_yaml_of_that_shape(each: object) -> None:
    page = rule_page(each)  # type: ignore[arg-type]
    snippet = re.findall(r"```yaml\n(# fleet\.yaml.*?)```", page, re.DOTALL)
    told = yaml.safe_load(snippet[0])

    assert told.keys() == {"rules", "suppress"}
    assert {"rule", "pool", "owner", "reason", "until"} == told["suppress"][0].keys()


def test_the_index_names_every_rule_once_by_family() -> None:
    index = rule_index(ALL_RULES)

    for each in ALL_RULES:
        assert index.count(f"| [{each.id}]({each.id}.md) | {each.name} | {worst(each)} |") == 1
    assert "Replicas of one pool use different block sizes. |" in index, "of the problem the first sentence"
    assert index.index("## Routing") < index.index("## Behaviour")


def test_severities_stand_worst_first() -> None:
    assert severities(BY_ID["RT-01"]) == (
        "prefix-hash critical, kv-events critical, kv-store critical, any pool warning"
    )
    assert worst(BY_ID["RT-01"]) == "critical"


def test_the_list_has_a_line_for_every_rule() -> None:
    lines = to_rule_table(ALL_RULES, width=200, colour=False).splitlines()

    assert lines[0].split() == ["rule", "at", "worst", "name", "problem"]
    for each in ALL_RULES:
        assert any(line.split()[:3] == [each.id, worst(each), each.name] for line in lines)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_in_a_narrow_terminal_the_problem_keeps_most_of_the_line(width: int) -> None:
    lines = to_rule_table(ALL_RULES, width=width, colour=False).splitlines()

    begin = lines[0].index("problem")
    told = " ".join(line[begin:].strip() for line in lines[1:])
    assert max(map(len, lines)) <= width
    assert width - begin >= width // 2
    assert told == " ".join(headline(each) for each in ALL_RULES), "no word is cut"
