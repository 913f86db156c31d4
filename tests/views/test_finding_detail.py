"""One finding on its page: replicas by cohort, evidence with its reference, remarks, fix, rule."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dashboard.fleet.pieces import Kind, Style, Text, to_plain
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Evidence, Severity
from dashboard.rules.registry import Rule
from dashboard.views.blocks import Banner, Cell, Entries, Paragraph, Section, Table, Tone
from dashboard.views.finding_list import FindingList, list_findings
from dashboard.views.findings import MOST_COHORTS, MOST_VALUES, finding_section, replica_text
from dashboard.views.rules import rule_section
from dashboard.web import draw
from tests.builders import HOSTILE, story
from tests.findings_builder import BLOCK_SIZE, evidence, finding, inspected_story, suppression, with_findings
from tests.rules.made_up import text_of

FLEET = story()
IDS = tuple(each.id for each in FLEET.replicas if each.pool == "chat-70b")
NAMES = {each.id: each.name for each in FLEET.replicas}
POOLS = {each.id: each.pool for each in FLEET.replicas if each.pool}
WORDS = text_of(
    {"any pool": ("warning", "It hurts `--a < b`."), "kv-store": ("critical", "It hurts more.")},
    fix="Do this.\n\nThen that.",
    evidence=("some/repo.name#12 (what it says)", "vllm/v1/x.py, see (https://docs.vllm.ai/x) too"),
)


def section_of(found: object, built: object = FLEET) -> Section:
    """The section of one finding of a fleet."""
    fleet = with_findings(built, found)  # type: ignore[arg-type]
    known = list_findings(fleet)
    return finding_section(fleet, known, known.active[0], ())


def rows(*values: Evidence, **more: Any) -> list[tuple[Cell, ...]]:
    """The rows of the evidence of a warning."""
    return list(table_of(section_of(finding(FLEET, evidence=values, severity=Severity.WARNING, **more))).rows)


def table_of(section: Section) -> Table:
    table = next(each for each in section.parts if each.anchor == "evidence").blocks[0]
    assert isinstance(table, Table)
    return table


def replicas(
    ids: tuple[str, ...], letters: Mapping[str, str], most: int = 60, pools: Mapping[str, str] = POOLS
) -> Text:
    known = FindingList((), (), NAMES, pools, letters, (), {})
    return replica_text(ids, known, most)


def test_the_reference_is_tagged_and_values_that_differ_have_the_severity() -> None:
    odd, reference = rows(evidence(replicas=IDS[16:17]), evidence(value="16", replicas=IDS[:16], is_reference=True))

    assert (to_plain(odd[1].pieces), odd[1].tone) == ("32", Tone.WARNING)
    assert (to_plain(reference[1].pieces), reference[1].tone) == ("16 reference", Tone.PLAIN)


def test_without_a_reference_of_the_same_setting_no_value_differs() -> None:
    assert {row[1].tone for row in rows(evidence(), evidence(value="16"))} == {Tone.PLAIN}
    other = rows(evidence("devices.name", '"H200"'), evidence(value="16", is_reference=True))
    assert other[0][1].tone is Tone.PLAIN


def test_the_rarest_value_is_first_equally_rare_ones_by_their_replica_and_the_reference_last() -> None:
    known = rows(
        evidence(value="16", replicas=IDS[:9], is_reference=True),
        evidence(value="64", replicas=IDS[10:12]),
        evidence(value="8", replicas=IDS[13:14]),
        evidence(value="32", replicas=IDS[12:13]),
    )
    assert [to_plain(row[1].pieces) for row in known] == ["32", "8", "64", "16 reference"]


def test_replicas_are_listed_by_cohort_with_a_link_to_the_rest() -> None:
    letters = {**dict.fromkeys(IDS[:15], "A"), IDS[15]: "B"}
    text = replicas(IDS[:17], letters, 3)

    assert to_plain(text).split("\n") == [
        "A ×15 chat-70b-01, chat-70b-02, chat-70b-03 and 12 more",
        "B chat-70b-16",
        "not reported chat-70b-17",
    ]
    assert [(each.link.kind, each.link.key) for each in text if each.link][:2] == [
        (Kind.COHORT, "A"),
        (Kind.REPLICA, IDS[0]),
    ]
    assert to_plain(replicas(IDS[:16], {**letters, IDS[14]: "B"}, 3)).endswith("B ×2 show them")


def test_replicas_never_read_are_linked_to_their_pool_and_removed_ones_are_counted() -> None:
    rest = next(each for each in replicas(IDS[:5], {}, 3) if each.text == "and 2 more")
    unlinked = next(each for each in replicas(IDS[:5], {}, 3, {}) if each.text == "and 2 more")

    assert rest.link is not None
    assert (rest.link.key, rest.link.choices) == ("replicas", (("pool", "chat-70b"),))
    assert (unlinked.link, unlinked.style) == (None, Style.MUTED)
    assert to_plain(replicas(IDS[:5], {}, 0, {})) == "not reported ×5"


def test_cohorts_of_two_pools_are_separate_and_many_cohorts_are_counted() -> None:
    pair = tuple(each.id for each in FLEET.replicas if (each.pool or "").startswith("deepseek"))
    many = tuple(f"id-{number}" for number in range(MOST_COHORTS + 5))
    letters = {each: "A" * (number + 1) for number, each in enumerate(many)}

    assert to_plain(replicas(pair, dict.fromkeys(pair, "A"))).count("A ×") == 2
    lines = to_plain(replicas(many, letters, 60, {})).split("\n")
    assert len(lines) == MOST_COHORTS + 1
    assert lines[-1] == "and 5 replicas in other cohorts"


@pytest.mark.parametrize(
    ("path", "kind", "key"),
    [
        (BLOCK_SIZE, Kind.SETTING, BLOCK_SIZE),
        ("engines.kv_cache_size_tokens", Kind.PAGE, "capacity"),
        ("devices.name", Kind.PAGE, "capacity"),
        ("replicas.reason", Kind.PAGE, "replicas"),
    ],
)
def test_a_value_is_linked_to_the_page_that_shows_it(path: str, kind: Kind, key: str) -> None:
    ((cell, *_),) = rows(evidence(path, "1"))

    assert cell.link is not None
    assert (cell.link.kind, cell.link.key) == (kind, key)
    assert cell.link.pool == "chat-70b" or cell.link.choices == (("pool", "chat-70b"),)


def test_a_path_is_written_once_and_a_route_is_not_linked() -> None:
    first, second, route = rows(evidence(), evidence(value="16"), evidence("/server_info", '"answers"'))

    assert (first[0].text, second[0].text, second[0].hint) == (BLOCK_SIZE, "", BLOCK_SIZE)
    assert route[0].link is None
    ((cell, *_),) = rows(evidence("replicas.host", "1"), pools=())
    assert cell.link is not None
    assert cell.link.choices == ()


def test_many_and_long_values_are_cut() -> None:
    many = finding(FLEET, evidence=tuple(evidence(value=str(number)) for number in range(MOST_VALUES + 5)))
    ((_, value, _),) = rows(evidence(value=f'"{"x" * 100_000}"'))

    assert table_of(section_of(many)).note == "5 more values: see Compare."
    assert len(table_of(section_of(many)).rows) == MOST_VALUES
    assert len(to_plain(value.pieces)) < 200


def test_the_fix_is_before_the_evidence_and_short_ranks_are_in_the_units_of_capacity_with_a_link_to_it() -> None:
    section = section_of(finding(FLEET, evidence=(evidence("engines.kv_cache_bytes_per_device", "7524161228"),)))
    table, (_, link) = table_of(section), next(each for each in section.parts if each.anchor == "evidence").blocks

    titles = [each.title for each in section.parts]
    assert titles[:4] == ["What to do", "Effect, measured", "Why it matters here", "Evidence"]
    assert to_plain(table.rows[0][1].pieces) == "7.0 GiB"
    assert isinstance(link, Paragraph)
    assert [(each.link.key, each.link.choices) for each in link.line if each.link] == [
        ("capacity", (("pool", "chat-70b"),))
    ]


def test_a_group_has_the_problem_of_its_rule_the_values_of_every_pool_and_all_replicas_to_copy() -> None:
    found = [
        finding(FLEET, [name], id=name, sentence=f"Block size of {name}.") for name in ("chat-70b-17", "gemma-27b-01")
    ]
    built = with_findings(FLEET, *found)
    known = list_findings(built)
    section = finding_section(built, known, known.active[1], (("sort", "rule"),))
    banner, _, names = section.blocks
    (table,) = next(each for each in section.parts if each.anchor == "group").blocks

    assert isinstance(banner, Banner)
    assert isinstance(names, Entries)
    assert isinstance(table, Table)
    assert to_plain(banner.title) == "Replicas of one pool use different block sizes."
    assert names.items[0].snippets == ("chat-70b-17\ngemma-27b-01",)
    assert [(row[0].text, row[1].text, row[0].link and row[0].link.key) for row in table.rows] == [
        ("chat-70b", "Block size of chat-70b-17.", "chat-70b-17"),
        ("gemma-27b", "Block size of gemma-27b-01.", "gemma-27b-01"),
    ]
    assert section.parts[0].title == "What to do"


def test_remarks_have_the_tone_of_what_they_say() -> None:
    """Expired, rollout, assumed and unknown can apply at once."""
    inspection = inspected_story().inspection
    built = replace(FLEET, inspection=inspection)
    found = finding(
        FLEET,
        ["embed-8b-01"],
        expired=suppression(owner=HOSTILE),
        is_rollout=True,
        assumptions=("x",),
        unknown=3,
        total=40,
    )
    known = list_findings(replace(built, inspection=replace(inspection, findings=(found,))))
    blocks = finding_section(built, known, known.active[0], ()).blocks
    tones = [
        (each.tone, to_plain(each.line)) for each in blocks if isinstance(each, Paragraph) and each.tone != "plain"
    ]

    assert [tone for tone, _ in tones] == [Tone.WARNING, Tone.INFO, Tone.INFO, Tone.UNKNOWN]
    assert "embed-8b" not in tones[1][1]
    assert tones[1][1].startswith("Rollout 0.31.0 -> 0.32.0: 5 of 10 replicas moved")
    assert tones[3][1] == "Not evaluated on 3 of 40 replicas (unreachable, or setting not reported)."
    assert not [
        each for each in section_of(finding(FLEET)).blocks if isinstance(each, Paragraph) and each.tone != "plain"
    ]


def test_foreign_text_in_a_finding_is_never_markup() -> None:
    attacked = finding(
        FLEET, sentence=HOSTILE, why=HOSTILE, assumptions=(HOSTILE,), evidence=(evidence(HOSTILE, json.dumps(HOSTILE)),)
    )
    section = section_of(attacked)
    html = draw.html_of(section.blocks) + "".join(draw.html_of(part.blocks) for part in section.parts)

    assert "<script" not in html
    assert "<img" not in html


def test_the_page_of_a_rule_has_its_paragraphs_contexts_and_linked_threads() -> None:
    section = rule_section(replace(BY_ID["RT-01"], page=WORDS.page("Something is <wrong>.")), ImpactContext.KV_STORE)
    why, fix, exceptions, _, sources = (each.blocks for each in section.parts)
    assert isinstance(why[0], Entries)
    assert isinstance(sources[0], Entries)
    links = [each.link for entry in sources[0].items for each in entry.head if each.link]

    assert section.is_aside
    assert [to_plain(entry.head) for entry in why[0].items] == [
        "any pool warning: It hurts --a < b.",
        "kv-store critical here: It hurts more.",
    ]
    assert len(fix) == 2
    assert exceptions == ()
    assert [(each.kind, each.key) for each in links] == [
        (Kind.WEB, "https://github.com/some/repo.name/issues/12"),
        (Kind.WEB, "https://docs.vllm.ai/x"),
    ]
    link = '<a href="https://docs.vllm.ai/x" target="_blank" rel="noopener">https://docs.vllm.ai/x</a>'
    assert link in draw.html_of(sources)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_no_backtick_is_left_on_the_page_of_a_rule(rule: Rule) -> None:
    section = rule_section(rule)

    assert "`" not in "".join(draw.html_of(each.blocks) for each in (section, *section.parts))
