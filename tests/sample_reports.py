"""Reports with every kind of block: one as a meeting would see it, one that is an attack, one of a large fleet."""

from datetime import UTC, datetime
from functools import cache

from dashboard.analysis.assembly import Fleet
from dashboard.compare import MAJORITY, Matrix
from dashboard.compare.matrix import lay_out
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
    short = Bar("decode-1 rank 5", 1_344_800.0, letter="A", mark="−18%", tone=Tone.CRITICAL)
    other = Bar("prefill-0 rank 4", 1_300_000.0, letter="B", mark="−21%", tone=Tone.WARNING)
    most = Bar("embed-8b-10 rank 0", 900_000.0, is_at_most=True, letter="C")
    unknown = Bar("a-replica-with-a-name-that-is-much-too-long-for-its-place.example.net rank 0", None)
    return Chart(
        "ranks", "KV cache tokens per DP rank", "tokens", (*usual, short, other, most, unknown), 1_641_000.0, 12
    )


def meeting() -> View:
    """What is shown in a meeting."""
    fleet = story()
    told = (
        Piece("One replica of "),
        Piece("chat-70b", Style.STRONG, section("pool-chat")),
        Piece(" hashes prefixes with "),
        Piece("xxhash", Style.CODE),
        Piece("; the other 16 use sha256_cbor.", Style.MUTED),
    )
    numbers = Figures(tuple(Figure(f"{tone}", "39 / 40", "1 of 2 pools", tone, section("pools")) for tone in Tone))
    statements = Entries(
        tuple(
            Entry(tone, told, "RT-02 · B ×1", (plain("Why."), plain("What.")), ("--flag 1",), f"finding-{tone}")
            for tone in Tone
        )
    )
    embed = (differences(fleet, 4), Paragraph(plain("An upgrade is under way."), Tone.INFO))
    pools = (Section("pool-chat", "chat-70b", (differences(fleet),)), Section("pool-embed", "embed-8b", embed))
    columns = (Column("pool"), Column("cohorts"), Column("KV tokens", is_number=True))
    rows = tuple((Cell(name), Cell("A ×15", Tone.CRITICAL), Cell("18,400,000")) for name in ("chat-70b", "embed-8b"))
    return View(
        title="Ops review",
        headline="Two pools need attention: prefixes are not shared in chat-70b",
        lead="3 critical findings since the last review; one replica could not be read, and nothing is suppressed.",
        context=CONTEXT,
        parts=(
            Section("fine", "Is it fine", (Paragraph(told), numbers)),
            Section("findings", "Findings", (statements,)),
            Section("pools", "Pools", (Table("pools", "Pools", columns, rows, "≤ is an upper bound."),), pools),
            Section("capacity", "Capacity", (ranks(),)),
            Section("replicas", "All replicas", (replica_table(60),), is_appendix=True),
        ),
    )


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
        number_cell("unknown" if down else f"{1_200_000 + number:,}", None if down else 1_200_000 + number),
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
