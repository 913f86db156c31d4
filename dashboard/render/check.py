"""The formats of `check`."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.findings import findings_json
from dashboard.render.github_annotations import to_github_annotations
from dashboard.render.junit import to_junit
from dashboard.render.markdown import to_markdown
from dashboard.render.sarif import to_sarif
from dashboard.render.terminal import to_terminal
from dashboard.render.verdict import Verdict
from dashboard.rules.findings import Severity
from dashboard.views.check import check_view


class CheckFormat(StrEnum):
    """What the findings of a fleet can be written as."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


class Checked(NamedTuple):
    """A fleet and its verdict, at which time, from which file of options, and the terminal that shows it."""

    fleet: Fleet
    verdict: Verdict
    fail_on: Severity | None
    at: datetime
    options: str = "fleet.yaml"
    width: int = 120
    colour: bool = False


CHECK_WRITERS: Mapping[CheckFormat, Callable[[Checked], str]] = {
    CheckFormat.TABLE: lambda each: to_terminal(check_view(each.fleet), width=each.width, colour=each.colour),
    CheckFormat.JSON: lambda each: f"{findings_json(each.fleet, each.at, indent=2).decode()}\n",
    CheckFormat.MARKDOWN: lambda each: to_markdown(check_view(each.fleet)),
    CheckFormat.JUNIT: lambda each: to_junit(each.fleet, each.fail_on, each.verdict),
    CheckFormat.SARIF: lambda each: to_sarif(each.fleet, each.verdict, each.options),
    CheckFormat.GITHUB: lambda each: to_github_annotations(each.fleet, each.verdict),
}
