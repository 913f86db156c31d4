"""A rule's page as Markdown: what `rules ID` prints, and docs/rules/ID.md holds."""

import json
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dashboard.rules.registry import Rule, Scope

FOLDER = "docs/rules"
SCOPES = {
    Scope.POOL: "the replicas of one pool",
    Scope.PAIR: "the prefill and the decode pool of one model",
    Scope.FLEET: "all replicas of all pools",
}
NOTE = "<!-- Written by `make docs` from the rule's docstring. -->"
_ISSUE = re.compile(r"(?<![\w/.-])([A-Za-z0-9][\w.-]*/[\w.-]+)#(\d+)\b")


def page_path(rule_id: str) -> str:
    """Return where a rule's page stands in the repository."""
    return f"{FOLDER}/{rule_id}.md"


def rule_page(rule: Rule) -> str:
    """Write one rule's page."""
    page = rule.page
    parts = [
        f"# {rule.id}: {rule.name}",
        page.problem,
        f"Family: {rule.family}. It looks at {SCOPES[rule.scope]}.",
        "## Why it matters",
        _severities(rule),
        "## How to fix",
        page.fix,
        "## Exceptions",
        page.exceptions,
        "## Example",
        page.example,
        "## What it reads",
        _needs(rule),
        *_parameters(rule),
        "## Change or suppress it",
        _options(rule),
        "## Evidence",
        "\n".join(f"- {_linked(line)}" for line in page.evidence),
    ]
    return "\n\n".join(parts) + "\n"


def rule_index(rules: Iterable[Rule]) -> str:
    """Write the index of all pages, by family."""
    parts = [
        "# Rules",
        "One page for each rule. How bad a finding is depends on what the pool shares; `fleet.yaml` can change it.",
    ]
    for family, members in groupby(rules, key=lambda rule: rule.family):
        rows = [
            f"| [{rule.id}]({rule.id}.md) | {rule.name} | {worst(rule)} | {_cell(headline(rule))} |" for rule in members
        ]
        head = "| rule | name | at worst | problem |\n| --- | --- | --- | --- |"
        parts += [f"## {str(family).capitalize()}", "\n".join([head, *rows])]
    return "\n\n".join(parts) + "\n"


def headline(rule: Rule) -> str:
    """Return the problem in one sentence: the first paragraph of it."""
    return rule.page.problem.split("\n\n")[0]


def worst(rule: Rule) -> str:
    """Return the worst severity that a rule can have."""
    return min(rule.severity.values(), key=lambda severity: severity.rank)


def severities(rule: Rule) -> str:
    """Write the severities by facet on one line, the worst first: `prefix-hash critical, any pool warning`."""
    by_rank = sorted(rule.severity.items(), key=lambda each: each[1].rank)
    return ", ".join(f"{facet} {severity}" for facet, severity in by_rank)


def _severities(rule: Rule) -> str:
    rows = [
        f"| {facet} | {severity} | {_cell(rule.page.why.get(facet, ''))} |" for facet, severity in rule.severity.items()
    ]
    return "\n".join(["| where | severity | because |", "| --- | --- | --- |", *rows])


def _needs(rule: Rule) -> str:
    if rule.holds_to_baseline:
        return "Skipped unless a replica tells a setting of the pool's baseline. Without a baseline it does not apply."
    names = "\n".join(f"- `{need}`" for need in rule.needs)
    replicas = "one replica tells" if rule.least == 1 else f"{rule.least} replicas tell"
    return f"Skipped unless at least {replicas} one of these:\n\n{names}" if names else "It is never skipped."


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
        "    # enabled: false    # leaves the rule out altogether",
        "suppress:",
        f"  - rule: {rule.id}",
        "    pool: chat-70b      # or replicas: [...], or labels: {...}; leave all out for the whole fleet",
        "    owner: your name",
        "    reason: why this is all right",
        "    until: 2030-01-31   # from the day after, the finding counts again",
        "```",
    ]
    return "\n".join(lines)


def _linked(line: str) -> str:
    return _ISSUE.sub(r"[\1#\2](https://github.com/\1/issues/\2)", line)


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
