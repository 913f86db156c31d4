"""Reports with every kind of block: one as a meeting would see it, one that is an attack, one of a large fleet."""

from datetime import UTC, datetime
from functools import cache

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY, Matrix, lay_out
from dashboard.fleet.pieces import Piece, Style, plain, section
from dashboard.views.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    number_cell,
)
from dashboard.views.context import Context
from tests.builders import HOSTILE, hostile, story

AT = datetime(2026, 3, 2, 11, 42, 5, tzinfo=UTC)
CONTEXT = Context(
    "prod-eu", AT, 39, 40, "4f2a91c0de", "before the upgrade", (("pool", "chat-70b"),), program_version="1.2.3"
)
POOL_COLUMNS = (
    Column("pool"),
    Column("role"),
    Column("devices"),
    Column("cohorts"),
    Column("prefix sharing"),
    Column("KV tokens", is_number=True),
)


def report(*blocks: Block, **more: object) -> View:
    """A report of one part, which holds these blocks."""
    part = Section("part", "Part", blocks)
    given = {"title": "Review", "headline": "All is well", "lead": "", "context": CONTEXT, "parts": (part,)}
    return View(**{**given, **more})  # type: ignore[arg-type]


def differences(fleet: Fleet, pool: int = 0) -> DifferenceTable:
    """The differences of one pool; a finding names two of its settings."""
    names = {each.id: each.name for each in fleet.replicas}
    matrix = lay_out(fleet.pools[pool], fleet.documents, MAJORITY).table()
    kinds = {"cache_config.block_size": "critical", "cache_config.prefix_caching_hash_algo": "warning"}
    return DifferenceTable(
        "differences",
        f"Settings that differ in {fleet.pools[pool].name}",
        matrix,
        names,
        kinds,
        ("9 equal, 41 identity",),
    )


def ranks() -> Chart:
    """Ranks of a pool: two hold less than the others, one is an upper bound, one is not known."""
    usual = [Bar(f"decode-0 rank {rank}", 1_640_000.0 + 1_000 * rank, letter="A") for rank in range(5)]
    short = Bar("decode-1 rank 5", 1_344_800.0, letter="A", mark="−18 %", tone=Tone.CRITICAL)
    other = Bar("prefill-0 rank 4", 1_300_000.0, letter="B", mark="−21 %", tone=Tone.WARNING)
    most = Bar("embed-8b-10 rank 0", 900_000.0, is_at_most=True, letter="C")
    unknown = Bar("a-replica-with-a-name-that-is-much-too-long-for-its-place.example.net rank 0", None)
    return Chart(
        "ranks", "KV cache tokens per DP rank", "tokens", (*usual, short, other, most, unknown), 1_641_000.0, 12
    )


def meeting() -> View:
    """What is shown in a meeting."""
    fleet = story()
    return View(
        title="Ops review",
        headline="Two pools need attention: prefixes are not shared in chat-70b",
        lead="3 critical findings since the last review; one replica could not be read, and nothing is suppressed.",
        context=CONTEXT,
        parts=(
            Section(
                "fine",
                "Is it fine",
                (Paragraph(_told()), _numbers(), Paragraph(plain("No snapshot to compare with."), Tone.UNKNOWN)),
            ),
            Section("findings", "Findings", (_statements(),)),
            Section(
                "pools",
                "Pools",
                (_pools(),),
                (
                    Section("pool-chat", "chat-70b", (differences(fleet),)),
                    Section(
                        "pool-embed",
                        "embed-8b",
                        (differences(fleet, 4), Paragraph(plain("An upgrade is under way."), Tone.INFO)),
                    ),
                ),
            ),
            Section("capacity", "Capacity", (ranks(),)),
            Section("replicas", "All replicas", (replica_table(60),), is_appendix=True),
        ),
    )


def _told() -> tuple[Piece, ...]:
    return (
        Piece("One replica of "),
        Piece("chat-70b", Style.STRONG, section("pool-chat")),
        Piece(" hashes prefixes with "),
        Piece("xxhash", Style.CODE),
        Piece("; the other 16 use sha256_cbor.", Style.MUTED),
    )


def _numbers() -> Figures:
    return Figures(
        (
            Figure("Replicas", "39 / 40", "1 down, 1 partial", link=section("replicas")),
            Figure("Pools", "5", "2 split, 3 uniform", link=section("pools")),
            Figure("Critical", "3", "in 2 pools", Tone.CRITICAL, section("findings")),
            Figure("Warnings", "4", "1 suppressed until 2026-12-01", Tone.WARNING, section("findings")),
            Figure("Unknown", "2", "replicas", Tone.UNKNOWN),
            Figure("KV cache", "67.0 M", "tokens · 3.4 TiB · 118 GPUs", Tone.GOOD, section("capacity")),
        )
    )


