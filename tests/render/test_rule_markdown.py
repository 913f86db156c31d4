"""A rule's page, the index of all pages, and the list in a terminal."""

import re
from collections.abc import Iterator

import pytest
import yaml

from dashboard.render.console import to_rule_table
from dashboard.render.rule_markdown import headline, rule_page, worst
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Draft
from dashboard.rules.registry import Rule, Scope, rule
from tests.rules.made_up import text_of

TEXT = text_of(
    {"any pool": ("info", "a | b.")},
    evidence=("vllm/a.py", "measured, see some-org/some.repo#12 and https://example.org/x/y#3"),
)


@rule("CP-99", TEXT, needs=("engines",), scope=Scope.FLEET, least=1)
def made_up(_fleet: object, *, tolerance: float = 0.2, word: str = "big") -> Iterator[Draft]:  # noqa: ARG001  its page names them
    """Something is too small."""
    yield from ()  # its page is read, and it finds nothing


def test_a_page_has_parameters_and_escaped_cells() -> None:
    page = rule_page(made_up)
    thread = "[some-org/some.repo#12](https://github.com/some-org/some.repo/issues/12)"

    assert f"- vllm/a.py\n- measured, see {thread} and https://example.org/x/y#3\n" in page
    assert "| `tolerance` | `0.2` |\n| `word` | `big` |" in page
    assert "    parameters: {tolerance: 0.2, word: big}" in page
    assert "| any pool | info | a \\| b. |" in page


def test_a_rule_needs_one_replica_or_nothing() -> None:
    needless = rule("CP-98", TEXT)(made_up.check)

    assert "Skipped unless at least one replica reports one of these:\n\n- `engines`" in rule_page(made_up)
    assert "Never skipped." in rule_page(needless)


@pytest.mark.parametrize("each", [*ALL_RULES, made_up], ids=lambda each: each.id)
def test_the_example_of_fleet_yaml_is_yaml(each: Rule) -> None:
    snippet = re.findall(r"```yaml\n(# fleet\.yaml.*?)```", rule_page(each), re.DOTALL)
    options = yaml.safe_load(snippet[0])

    assert options.keys() == {"rules", "suppress"}
    assert {"rule", "pool", "owner", "reason", "until"} == options["suppress"][0].keys()


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_table_of_a_terminal_has_every_rule_and_whole_problems(width: int) -> None:
    lines = to_rule_table(ALL_RULES, width=width, colour=False).splitlines()
    start = lines[0].index("problem")
    problems = " ".join(line[start:].strip() for line in lines[1:])

    assert lines[0].split() == ["rule", "at", "worst", *(["name"] if width >= 120 else []), "problem"]
    for each in ALL_RULES:
        assert any(line.split()[:2] == [each.id, worst(each)] for line in lines)
    assert max(map(len, lines)) <= width
    assert width - start >= width // 2
    assert all(line == line.rstrip() for line in lines)
    assert problems == " ".join(headline(each) for each in ALL_RULES), "no word is cut"
