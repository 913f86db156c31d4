"""A rule's page as Markdown: the output of `rules ID`, and docs/rules/ID.md."""

import json
import re
from typing import Any

from dashboard.rules.registry import Rule, Scope

FOLDER = "docs/rules"
SCOPES = {
    Scope.POOL: "the replicas of one pool",
    Scope.PAIR: "the prefill and the decode pool of one model",
    Scope.FLEET: "all replicas of all pools",
    Scope.TRAFFIC: "the replicas of one pool, by what vLLM counted there",
}
_ISSUE = re.compile(r"(?<![\w/.-])([A-Za-z0-9][\w.-]*/[\w.-]+)#(\d+)\b")
_LINK = r"[\1#\2](https://github.com/\1/issues/\2)"


def page_path(rule_id: str) -> str:
    return f"{FOLDER}/{rule_id}.md"


def rule_page(rule: Rule) -> str:
    page = rule.page
    parts = [
        f"# {rule.id}: {rule.name}",
        page.problem,
        f"Family: {rule.family}. Scope: {SCOPES[rule.scope]}.",
        "## Why it matters",
        _severities(rule),
        "## How to fix",
        page.fix,
        "## Exceptions",
        page.exceptions,
        "## Example",
        page.example,
        "## Settings",
        _needs(rule),
        *_parameters(rule),
        "## Change or suppress it",
        _options(rule),
        "## Evidence",
        "\n".join(f"- {_ISSUE.sub(_LINK, line)}" for line in page.evidence),
    ]
    return "\n\n".join(parts) + "\n"


def headline(rule: Rule) -> str:
    return rule.page.problem.split("\n\n")[0]


def worst(rule: Rule) -> str:
    return min(rule.severity.values(), key=lambda severity: severity.rank)


def severities(rule: Rule) -> str:
    """Return the severities by impact context, the worst first: `prefix-hash critical, any pool warning`."""
    by_rank = sorted(rule.severity.items(), key=lambda each: each[1].rank)
    return ", ".join(f"{context} {severity}" for context, severity in by_rank)


def _severities(rule: Rule) -> str:
    rows = [
        f"| {context} | {severity} | {table_cell(rule.page.why.get(context, ''))} |"
        for context, severity in rule.severity.items()
    ]
    return "\n".join(["| context | severity | reason |", "| --- | --- | --- |", *rows])


def _needs(rule: Rule) -> str:
    if rule.needs_baseline:
        return "Skipped unless a replica reports a setting of the pool's baseline; n/a without a baseline."
    if rule.scope is Scope.TRAFFIC:
        return "Skipped unless counters of enough traffic were read over a whole window: option `traffic`."
    names = "\n".join(f"- `{need}`" for need in rule.needs)
    replicas = "one replica reports" if rule.least == 1 else f"{rule.least} replicas report"
    return f"Skipped unless at least {replicas} one of these:\n\n{names}" if names else "Never skipped."


def _parameters(rule: Rule) -> list[str]:
    if not rule.parameters:
        return []
    rows = [f"| `{name}` | `{_written(value)}` |" for name, value in rule.parameters.items()]
    return ["## Parameters", "\n".join(["| parameter | default |", "| --- | --- |", *rows])]


def _options(rule: Rule) -> str:
    milder = f"severity: {min(rule.severity.values(), key=lambda each: each.rank).milder}"
    parameters = [
        f"    parameters: {{{', '.join(f'{name}: {_written(value)}' for name, value in rule.parameters.items())}}}"
    ]
    lines = [
        "```yaml",
        "# fleet.yaml",
        "rules:",
        f"  {rule.id}:",
        f"    {milder}",
        *(parameters if rule.parameters else []),
        "    # enabled: false    # disables the rule",
        "suppress:",
        f"  - rule: {rule.id}",
        "    pool: chat-70b      # or replicas: [...], or labels: {...}; none of them: the whole fleet",
        "    owner: your name",
        "    reason: why this is accepted",
        "    until: 2030-01-31   # the last day",
        "```",
    ]
    return "\n".join(lines)


def table_cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
