"""The page of a rule, as HTML of our own."""

from dataclasses import replace

import pytest

from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import ImpactContext
from dashboard.rules.registry import Rule, page_of
from dashboard.web.findings_rule import marked, rule_html

WORDS = """Something is <wrong>.

Why it matters:
    - any pool: It hurts `--a < b`.
    - kv-store: It hurts more.

How to fix:
    Do this.

    Then that.

Evidence:
    - some/repo.name#12 (what it says)
    - vllm/v1/x.py, see (https://docs.vllm.ai/x) too

Example:
    Two replicas.

        vllm serve --a <b>
        vllm serve
"""


def shown(here: ImpactContext | None = None) -> str:
    """The page of a rule with these words."""
    return rule_html(replace(BY_ID["RT-01"], page=page_of(WORDS)), here)


def test_every_part_that_is_there_has_its_heading() -> None:
    """Without exceptions there is no heading for them."""
    assert [part in shown() for part in ("Why it matters", "How to fix", "Example", "Evidence", "Exceptions")] == [
        True,
        True,
        True,
        True,
        False,
    ]
    assert "<p>Do this.</p><p>Then that.</p>" in shown()


def test_text_is_escaped_and_backticks_are_code() -> None:
    """Also inside code."""
    assert "Something is &lt;wrong&gt;." in shown()
    assert "It hurts <code>--a &lt; b</code>." in shown()
    assert marked("a ` b") == "a ` b"


def test_what_is_typed_keeps_its_lines() -> None:
    """An indented paragraph is something to type; one that is not flows."""
    assert "<p>Two replicas.</p><pre>vllm serve --a &lt;b&gt;\nvllm serve</pre>" in shown()


def test_threads_and_addresses_are_links_that_open_apart() -> None:
    """The dashboard stays where it is; a file's path is no thread."""
    thread = (
        '<a href="https://github.com/some/repo.name/issues/12" target="_blank" rel="noopener">some/repo.name#12</a>'
    )

    assert f"{thread} (what it says)" in shown()
    assert '(<a href="https://docs.vllm.ai/x" target="_blank" rel="noopener">https://docs.vllm.ai/x</a>) too' in shown()
    assert "<li>vllm/v1/x.py" in shown()


def test_the_reason_that_counts_here_is_marked() -> None:
    """Only that one, and how bad it makes the rule."""
    html = shown(ImpactContext.KV_STORE)

    assert '<b>kv-store</b> <span class="mute">critical</span> <span class="tag">here</span>: It hurts more.' in html
    assert html.count(">here<") == 1
    assert ">here<" not in shown()


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_rule_can_be_shown(rule: Rule) -> None:
    """No mark of a docstring is left over."""
    html = rule_html(rule)

    assert "`" not in html
    assert html.count("<pre>") == html.count("</pre>")
