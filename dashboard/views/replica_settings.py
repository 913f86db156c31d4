"""The settings of one replica, compared with the majority of its pool, and how to install the provider on it."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.compare.encoding import is_comparable, lookup_setting
from dashboard.fleet import Document, Pool, Replica, ReplicaState, Setting, SettingValue, Source, State, formatting
from dashboard.fleet.formatting import count, middle_cut, one_line, setting_text
from dashboard.fleet.pieces import Link, Piece, Style, page, plain
from dashboard.rules.behaviour.development_mode import PLUGINS, PROVIDER, PROVIDER_COMMAND, is_older
from dashboard.views import pages
from dashboard.views.blocks import Block, Cell, Column, Entries, Entry, Paragraph, Section, Table, Tone, quiet_paragraph
from dashboard.views.names import slug
from dashboard.views.pool_comparison import SettingChoice
from dashboard.views.table import Field, to_table

LONGEST = 300  # characters of a value in a cell; the page shows the whole one of a setting
TOP = "top"  # the section of settings without one, such as version
STATES = {State.REPORTED: "reported", State.NULL: "not set", **formatting.STATE_WORDS}
DIFFERS, NO_MAJORITY = "≠ ", "≠ no majority"
SAME, NOT_COMPARED = "same", "not compared"
IDENTITY_NOTE = "Identity settings must or may differ per replica. They are never compared."
PROVIDER_PATH = "/inference/v1/config"
INSTALL = f"pip install --no-deps vllm_fleet_provider-{__version__}-py3-none-any.whl"
# A shell takes these names literally. Other reported text is never part of a command line.
_NAMES = re.compile(r"[A-Za-z0-9_.-]{1,100}(,[A-Za-z0-9_.-]{1,100}){0,31}")

ABOUT = (
    "The provider is a read-only vLLM plugin. It reports the KV cache of every DP rank and GPU, and fingerprints of "
    "the block hashes, which show which replicas share prefixes."
)
HOW = (
    Piece("Run these lines in vLLM's Python environment, then restart vLLM. "),
    Piece("make wheel", Style.CODE),
    Piece(" builds the wheel."),
)
KEPT = "VLLM_PLUGINS lists every plugin that vLLM loads. Its current names are kept."
UNSET = (
    "VLLM_PLUGINS is not set. Once set, vLLM loads only the plugins in it. The second line prints an export with the "
    "plugins loaded now: run that, too."
)
UNKNOWN = (
    "VLLM_PLUGINS lists every plugin that vLLM loads. The second line prints an export with the plugins loaded now: "
    "run that, too."
)
NAMED = (
    f"VLLM_PLUGINS already has {PROVIDER}, but the provider does not answer. Check that it is installed in vLLM's "
    "Python environment, and restart vLLM."
)
NO_ANSWER = (
    f"If it does not answer: check the spelling of {PROVIDER} in VLLM_PLUGINS (no space after a comma) and the Python "
    "environment, and restart vLLM."
)
KUBERNETES = "Kubernetes: see docs/provider.md."
OLDER = "Tested with vLLM 0.26 and newer; this replica is older and may not load it."
COMPARABLE = [str(state) for state in State if is_comparable(state)]


class ReplicaComparison(NamedTuple):
    """A replica's pool, the majority of each setting that differs from it (None: no value has one), all as rows.

    `compared` counts the settings that another replica of the pool reports, `of_pool` those of any replica of it.
    """

    pool: Pool | None
    differences: Mapping[str, SettingValue | None]
    rows: pd.DataFrame
    compared: int
    of_pool: int


EVERY_SETTING = SettingChoice(only_differences=False)


def compare_with_pool(fleet: Fleet, replica: Replica) -> ReplicaComparison:
    pool = next((pool for pool in fleet.pools if pool.name == replica.pool), None)
    document = fleet.documents.get(replica.document or "")
    differences = majority_differences(pool, document) if pool and document else {}
    settings = fleet.frames.settings
    own = settings[settings["document"] == (replica.document or "")]
    ids = {each.document for each in fleet.replicas if each.pool == replica.pool and each.id != replica.id}
    others = settings[settings["document"].isin(ids - {None})]
    reported = set(others["path"][others["state"].isin(COMPARABLE)]) - set(pool.ignored if pool else ())
    rows = setting_rows(own, differences, reported if pool else ())
    compared = int((~rows["majority"].isin([NOT_COMPARED, formatting.NOT_KNOWN])).sum())
    return ReplicaComparison(pool, differences, rows, compared, len({*own["path"], *others["path"]}))


def majority_differences(pool: Pool, document: Document) -> dict[str, SettingValue | None]:
    """Return the majority of each difference of a pool in which a document does not have its value.

    Settings that it does not report are left out. Where no value has a majority, every value differs from None.
    """
    found = {}
    for difference in pool.differences:
        setting = lookup_setting(document.settings, difference.path)
        if setting is None or not is_comparable(setting.state):
            continue
        majority = difference.majority
        if majority is None or (setting.value, setting.state) != (majority.value, majority.state):
            found[difference.path] = majority
    return found


def count_differences(differences: Mapping[str, SettingValue | None]) -> int:
    """Count the differences from a majority; without a majority no side differs."""
    return sum(majority is not None for majority in differences.values())


def pool_differences(
    pools: Sequence[Pool], documents: Mapping[str, Document]
) -> Mapping[tuple[str | None, str | None], int]:
    """Return in how many settings each document differs from the majority, by pool and document."""
    return {
        (pool.name, document): count_differences(majority_differences(pool, documents[document]))
        for pool in pools
        for cohort in pool.cohorts
        for document in cohort.documents
    }


def setting_rows(
    rows: pd.DataFrame, differences: Mapping[str, SettingValue | None], reported: Collection[str] = ()
) -> pd.DataFrame:
    """Return the settings of a document, differences first, with section, majority and `text` to search in.

    `reported` are the paths that other replicas of the pool report.
    """
    rows = rows.reset_index(drop=True)
    states = [State(each) for each in rows["state"]]
    texts = [formatting.whole_text(value, state) for value, state in zip(rows["value"], states, strict=True)]
    majority = {
        path: f"{DIFFERS}{setting_text(value.value, value.state)}" if value else NO_MAJORITY
        for path, value in differences.items()
    }
    others = {
        path: formatting.NOT_KNOWN if not is_comparable(state) else SAME if path in reported else NOT_COMPARED
        for path, state in zip(rows["path"], states, strict=True)
    }
    rows = rows.assign(
        section=rows["path"].str.extract(r"^([^.]*)\.", expand=False).fillna(TOP),
        text=(rows["path"] + " " + pd.Series(texts, dtype="string")).str.lower(),
        value=[_one_line(*each) for each in zip(texts, rows["value"], states, strict=True)],
        majority=rows["path"].map({**others, **majority}).astype("string"),
        state=[STATES[each] for each in states],
        source=[formatting.SOURCE_WORDS[Source(each)] for each in rows["source"]],
        is_equal=~rows["path"].isin(majority.keys()),
    )
    return rows.sort_values(["is_equal", "path"], ignore_index=True).astype({"state": "string", "source": "string"})


def filter_settings(rows: pd.DataFrame, choice: SettingChoice) -> pd.DataFrame:
    """Return the rows of a section whose path or value contains every word of the search."""
    kept = pd.Series(data=True, index=rows.index)
    if choice.section is not None:
        kept &= (rows["section"] == choice.section).astype(bool)
    if choice.only_differences:
        kept &= rows["majority"].str.startswith(DIFFERS).astype(bool)
    for word in choice.search.lower().split():
        kept &= rows["text"].str.contains(word, regex=False).astype(bool)
    return rows[kept]


def settings_blocks(
    replica: Replica, comparison: ReplicaComparison, choice: SettingChoice = EVERY_SETTING
) -> tuple[Block, ...]:
    total = len(comparison.rows)
    if not total:
        return (Paragraph(plain("Settings not reported. The probes show the reason."), Tone.UNKNOWN),)
    rows = filter_settings(comparison.rows, choice)
    if rows.empty:
        return (Paragraph(plain(f"No matches. {count(total, 'setting')} hidden."), Tone.INFO),)
    fields = (
        Field("path", "Setting", link=lambda row: _opened(replica, row.path), is_code=True),
        Field("value", "Value", lambda row: row.value, is_code=True),
        Field("majority", "Pool majority", is_code=True, key="Most of its pool"),
        Field("state", "State"),
        Field("source", "Source", key="Told by"),
    )
    note = f"{len(rows):,} of {count(total, 'setting')}."
    return (to_table(rows, fields, f"settings-{slug(replica.name)}", "Settings", note, is_whole=True),)


def _opened(replica: Replica, path: str) -> Link:
    """Return the page of a replica with one setting, which it shows with its whole value."""
    return page(pages.REPLICA_PAGE, **{pages.REPLICA: replica.id, pages.SETTING: path})


def identity_blocks(replica: Replica) -> tuple[Block, ...]:
    rows = [(f"label {key}", text, "fleet.yaml") for key, text in sorted(replica.labels.items())]
    rows += [
        (path, _one_line(text, setting.value, setting.state), formatting.SOURCE_WORDS[setting.source])
        for path, setting in sorted(replica.identity.items())
        for text in [formatting.whole_text(setting.value, setting.state)]
    ]
    if not rows:
        return (quiet_paragraph("No labels, and no identity settings reported."),)
    columns = (Column("Setting", is_code=True), Column("Value", is_code=True), Column("Source", key="Told by"))
    cells = tuple(tuple(Cell(one_line(text)) for text in row) for row in rows)
    return (Table("identity", "Identity", columns, cells, IDENTITY_NOTE, is_whole=True),)


def _one_line(text: str, value: str, state: State) -> str:
    return middle_cut(one_line(value if "\n" in text and state is State.REPORTED else text), LONGEST)


def install_instructions(replica: Replica, settings: Mapping[str, Setting]) -> tuple[str, tuple[str, ...]] | None:
    """Return how to install the provider: lines for a shell, and remarks as sentences.

    None where it answers, may be locked, or the replica is down.
    """
    is_locked = any(probe.path.startswith(PROVIDER_PATH) and probe.failure for probe in replica.probes)
    if Source.PROVIDER in replica.sources or replica.state is ReplicaState.DOWN or is_locked:
        return None
    older = (OLDER,) if is_older(replica.version) else ()
    setting = settings.get(PLUGINS)
    is_known = setting is not None and setting.state in {State.REPORTED, State.NULL}
    names = None
    if setting is not None and is_known:
        value = json.loads(setting.value)
        listed = ",".join(name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))
        names = listed if _NAMES.fullmatch(listed) else None
    if names and PROVIDER in names.split(","):
        return INSTALL, (NAMED, *older)
    if names:
        command, remark = f"export VLLM_PLUGINS={names},{PROVIDER}", KEPT
    else:
        command, remark = PROVIDER_COMMAND, UNSET if setting is not None and setting.state is State.NULL else UNKNOWN
    return f"{INSTALL}\n{command}", (remark, NO_ANSWER, KUBERNETES, *older)


def provider_sections(replica: Replica, settings: Mapping[str, Setting]) -> tuple[Section, ...]:
    instructions = install_instructions(replica, settings)
    if instructions is None:
        return ()
    lines, remarks = instructions
    blocks = (
        Paragraph(plain(ABOUT)),
        Entries((Entry(Tone.PLAIN, HOW, snippets=(lines,)),)),
        quiet_paragraph(" ".join(remarks)),
    )
    return (Section("provider", "Install the provider on this replica", blocks, is_aside=True),)