def _statements() -> Entries:
    hashed = (
        Piece("chat-70b", Style.STRONG, section("pool-chat")),
        Piece("  Hash algorithm is "),
        Piece("xxhash", Style.CODE),
        Piece(" instead of sha256_cbor, which 16 of 17 replicas have."),
    )
    return Entries(
        (
            Entry(
                Tone.CRITICAL,
                hashed,
                "RT-02 · B ×1 (chat-70b-16)",
                (
                    plain("Its cache is never found by the router: requests sent there start cold."),
                    plain("Give this replica the hash algorithm of the others."),
                ),
                ("--prefix-caching-hash-algo sha256_cbor",),
                "finding-5bf5975562",
            ),
            Entry(
                Tone.WARNING,
                plain("DP rank 5 of decode-1 holds 18 % fewer blocks than its 7 peers."),
                "CP-01 · decode-1",
                (plain("Requests pile up on one rank."),),
            ),
            Entry(
                Tone.INFO, plain("Two versions run side by side: 4 of 10 replicas are replaced."), "VE-01 · embed-8b"
            ),
            Entry(Tone.UNKNOWN, plain("chat-70b-18 could not be read: no answer within 5 s."), "last seen 14 min ago"),
            Entry(Tone.GOOD, plain("Gone since the last review: block size differs in gemma-27b.")),
            Entry(Tone.PLAIN, plain("Suppressed until 2026-12-01: RT-03 in embed-8b (ana: a test of sizes)."), "ana"),
        )
    )


def _pools() -> Table:
    rows = (
        ("chat-70b", "both", "H100 ×4", "A ×15, B ×1, C ×1", "A shares prefixes; B and C do not", "18,400,000"),
        ("gemma-27b", "both", "H100 ×1", "A ×8", "all 8 share prefixes", "5,315,552"),
        ("deepseek-v3/prefill", "prefill", "H200 ×8", "A ×2", "A; KV dtype unlike its decode pool", "13,000,000"),
        ("embed-8b", "both", "L40S ×1", "A ×6, B ×4", "two versions, 4 of 10 replaced", "≤ 4,400,000"),
    )
    tones = (Tone.CRITICAL, Tone.GOOD, Tone.WARNING, Tone.PLAIN)
    cells = tuple(
        (*map(Cell, row[:4]), Cell(row[4], tone), Cell(row[5])) for row, tone in zip(rows, tones, strict=True)
    )
    return Table("pools", "Pools", POOL_COLUMNS, cells, "What is assumed is an upper bound, marked with ≤.")


def replica_table(number: int) -> Table:
    """A table as the appendix has it: one row for each replica."""
    columns = (
        Column("replica"),
        Column("pool"),
        Column("cohort"),
        Column("state"),
        Column("vLLM"),
        Column("document", is_code=True),
        Column("KV tokens", is_number=True),
        Column("reason"),
    )
    return Table("replicas", f"All {number:,} replicas", columns, tuple(map(_replica_row, range(number))))


def _replica_row(number: int) -> tuple[Cell, ...]:
    down = number % 29 == 28
    letter = "ABCDEFG"[number % 7]
    return (
        Cell(f"chat-70b-{number:04}.inference.example.net"),
        Cell("chat-70b"),
        Cell("" if down else f"×{number % 7 + 1}", letter="" if down else letter),
        Cell("down", Tone.CRITICAL) if down else Cell("up"),
        Cell("0.32.0"),
        Cell(f"{number * 7919:012x}"),
        number_cell("not known" if down else f"{1_200_000 + number:,}", None if down else 1_200_000 + number),
        Cell("No answer within 5 s." if down else ""),
    )


def large(number: int = 1_000) -> View:
    """A report of a fleet of so many replicas: what matters, then a row for each."""
    base = meeting()
    bars = tuple(Bar(f"chat-70b-{place:04} rank 0", 1_200_000.0 + place, letter="A") for place in range(240))
    return View(
        base.title,
        base.headline,
        base.lead,
        base.context,
        (
            *base.parts[:3],
            Section(
                "capacity", "Capacity", (Chart("ranks", "KV cache tokens", "tokens", bars, 1_200_100.0, number - 240),)
            ),
            Section("replicas", "All replicas", (replica_table(number),), is_appendix=True),
        ),
    )


@cache
def _attacked() -> tuple[Matrix, tuple[str, ...]]:
    """The differences of a fleet in which every name is an attack, and its replicas."""
    fleet = hostile()
    matrix = lay_out(fleet.pools[0], fleet.documents, MAJORITY).table()
    return matrix, tuple(each.id for each in fleet.replicas)


def attack(text: str = HOSTILE) -> View:
    """The same foreign text everywhere a report can hold one."""
    line = tuple(Piece(text, style, section("part")) for style in Style)
    cell = Cell(text, Tone.WARNING, "A")
    matrix, replicas = _attacked()
    return View(
        text,
        text,
        text,
        Context(text, AT, 1, 2, text, text, ((text, text),), program_version=text),
        (
            Section(
                "part",
                text,
                (
                    Paragraph(line, Tone.WARNING),
                    Paragraph(line),
                    Figures((Figure(text, text, text, Tone.CRITICAL, section("part")),)),
                    Entries((Entry(Tone.CRITICAL, line, text, (line,), (text,), "entry"), Entry(Tone.PLAIN, line))),
                    Table(
                        "table", text, (Column(text), Column(text, is_number=True, is_code=True)), ((cell, cell),), text
                    ),
                    DifferenceTable(
                        "differences",
                        text,
                        matrix,
                        dict.fromkeys(replicas, text),
                        {},
                        (text,),
                    ),
                    Chart(
                        "chart", text, text, (Bar(text, 1.0, is_at_most=True, letter="A", mark=text, tone=Tone.INFO),)
                    ),
                ),
            ),
            Section("more", text, (Paragraph(line),), is_appendix=True),
        ),
    )
