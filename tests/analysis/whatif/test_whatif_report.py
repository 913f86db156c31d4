"""A what-if as parts of a report: what the page says, and what it leaves out for want of room."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import FindingForecast, converge
from dashboard.fleet.pieces import to_plain
from dashboard.render.html_page import to_html
from dashboard.render.markdown import to_markdown
from dashboard.views.blocks import Entries, Paragraph, Section, Table, View
from dashboard.views.context import context_of
from dashboard.views.whatif import MOST_RANKS, whatif_section
from tests.builders import HOSTILE, alike, document, fleet, replica


def text(part: Section) -> str:
    """Return what the paragraphs of a part say."""
    return " ".join(to_plain(each.line) for each in part.blocks if isinstance(each, Paragraph))


def report(fleet: Fleet, parts: tuple[Section, ...]) -> View:
    """Return a report of these parts only."""
    return View("Compare", "What if", "", context_of(fleet), parts)


def test_it_holds_the_answer_the_findings_the_capacity_and_what_to_paste(demo_fleet: Fleet) -> None:
    """In the order of the page."""
    part = whatif_section(demo_fleet, converge(demo_fleet, "chat-70b", "A"))

    assert (part.anchor, part.title) == ("what-if", "What if all were like cohort A")
    assert text(part).startswith("2 of 17 replicas would restart; ")
    assert "Read-only: paste" in text(part)
    assert [each.title.partition(":")[0] for each in part.parts] == ["Fixed", "KV cache", "1 replica", "1 replica"]
    gone = part.parts[0].blocks[0]
    assert isinstance(gone, Entries)
    assert [each.tone for each in gone.items][:2] == ["critical", "critical"]


def test_going_back_on_a_rollout_comes_first_and_the_rest_after_the_image(demo_fleet: Fleet) -> None:
    """As on the page."""
    back = whatif_section(demo_fleet, converge(demo_fleet, "gemma-27b", "A"))
    on = whatif_section(demo_fleet, converge(demo_fleet, "gemma-27b", "B"))

    assert text(back).startswith("Reverts a rollout: gemma-27b is in rollout 0.32.0 → 0.32.1. 2 of 8 ")
    written = to_markdown(report(demo_fleet, (on,)))
    assert written.index("Change the image first") < written.index("After the restart, look again")
    assert written.index("After the restart, look again") < written.rindex("--enable-prefix-caching")


def test_what_a_router_must_know_comes_before_what_would_go(demo_fleet: Fleet) -> None:
    """In a document too it is a warning, not the last line."""
    part = whatif_section(demo_fleet, converge(demo_fleet, "chat-70b", "C"))
    first = part.blocks[0]

    assert isinstance(first, Paragraph)
    assert first.tone == "warning"
    assert text(part).startswith("Reconfigure a prefix-aware router: block size 16 → 32")


def test_anchors_are_unique_and_it_can_be_written(demo_fleet: Fleet) -> None:
    """As HTML and as Markdown, snippets whole."""
    part = whatif_section(demo_fleet, converge(demo_fleet, "chat-70b", "B"))
    anchors = [part.anchor, *(each.anchor for each in part.parts)]

    assert len(set(anchors)) == len(anchors)
    for written in (to_html(report(demo_fleet, (part,))), to_markdown(report(demo_fleet, (part,)))):
        assert "--kv-offloading-size 64 \\\n" in written
        assert "\n--prefix-caching-hash-algo xxhash" in written.replace("\n  ", "\n")
        assert "servingEngineSpec" in written


def test_nothing_to_do_is_a_report_too(demo_fleet: Fleet) -> None:
    """One sentence, without parts for what is not there."""
    part = whatif_section(demo_fleet, converge(demo_fleet, "deepseek-v3/decode", "A"))

    assert text(part).startswith("No replica would restart")
    assert part.parts == ()


def test_a_finding_without_replicas_and_a_group_without_anything_to_paste_are_written() -> None:
    """Nothing is drawn where there is nothing."""
    told = document(), document({"cache_config.hash_block_size": 32})
    before = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=told[1])], told)
    what = converge(before, "chat", "A")
    limit = document({"model_config.max_logprobs": 5})
    other = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=limit)], [told[0], limit])
    nobody = replace(other.inspection.findings[0], replicas=())
    part = whatif_section(before, replace(what, verdicts=FindingForecast(came=(nobody,))))

    assert "Nothing to paste." in text(part.parts[-1])
    came = part.parts[0].blocks[0]
    assert isinstance(came, Entries)
    assert len(came.items[-1].lines) == 1


def test_many_ranks_are_cut_and_counted() -> None:
    """A report stays readable."""
    told = document(), document({"cache_config.block_size": 32})
    odd = [replica(f"odd-{each}", pool="chat", document=told[1]) for each in range(MOST_RANKS + 1)]
    before = fleet([*alike("chat", 3, told[0]), *odd], told)
    what = converge(before, "chat", "B")
    part = whatif_section(before, what)
    table = next(each for own in part.parts for each in own.blocks if isinstance(each, Table))

    assert len(table.rows) == MOST_RANKS
    assert table.note.endswith("1 more DP rank not listed.")


def test_foreign_text_stays_text() -> None:
    """Names, pools, paths and values."""
    told = [document({"model_config.tokenizer": HOSTILE, HOSTILE: index}) for index in range(2)]
    members = [replica(f"{HOSTILE}{index}", pool=HOSTILE, document=each) for index, each in enumerate(told)]
    before = fleet(members, told)
    written = to_html(report(before, (whatif_section(before, converge(before, HOSTILE, "A")),)))

    assert "<script>" not in written
    assert "<img" not in written
