"""The page of one replica as a view."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import (
    Basis,
    Contradiction,
    EngineFingerprint,
    PastTime,
    Replica,
    ReplicaState,
    Reply,
    Setting,
    Source,
    State,
)
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Age, Kind, to_plain
from dashboard.views.blocks import Figure, Paragraph, Table, Tone, View
from dashboard.views.replica import replica_report
from dashboard.views.replica_engines import (
    NO_ENGINES,
    NO_GROUPS,
    NO_HASHES,
    NO_TRAFFIC,
    SEEDS,
    comparable_replicas,
    hash_comparison,
)
from tests.builders import (
    HOSTILE,
    NOW,
    POLLED_AT,
    alike,
    document,
    down,
    engine,
    fleet,
    probe,
    replica,
    setting,
)
from tests.findings_builder import finding, inspected_story, with_findings
from tests.used import traffic, with_traffic
from tests.views.walking import figures_of, part, tables_of, text_of

DOCUMENT = document()
OFF = EngineFingerprint(None, None, "Prefix caching is off.")
A, B, LONGER, OTHER = (EngineFingerprint(*each) for each in (("c", "a"), ("c", "b"), ("c", "x"), ("y", "z")))


def report(member: Replica, *others: Replica) -> View:
    """Return the report of a replica among others."""
    documents = [DOCUMENT, *POOR]
    return replica_report(fleet([member, *others], documents), member.id)


POOR = [document({"cache_config.block_size": 16}, base={})]


def figures(view: View) -> dict[str, Figure]:
    """Return the figures of a report by label."""
    return {each.label: each for each in figures_of([part(view, "numbers")])}


def table(view: View, anchor: str) -> Table:
    """Return the table of a section."""
    return tables_of([part(view, anchor)])[0]


def texts(shown: Table) -> list[list[str]]:
    """Return the texts of a table."""
    return [[cell.text for cell in row] for row in shown.rows]


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (
            replica(document=DOCUMENT, same_digest_as="http://b:1", sources=(Source.METRICS, Source.PROVIDER)),
            "Up. Settings not read from it: same digest as http://b:1. Source: the provider.",
        ),
        (
            replica(document=DOCUMENT, state=ReplicaState.PARTIAL),
            "Partial: Answers, but its cache configuration could not be read. Source: /server_info.",
        ),
        (
            replica("poor", document=POOR[0]),
            f"Up. Reports 1 of the {len(DOCUMENT.settings)} settings of its pool. Source: /server_info.",
        ),
    ],
)
def test_the_lead_has_state_completeness_and_source(member: Replica, text: str) -> None:
    assert report(member, *alike("chat", 3, DOCUMENT)).lead == f"{member.id} · {text}"


def test_settings_that_no_other_replica_reports_are_not_compared() -> None:
    found = figures(report(replica(document=DOCUMENT)))["Differs from pool"]

    assert (found.value, found.note) == ("?", "no other replica reports its settings")


def test_differences_without_a_majority_are_counted_apart_and_link_to_compare() -> None:
    tied = [replica("a", document=DOCUMENT), replica("b", document=POOR[0])]
    other = document({"cache_config.block_size": 32})
    built = fleet([tied[0], replica("b", document=other)], [DOCUMENT, other])
    found = figures(replica_report(built, tied[0].id))["Differs from pool"]

    assert (found.value, found.note) == ("0", "of 17 settings compared; 1 without a majority")
    assert found.link
    assert dict(found.link.choices) == {"pool": "chat", "reference": tied[0].id}


def test_times_have_their_ages_for_live_pages() -> None:
    shown = figures(report(member := replica(document=DOCUMENT)))
    assert member.started_at

    assert shown["Read"][1:3] == (f"{POLLED_AT:%H:%M:%S}", f"{POLLED_AT:%Y-%m-%dT%H:%M:%SZ}")
    assert (shown["Read"].age, shown["vLLM"].note_age) == (Age(POLLED_AT), Age(member.started_at, "started {}"))


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (
            replica(document=DOCUMENT, fresh=False, observed_at=NOW - timedelta(minutes=14)),
            "Stale values. Last read 2026-03-02T11:28:13Z. Not counted.",
        ),
        (
            replica("a", document=DOCUMENT, same_process=("http://chat-01:8000",)),
            "One process behind two addresses. Same instance_id: chat-01. Capacity is counted once.",
        ),
        (
            replica(probes=(probe(reply=Reply(Source.METRICS, not_understood=tuple("abcdefghi"))),)),
            "9 parts of its replies not recognized: a, b, c, d, e, f and 3 more.",
        ),
    ],
)
def test_what_limits_the_data_is_above_it(member: Replica, text: str) -> None:
    assert text in text_of(part(report(member, *alike("chat", 1, DOCUMENT)), "numbers"))


def test_contradicting_sources_are_shown_with_both_values() -> None:
    path = "cache_config.block_size"
    clash = Contradiction(path, setting(16), setting(32, source=Source.METRICS))
    view = report(replica("a", document=DOCUMENT, contradictions=(clash,)))

    assert part(view, "contradictions").title == "Sources disagree on 1 setting"
    assert texts(table(view, "contradictions")) == [[path, "16", "/server_info", "32", "/metrics"]]


def test_a_replica_that_was_never_read_has_a_reason_in_every_section() -> None:
    view = report(down("a", labels={}, probes=()))

    assert "Settings not reported. The probes show the reason." in text_of(part(view, "settings"))
    assert "Never polled." in text_of(part(view, "probes"))
    assert "No labels, and no identity settings reported." in text_of(part(view, "identity"))
    for text in (NO_ENGINES, NO_HASHES, NO_GROUPS):
        assert text in text_of(part(view, "engines"))


def test_engines_have_numbers_basis_and_reason_and_missing_numbers_a_question_mark() -> None:
    bare = engine(None, dp_rank=1, kv_cache_bytes=None, kv_cache_bytes_per_device=None, basis=Basis.UNKNOWN)
    rows = texts(table(report(replica(engines=(engine(basis=Basis.ASSUMED, reason="A bound."), bare))), "ranks"))

    assert rows[0] == [
        *("0", "75,000", "16", "≤ 1,200,000", "1,200,000", "131,072", "≤ 9.16", "184.0", "46.0"),
        *("assumed", "A bound."),
    ]
    assert rows[1].count("?") == 6
    many = report(replica(engines=tuple(engine(dp_rank=rank) for rank in range(500))))
    assert len(table(many, "ranks").rows) == 64
    assert table(many, "ranks").note == "436 more are not listed."


def hashing(*fingerprints: EngineFingerprint | None, name: str = "chat-0", **fields: object) -> Replica:
    """Return a replica with an engine for each fingerprint."""
    engines = tuple(engine(dp_rank=rank, fingerprint=each) for rank, each in enumerate(fingerprints))
    return replica(name, engines=engines, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("others", "tone", "text"),
    [
        ([], Tone.UNKNOWN, "No other replica in the pool to share prefixes with."),
        ([(None,), (OFF,)], Tone.UNKNOWN, "No other replica of the pool reports block hashes."),
        ([(A,), (None,)], Tone.GOOD, "Same block hashes as 1 of 1 other replica of the pool (1 not reported)."),
        (
            [(LONGER,), (B,)],
            Tone.INFO,
            "Same block hashes as 0 of 2 other replicas of the pool; 2 differ only in block size.",
        ),
    ],
)
def test_block_hashes_are_compared_with_the_other_replicas_of_the_pool(
    others: list[tuple[EngineFingerprint | None, ...]], tone: Tone, text: str
) -> None:
    found = hash_comparison(hashing(A).engines, [hashing(*each) for each in others])

    assert (found.tone, text_of(found.line)) == (tone, text)


def test_only_fresh_replicas_of_the_pool_are_compared_each_process_once() -> None:
    one = replica("chat-1", same_process=("http://chat-8:8000",))
    twin = replica("chat-8", same_process=("http://chat-1:8000",))
    second = replica("chat-5", same_process=("http://chat-4:8000",))
    near, old, far = replica("chat-2"), replica("chat-3", fresh=False), replica("embed-1", pool="embed")

    assert comparable_replicas(one, [one, twin, second, near, old, far]) == (near,)
    assert comparable_replicas(twin, [one, twin, near]) == (near,)


@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        *((setting(each), each) for each in SEEDS),
        *((each, None) for each in (None, setting(None), setting(7), setting(["random"]), setting("custom"))),
        (Setting('"random"', State.REDACTED, Source.PROVIDER), None),
    ],
)
def test_a_known_seed_policy_is_explained(policy: Setting | None, seed: str | None) -> None:
    seeded = document({"seed_policy": policy} if policy else {})
    member = hashing(A, document=seeded)
    text = text_of(part(replica_report(fleet([member], [seeded]), member.id), "block-hashes"))

    assert [each for each in SEEDS if SEEDS[each] in text] == ([seed] if seed else [])


def test_digests_are_shown_whole_with_a_column_of_reasons_only_if_one_has_a_reason() -> None:
    digest = "9f8b7a6c5d4e3f2a1b0c9f8b7a6c5d4e"
    with_reason = table(report(hashing(EngineFingerprint("0" * 32, digest), OFF, None)), "block-hashes")

    assert texts(with_reason) == [
        ["0", digest, "0" * 32, ""],
        ["1", "", "", "Prefix caching is off."],
        ["2", "", "", "not reported"],
    ]
    assert [each.is_hash for each in with_reason.columns] == [False, True, True, False]
    assert "Reason" not in [each.title for each in table(report(hashing(A)), "block-hashes").columns]
    assert not tables_of([part(report(hashing(OFF)), "block-hashes")])


def test_foreign_digests_and_reasons_are_cut() -> None:
    view = report(hashing(EngineFingerprint(HOSTILE, None, HOSTILE), EngineFingerprint("x" * 9_999, "y", "z" * 9_999)))

    assert len(text_of(part(view, "block-hashes"))) < 3_000


@pytest.mark.parametrize("active", [1, 0])
def test_a_suppressed_finding_is_counted_and_named_with_a_link_to_it(active: int) -> None:
    built = inspected_story()
    (quiet,) = built.inspection.suppressed
    found = [finding(built, ["gemma-27b-01"])][:active]
    view = replica_report(with_findings(built, *found, suppressed=(quiet,)), quiet.replicas[0])
    *_, paragraph = part(view, "findings").blocks
    figure = figures(view)["Findings"]

    assert part(view, "findings").title == f"{count(active, 'finding')}, 1 suppressed"
    assert (figure.value, figure.note) == (str(active), "1 critical, 1 suppressed" if active else "1 suppressed")
    assert isinstance(paragraph, Paragraph)
    assert to_plain(paragraph.line) == "Suppressed: RT-01 block-size-differs."
    assert [each.link.kind for each in paragraph.line if each.link] == [Kind.FINDING]


def test_traffic_is_shown_by_dp_rank_with_what_was_not_counted() -> None:
    shared = document()
    engines = (engine(dp_rank=0), engine(dp_rank=1))
    built = fleet([*alike("chat", 2, shared, engines=engines)], [shared])
    refused = traffic(None)._replace(refused=("hits rose by more than queries",))
    used = replace(built, traffic={"http://chat-01:8000": {0: traffic(0.62), 1: refused}})

    section = part(replica_report(used, "http://chat-01:8000"), "traffic")

    assert [row[1].text for row in tables_of([section])[0].rows] == ["62%", "not counted"]
    assert "Not counted. DP rank 1: hits rose by more than queries." in text_of(section)


def test_a_replica_is_shown_beside_the_unaffected_ones_of_its_pool_and_named_where_it_decides_its_sums() -> None:
    shared = document()
    built = fleet(alike("chat", 4, shared), [shared])
    used = with_traffic(built, {"chat-01": traffic(0.1, requests=1_200), "chat-02": 0.6, "chat-03": 0.6})
    lone, many = (replica_report(used, f"http://chat-0{number}:8000") for number in (4, 1))

    assert NO_TRAFFIC in text_of(part(lone, "traffic"))
    assert "67% of the prompt tokens of chat. Prefix hit rate: 10%, unaffected replicas 60%." in text_of(many)
    assert "67% of the queried tokens of its pool" in text_of(many)
    assert "queried tokens of its pool" not in text_of(replica_report(used, "http://chat-02:8000"))


def test_the_summary_of_a_replica_has_its_hit_rate_and_why_it_has_none() -> None:
    off = document({"cache_config.enable_prefix_caching": False})
    built = fleet([*alike("chat", 1, document()), replica("odd", document=off)], [document(), off])
    used = with_traffic(built, {"chat-01": 0.62, "odd": 0.0})
    few = with_traffic(built, {"chat-01": traffic(0.6, requests=1)})

    def figure(built: Fleet, name: str) -> tuple[str, str]:
        every = figures_of(replica_report(built, f"http://{name}:8000").parts)
        shown = next(each for each in every if each.label == "Prefix hit rate")
        return shown.value, shown.note

    assert figure(used, "chat-01") == ("62%", "372.0 k of 600.0 k prompt tokens in 15 min")
    assert figure(used, "odd") == ("0%", "caching off")
    assert figure(few, "chat-01") == ("unknown", "not enough traffic")
    two = fleet(alike("chat", 2, document()), [document()])
    assert figure(with_traffic(two, {"chat-01": 0.62}, 0.5), "chat-01") == ("62%", "unaffected replicas 50%")


def test_a_replica_without_hit_rate_says_why() -> None:
    known = inspected_story()
    past = replace(known, recorded_traffic={(known.pools[0].name, "other"): traffic()}, past=PastTime(NOW))
    down = next(each.id for each in known.replicas if each.state is ReplicaState.DOWN)
    read = with_traffic(known, {known.replicas[0].id: 0.6})

    def why(fleet: Fleet, replica: str) -> tuple[str, str]:
        shown = figures(replica_report(fleet, replica))["Prefix hit rate"]
        return shown.value, shown.note

    assert why(known, down) == ("unknown", "traffic is off (option traffic)")
    assert why(past, known.replicas[0].id) == ("unknown", "not recorded by replica")
    alone = next(each for each in known.replicas if each.name == "chat-70b-16")  # no other has its settings
    cohorts = {(each.pool or "", each.document or ""): traffic(0.04) for each in known.replicas}
    recorded = replace(past, recorded_traffic=cohorts)
    assert why(recorded, alone.id)[0] == "4%"
    assert "Prefix hit rate: 4%" in text_of(replica_report(recorded, alone.id))
    assert why(read, down) == ("unknown", "unreachable")
