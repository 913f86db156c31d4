"""What the part below Compare's table is made of, as HTML."""

from dataclasses import replace
from html import escape

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import FindingForecast, converge
from dashboard.analysis.whatif.text import Pasted
from dashboard.fleet import Replica
from dashboard.web.whatif_view import (
    MOST_FINDINGS,
    MOST_RANKS,
    capacity_html,
    changes_html,
    findings_html,
    paste_html,
)
from tests.builders import HOSTILE, alike, devices, document, engine, fleet, replica

LARGER = {"cache_config.block_size": 32}


def test_findings_stand_below_what_would_become_of_them(demo_fleet: Fleet) -> None:
    """Each kind under its own heading, none where there is nothing of the kind."""
    drawn = findings_html(converge(demo_fleet, "chat-70b", "B"))

    assert drawn.index("<h3>On more replicas</h3>") < drawn.index("<h3>Fixed</h3>")
    assert "<h3>New</h3>" not in drawn
    assert '<li class="critical">' in drawn
    assert "1 finding of this pool would stay as it is." in drawn


def test_many_findings_are_cut_and_counted(demo_fleet: Fleet) -> None:
    """Nothing is left out in silence."""
    what = converge(demo_fleet, "chat-70b", "A")
    many = replace(what, verdicts=FindingForecast(came=what.verdicts.gone * 4, stay=2))
    drawn = findings_html(many)

    assert drawn.count("<li class=") == MOST_FINDINGS
    assert "16 more: the export has all." in drawn
    assert "2 findings of this pool would stay as they are." in drawn


def test_ranks_show_now_and_then_with_their_source() -> None:
    """Of replicas with several ranks the rank is named; of many rows the rest is counted."""
    told = document(), document(LARGER)
    two = (engine(500), engine(600, dp_rank=1))
    odd = [replica(f"odd-{each}", pool="chat", document=told[1], engines=two) for each in range(10)]
    before = fleet([*alike("chat", 12, told[0]), *odd], told)
    drawn = capacity_html(converge(before, "chat", "A"), {each.id: each.name for each in before.replicas})

    assert "odd-0, rank 1" in drawn
    assert "+1,199,500" in drawn
    assert drawn.count("<tr>") == MOST_RANKS + 1
    assert "8 more DP ranks not shown. Tokens then: based on 12 identical engines on NVIDIA H100" in drawn


def test_the_source_of_all_ranks_stands_once_and_several_stand_beside_their_ranks() -> None:
    """The same sentence on each row says nothing; one row keeps it beside its number."""
    told = document(), document(LARGER)
    same = [replica(f"odd-{each}", pool="chat", document=told[1], engines=(engine(500),)) for each in range(3)]
    other = replica("odd-9", pool="chat", document=told[1], engines=(engine(500),), devices=devices(4, "NVIDIA H200"))

    def drawn(*odd: Replica) -> str:
        before = fleet([*alike("chat", 6, told[0]), *odd], told)
        return capacity_html(converge(before, "chat", "A"), {each.id: each.name for each in before.replicas})

    once, each, alone = drawn(*same), drawn(*same, other), drawn(same[0])
    assert once.count("Tokens then: based on 6 identical engines on NVIDIA H100") == 1
    assert "Based on 6 identical engines" not in once
    assert ">From<" not in once
    assert each.count("Based on 6 identical engines on NVIDIA H100") == 3
    assert each.count("No identical engine on NVIDIA H200") == 1
    assert ">From<" in each
    assert '<span class="mute">Based on 6 identical engines' in alone


def test_settings_say_how_they_are_set_and_stay_text() -> None:
    """What is foreign is escaped."""
    told = document(), document({**LARGER, HOSTILE: HOSTILE, "cache_config.hash_block_size": 32})
    hostile = document({HOSTILE: "x"})
    before = fleet([*alike("chat", 3, hostile), replica("chat-9", document=told[1])], [hostile, told[1]])
    (group,) = converge(before, "chat", "A").groups
    drawn = changes_html(group)

    assert "<script>" not in drawn
    assert "<img" not in drawn
    assert "derived: no flag" in drawn
    assert '<span class="mute">flag</span>' in drawn


def test_what_is_pasted_keeps_its_lines_and_stays_text() -> None:
    """Line by line as it is, a value that looks like HTML shown as it reads, with a button that says what it copies."""
    drawn = paste_html(Pasted("Flags", f"--one\n  --two {HOSTILE}", "bash"))

    assert f"<pre><code>--one\n  --two {escape(HOSTILE)}</code></pre>" in drawn
    assert HOSTILE not in drawn
    assert 'aria-label="Copy Flags"' in drawn
