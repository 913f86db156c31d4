"""Write what is generated under docs/; a test fails when it is stale."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from dashboard.render.rule_markdown import headline, page_path, rule_page, table_cell, worst
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.registry import Rule
from tests.tools import access_table, command_line, config_api, dataframes, options_schema

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "rules"
NOTE = "<!-- Written by `make docs` from the rule. -->"


def rule_pages() -> dict[Path, str]:
    """Return the page of every rule and their index, by file."""
    pages = {ROOT / page_path(rule.id): rule_page(rule) for rule in ALL_RULES}
    return {file: f"{NOTE}\n\n{text}" for file, text in {**pages, RULES / "README.md": rule_index(ALL_RULES)}.items()}


def rule_index(rules: Iterable[Rule]) -> str:
    """Return the index of all pages, by family."""
    parts = [
        "# Rules",
        "One page per rule. The severity of a finding depends on what the pool shares; `fleet.yaml` can change it.",
    ]
    for family, members in groupby(rules, key=lambda rule: rule.family):
        rows = [
            f"| [{rule.id}]({rule.id}.md) | {rule.name} | {worst(rule)} | {table_cell(headline(rule))} |"
            for rule in members
        ]
        head = "| rule | name | at worst | problem |\n| --- | --- | --- | --- |"
        parts += [f"## {str(family).capitalize()}", "\n".join([head, *rows])]
    return "\n\n".join(parts) + "\n"


def generated() -> dict[Path, str]:
    """Return everything that is generated, by file."""
    return {
        command_line.PAGE: command_line.page_text(),
        config_api.OPENAPI: config_api.openapi_text(),
        config_api.PAGE: config_api.page_text(config_api.PAGE.read_text()),
        dataframes.PAGE: dataframes.page_text(),
        access_table.PAGE: access_table.page_text(access_table.PAGE.read_text()),
        options_schema.FILE: options_schema.schema_text(),
        **rule_pages(),
    }


def main() -> None:
    """Write all of it, and remove the pages of rules that are no more."""
    RULES.mkdir(exist_ok=True)
    pages = generated()
    for stale in set(RULES.glob("*.md")) - pages.keys():
        stale.unlink()
    for file, text in pages.items():
        file.write_text(text)


if __name__ == "__main__":
    main()
