"""Write what is generated under docs/; a test fails when it is stale."""

import json
from pathlib import Path
from typing import Any

from dashboard.render.json_document import report_schema
from dashboard.report.changes.document import changes_schema
from dashboard.report.findings.document import findings_schema
from dashboard.report.fleet.document import json_schema
from dashboard.report.rules.page import NOTE, page_path, rule_index, rule_page
from dashboard.rules.catalogue import ALL_RULES
from tests.tools import command_line, config_api

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "fleet.schema.json"
FINDINGS_SCHEMA = SCHEMA.with_name("findings.schema.json")
CHANGES_SCHEMA = SCHEMA.with_name("changes.schema.json")
REPORT_SCHEMA = SCHEMA.with_name("report.schema.json")
RULES = SCHEMA.with_name("rules")


def schema_text() -> str:
    """Return the JSON Schema of the fleet document as it is committed."""
    return _written(json_schema())


def findings_schema_text() -> str:
    """Return the JSON Schema of the document of findings as it is committed."""
    return _written(findings_schema())


def changes_schema_text() -> str:
    """Return the JSON Schema of the document of changes as it is committed."""
    return _written(changes_schema())


def report_schema_text() -> str:
    """Return the JSON Schema of a report as it is committed."""
    return _written(report_schema())


def rule_pages() -> dict[Path, str]:
    """Return the page of every rule and their index, by file."""
    pages = {ROOT / page_path(rule.id): rule_page(rule) for rule in ALL_RULES}
    return {file: f"{NOTE}\n\n{text}" for file, text in {**pages, RULES / "README.md": rule_index(ALL_RULES)}.items()}


def _written(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write all of it, and remove the pages of rules that are no more."""
    RULES.mkdir(exist_ok=True)
    pages = rule_pages()
    for stale in set(RULES.glob("*.md")) - pages.keys():
        stale.unlink()
    schemas = {SCHEMA: schema_text(), FINDINGS_SCHEMA: findings_schema_text(), REPORT_SCHEMA: report_schema_text()}
    schemas |= {CHANGES_SCHEMA: changes_schema_text()}
    api = {
        config_api.OPENAPI: config_api.openapi_text(),
        config_api.PAGE: config_api.page_text(config_api.PAGE.read_text()),
    }
    commands = {command_line.PAGE: command_line.page_text()}
    for file, text in {**schemas, **api, **commands, **pages}.items():
        file.write_text(text)


if __name__ == "__main__":
    main()
