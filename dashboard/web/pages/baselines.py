"""The dialog of Compare for baselines: download one, and check the fleet against a file as `check --baseline` does."""

from dataclasses import replace

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import service
from dashboard.access import audit
from dashboard.analysis.assembly import Fleet, inspected
from dashboard.compare import Reference
from dashboard.config.baseline_file import baseline_yaml, find_settings
from dashboard.config.baselines import merge_baselines, read_baseline
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.errors import OptionsError
from dashboard.fleet import Baseline, Pool
from dashboard.fleet.formatting import count, middle_cut
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.render.verdict import BASELINE_RULE, incomplete, unused, verdict_of
from dashboard.rules.findings import Severity
from dashboard.rules.sentences import capital
from dashboard.views import pages
from dashboard.views.blocks import Block, Paragraph, Tone
from dashboard.views.context import context_line, context_of
from dashboard.views.finding_list import fix_groups, full_entries, list_findings
from dashboard.web import draw, links, markup, sessions

LONGEST_NAME = 60  # characters of what a baseline is made of
MOST_MISTAKES = 20  # of a file that are listed
MIN_COVERAGE = 100  # percent, as of `check` without options
MIB = 2**20
NEXT = (
    "Edit the file, keep it in version control, and list it under <code>baselines</code> in <code>fleet.yaml</code>: "
    "every replica of the pool is then compared with it. In CI: "
)
ANOTHER = "Check against another file"
CHECK = "Check against a baseline"


def offer(fleet: Fleet, pool: Pool, reference: Reference) -> None:
    """Draw the button of the dialog; nothing where no replica of the pool was ever read."""
    if find_settings(fleet, pool, _chosen(pool, reference)) is not None:
        st.button("Baseline", key="baseline_offer", on_click=_open, help="Download a baseline, or check against one.")


def draw_dialog(fleet: Fleet, pool: Pool, reference: Reference) -> None:
    """Draw the download of a baseline of the reference, and the check of the whole fleet against a file."""
    found = find_settings(fleet, pool, _chosen(pool, reference))
    if found is not None:
        settings, source = found
        file = f"{links.make_file_name(pool.name)}.yaml"
        context = context_line(context_of(fleet))
        st.html(markup.section("Create a baseline"))
        visitor = sessions.visitor()  # the file is made outside of the session

        def export() -> str:
            with audit.performed("export", visitor, file=file):
                return baseline_yaml(pool.name, settings, source=source, context_line=context)

        st.download_button(
            "Download baseline",
            data=export,
            file_name=file,
            mime="application/yaml",
            key="baseline_download",
            on_click="ignore",
            **sessions.control("export"),
        )
        whose = f"Settings of {markup.text(middle_cut(source, LONGEST_NAME))}."
        st.html(f'<p class="mute">{whose} {NEXT}{markup.code(f"python -m dashboard check --baseline {file}")}</p>')
    own = fleet.policy.baseline(pool.name)
    st.html(markup.section(CHECK))
    if own is not None:
        draw.draw_blocks(check_blocks(fleet, own), "baseline_own")
    uploaded = st.file_uploader(
        ANOTHER if own else "Baseline file",
        type=["yaml", "yml"],
        max_upload_size=max(MAX_DOCUMENT_BYTES // MIB, 1),
        key="baseline_file",
    )
    if uploaded is not None:
        _draw_check(fleet, uploaded)


def check_blocks(fleet: Fleet, baseline: Baseline) -> tuple[Block, ...]:
    """Return the deviations, and what `check --baseline` says of the fleet. Raise OptionsError for two of one pool."""
    at, today = fleet.polled_at or service.now(), service.now().date()
    policy = replace(fleet.policy, baselines=merge_baselines(fleet.policy.baselines, (baseline,)))
    checked = inspected(replace(fleet, policy=policy), at, today)
    is_saved = fleet.snapshot is not None or fleet.past is not None
    unread = () if is_saved else fleet.discovery_errors
    verdict = verdict_of(checked, Severity.CRITICAL, MIN_COVERAGE, unread, (baseline.file,))
    deviations = [
        each
        for each in list_findings(checked).active
        if each.finding.rule == BASELINE_RULE and any(one.holder == baseline.file for one in each.finding.evidence)
    ]
    files = (baseline.file,)
    partial = incomplete(checked, files)
    replicas = {replica for each in deviations for replica in each.finding.replicas}
    tone, answer = Tone.UNKNOWN if partial else Tone.GOOD, f"No deviation from {baseline.file}"
    if deviations:
        tone = Tone.CRITICAL
        answer = f"{count(len(deviations), 'deviation')} from {baseline.file} on {count(len(replicas), 'replica')}"
    elif missing := unused(checked, files):
        tone, answer = Tone.UNKNOWN, capital("; ".join(missing))
    answer = "; ".join((answer, *partial))
    command = Piece(f"check --baseline {baseline.file}", Style.CODE)
    return (
        Paragraph(plain(f"{answer}."), tone),
        *((full_entries(fix_groups(deviations), checked),) if deviations else ()),
        Paragraph(
            (Piece("In CI, for the whole fleet: ", Style.MUTED), command, Piece(f" {verdict.sentence}", Style.MUTED))
        ),
    )


def _draw_check(fleet: Fleet, uploaded: UploadedFile) -> None:
    baseline, mistakes = read_baseline(uploaded.getvalue(), uploaded.name)
    wrong = [f"{uploaded.name}:{line}: {text}" for line, text in mistakes]
    if baseline is not None:
        try:
            draw.draw_blocks(check_blocks(fleet, baseline), "baseline_check")
        except OptionsError as error:
            wrong = list(error.mistakes)
    more = [f"and {count(len(wrong) - MOST_MISTAKES, 'more mistake')}"] if len(wrong) > MOST_MISTAKES else []
    for sentence in (*wrong[:MOST_MISTAKES], *more):
        st.html(markup.notice("warning", markup.text(sentence)))


def _open() -> None:
    st.query_params[pages.CHECK] = pages.BASELINE


def _chosen(pool: Pool, reference: Reference) -> str:
    """Return the key of the reference, else the letter of the largest cohort."""
    return reference.key or next((each.letter for each in pool.cohorts), "")
