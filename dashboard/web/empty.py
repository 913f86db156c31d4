"""The empty states. Each says why there is nothing to see, and what to do."""

import streamlit as st

from dashboard.views import pages
from dashboard.web import links, markup

EXAMPLE = """\
name: my-fleet
targets:
  - http://10.0.0.11:8000
  - url: http://10.0.0.12:8000
    labels: {name: chat-2, pool: chat}"""

LABELLED = """\
targets:
  - url: http://10.0.0.11:8000
    labels: {pool: chat}
  - url: http://10.0.0.12:8000
    labels: {pool: chat}"""


def nothing_configured() -> None:
    """Say how to begin: no target is known."""
    _show(
        "No replicas are configured yet",
        "Name your vLLM servers in <code>fleet.yaml</code>, beside the program, and start the program again. "
        "<code>fleet.example.yaml</code> explains every option.",
        f"<pre>{markup.text(EXAMPLE)}</pre>",
    )


def no_data_yet() -> None:
    """Say that the first poll has not ended."""
    _show("Waiting for the first answers", "The first poll is under way. This page fills by itself when it ends.")


def no_pools() -> None:
    """Say how replicas that do not tell their model come into a pool: by a label."""
    title, replicas = (
        markup.bold("Say which replicas belong together."),
        markup.link(links.to(pages.REPLICAS), "Replicas"),
    )
    how = "Give each target the label <code>pool</code> in <code>fleet.yaml</code>, and start the program again."
    seen = f"Until then {replicas} shows what each of them told."
    st.html(markup.notice("unknown", f"{title} {how} {seen}<pre>{markup.text(LABELLED)}</pre>"))


def nothing_answered() -> None:
    """Say that every replica was asked and none could be compared."""
    _show(
        "There is no pool to compare",
        "No replica told which model it serves. "
        f"{markup.link(links.to(pages.OVERVIEW), 'Overview')} says why, and what to do.",
    )


def nothing_compared(why: str) -> None:
    """Say that a pool has fewer than two replicas to compare, which is not the same as that they agree."""
    glyph = markup.glyph("unknown", "not known:")
    st.html(markup.notice("unknown", f"{glyph} {markup.bold('There is nothing to compare.')} {markup.text(why)}"))


def nothing_told(where: str) -> None:
    """Say that no replica of a pool or a fleet tells its settings, and where it is said what lets them."""
    glyph, replicas = markup.glyph("unknown", "not known:"), markup.link(links.to(pages.REPLICAS), "Replicas")
    how = f"{replicas} leads to the page of each, which says how to let it tell more."
    told = markup.bold(f"No replica of this {where} tells its settings, so there is nothing to compare.")
    st.html(markup.notice("unknown", f"{glyph} {told} {how}"))


def no_such_pool(name: str) -> None:
    """Say that the address names a pool that the fleet does not have."""
    _show(f"There is no pool “{name}”", "The address names a pool that no replica belongs to now. Choose one above.")


def no_such_snapshot(why: str) -> None:
    """Say that the address names a snapshot that cannot be opened, and where the others are."""
    snapshots = markup.link(links.live(pages.SNAPSHOTS), "All snapshots")
    live = markup.link(links.live(pages.OVERVIEW), "The live fleet")
    _show("This snapshot cannot be opened", markup.text(why), f"{snapshots} · {live}")


def same_twice() -> None:
    """Say that a fleet was to be compared with itself."""
    _show("The same fleet stands on both sides", "Choose another one above to see what changed.")


def filter_hides_all(sentence: str, address: str) -> None:
    """Say that the filters leave nothing. `sentence` says of what; `address` is this page without them."""
    _show("Nothing matches these filters", markup.text(sentence), markup.link(address, "Remove the filters"))


def all_equal(found: str, compared: str, *, is_good: bool = True) -> None:
    """Say that nothing differs, which is good news unless something else is bad. `compared` says what was compared."""
    glyph = f"{markup.glyph('good', 'good:')} " if is_good else ""
    said = f"{glyph}{markup.bold(found)} {markup.text(compared)}"
    st.html(markup.notice("good" if is_good else "unknown", said))


def _show(title: str, sentence: str, more: str = "") -> None:
    st.html(f'<div class="empty"><h2>{markup.text(title)}</h2><p>{sentence}</p>{more}</div>')
