"""Write what is generated under docs/; a test fails when it is stale."""

from __future__ import annotations

import json
from pathlib import Path

from dashboard.report.document import json_schema

SCHEMA = Path(__file__).parents[2] / "docs" / "fleet.schema.json"


def schema_text() -> str:
    """Return the JSON Schema of the fleet document as it is committed."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text())
