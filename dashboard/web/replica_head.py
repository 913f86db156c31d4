"""The head of a replica's page: how it stands, where it belongs, what is odd about it. HTML from values."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.fleet import Cohort, Contradiction, Pool, Replica, ReplicaState, formatting
from dashboard.report.replicas.differences import Apart, from_majority
from dashboard.report.replicas.settings import ReadCoverage
from dashboard.report.replicas.sources import SOURCES
from dashboard.report.replicas.standing import mark, standing_words
from dashboard.rules.findings import Severity
from dashboard.views import pages
from dashboard.views.blocks import Tone
from dashboard.views.capacity_data import total
from dashboard.views.findings_summary import SEVERITY_TERMS
from dashboard.web import links, markup

LONGEST_NAME = 60  # characters
MOST_CONTRADICTIONS = 12  # shown one by one
MOST_UNKNOWN = 6  # kinds that are named


def head(replica: Replica, reach: ReadCoverage | None, worst: Severity | None = None) -> str:
    """Head the page: the name, a way back, and how the replica stands. `reach` is None where nothing was read.

    `worst` is the worst severity of its findings. State and findings have a glyph each. A replica that answers is not
    called good for it: its only glyph is that of its findings, and it has none without them.
    """
    name = markup.text(_short(replica.name))
    back = markup.link(links.to(pages.REPLICAS), "All replicas")
    lead = f"{back} · {markup.code(formatting.one_line(replica.id))} · {markup.text(standing_words(replica, reach))}"
    return markup.heading(f"{_marks(replica.state, worst)}{name}", lead)


def _marks(state: ReplicaState, worst: Severity | None) -> str:
    """Draw what is not read whole, then how bad its findings are, each with its word."""
    standing = mark(state)
    drawn = [markup.glyph(standing, f"{state}:")] if standing is not Tone.PLAIN else []
    drawn += [markup.glyph(worst, f"{SEVERITY_TERMS[worst][0]}:")] if worst else []
    return "".join(f"{each} " for each in drawn)


def cards(
    replica: Replica, pool: Pool | None, apart: Sequence[Apart], reach: ReadCoverage, now: datetime | None
) -> str:
    """Show where the replica belongs and what it is, in one row."""
    return markup.cards(
        [
            _pool(replica, pool),
            _differences(replica, pool, apart, reach),
            _version(replica, now),
            _capacity(replica),
            _read(replica, now),
        ]
    )


def cohort_of(pool: Pool | None, replica: Replica) -> Cohort | None:
    """Return the replica's cohort, if it was ever read."""
    return next((cohort for cohort in pool.cohorts if replica.id in cohort.replicas), None) if pool else None


def notices(replica: Replica, names: dict[str, str], now: datetime | None) -> list[str]:
    """Say what a reader must know before believing the rest."""
    said = []
    if not replica.fresh and replica.observed_at is not None and (replica.document or replica.engines):
        read = formatting.when(replica.observed_at, now)
        old = f"{markup.bold('Old values.')} They were last read {read} and are not counted."
        said.append(markup.notice("warning", old))
    if replica.same_process:
        said.append(markup.notice("warning", _same_process(replica.same_process, names)))
    if strange := sorted({what for probe in replica.probes if probe.reply for what in probe.reply.not_understood}):
        said.append(markup.notice("info", _not_understood(strange)))
    return said


def _same_process(addresses: Sequence[str], names: dict[str, str]) -> str:
    others = [
        markup.link(links.to(pages.REPLICA_PAGE, replica=other), markup.text(_short(names.get(other, other))))
        for other in addresses
    ]
    title = markup.bold(f"One process behind {formatting.in_words(len(others) + 1)} addresses.")
    answer = "answers" if len(others) == 1 else "answer"
    return f"{title} {formatting.joined(others)} {answer} with the same instance_id. Its capacity is counted once."


def contradictions(found: Sequence[Contradiction]) -> str:
    """List the settings on which the replica's own sources disagree."""
    if not found:
        return ""
    title = f"Its sources contradict each other in {formatting.count(len(found), 'setting')}"
    columns = (("Setting", ""), ("Kept", ""), ("said by", "short"), ("Not kept", ""), ("said by", "short"))
    rows = [
        [
            markup.code(formatting.middle_cut(each.path, LONGEST_NAME)),
            markup.code(formatting.setting_text(each.kept.value, each.kept.state)),
            markup.text(SOURCES[each.kept.source]),
            markup.code(formatting.setting_text(each.other.value, each.other.state)),
            markup.text(SOURCES[each.other.source]),
        ]
        for each in found[:MOST_CONTRADICTIONS]
    ]
    left = len(found) - MOST_CONTRADICTIONS
    more = f" {left:,} more are not shown." if left > 0 else ""
    note = f'<div class="foot">Kept is what the more trusted source says.{more}</div>'
    return markup.section(title) + markup.table(title, columns, rows) + note


def _pool(replica: Replica, pool: Pool | None) -> str:
    if replica.pool is None:
        return markup.card("Pool", markup.muted("none"), "no reply tells its model")
    cohort = cohort_of(pool, replica)
    where = f"cohort {markup.letter(cohort.letter)} of {len(pool.cohorts):,}" if cohort and pool else "in no cohort"
    role = "" if replica.role == "both" else f"{markup.text(replica.role)} · "
    name = markup.link(links.to(pages.COMPARE, pool=replica.pool), _cut(replica.pool), title=replica.pool)
    return markup.card("Pool", name, f"{role}{where}", explained="pool")


def _differences(replica: Replica, pool: Pool | None, apart: Sequence[Apart], reach: ReadCoverage) -> str:
    if pool is None or replica.document is None:
        return markup.card("Differs from its pool", markup.muted("?"), "its settings were never read")
    if not reach.compared:
        return markup.card("Differs from its pool", markup.muted("?"), "no other replica tells its settings")
    number = from_majority(apart)
    ties = len(apart) - number
    read = f"of {formatting.count(reach.compared, 'setting')} compared"
    read += f"; {ties:,} {'has' if ties == 1 else 'have'} no majority" if ties else ""
    if not apart:
        good = markup.glyph("good", "good:") if reach.read >= reach.of_pool else ""  # else much of it is not known
        return markup.card("Differs from its pool in", f"{good}0", read)
    address = links.to(pages.COMPARE, pool=pool.name, reference=replica.id)
    note = f"{read}, {markup.link(address, 'compare with it')}"
    differs = markup.glyph("differs", "differs:") if number else ""
    return markup.card("Differs from its pool in", f"{differs}{number:,}", note)


def _version(replica: Replica, now: datetime | None) -> str:
    version = _cut(replica.version) if replica.version else markup.muted(formatting.NOT_KNOWN)
    if replica.started_at is None:
        return markup.card("vLLM", version, "start not known")
    started = formatting.when(replica.started_at, now)
    return markup.card("vLLM", version, f'<span title="{formatting.iso(replica.started_at)}">started {started}</span>')


def _capacity(replica: Replica) -> str:
    held = total([replica])
    parts = [formatting.count(len(replica.engines), "DP rank")] if replica.engines else ["no engine is known"]
    parts += [formatting.size(held.bytes)] if held.bytes is not None else []
    parts += [f"{held.unknown:,} not known"] if held.unknown and held.tokens is not None else []
    parts += [str(held.basis)] if held.tokens is not None else []
    number = formatting.short(held.tokens, held.basis)
    figure = markup.text(number) if held.tokens is not None else markup.muted(number)
    return markup.card("KV cache tokens", figure, markup.parts(" · ".join(parts)))


def _read(replica: Replica, now: datetime | None) -> str:
    if replica.observed_at is None:
        return markup.card("Read", markup.muted("never"), "no probe gave a reply")
    read = formatting.when(replica.observed_at, now) if now else formatting.clock(replica.observed_at)
    return markup.card("Read", markup.text(read), markup.text(formatting.iso(replica.observed_at)))


def _not_understood(strange: Sequence[str]) -> str:
    named = formatting.joined(
        [markup.code(formatting.middle_cut(formatting.one_line(what), LONGEST_NAME)) for what in strange[:MOST_UNKNOWN]]
    )
    more = f" and {len(strange) - MOST_UNKNOWN:,} more" if len(strange) > MOST_UNKNOWN else ""
    number = formatting.count(len(strange), "part of its answers was", "parts of its answers were")
    return f"{markup.bold(f'{number} not understood')}, kept as it came: {named}{more}."


def _short(name: str) -> str:
    return formatting.middle_cut(formatting.one_line(name), LONGEST_NAME)


def _cut(text: str) -> str:
    """Keep a card's figure inside its card: HTML."""
    return f'<span style="display:block;overflow:hidden;text-overflow:ellipsis">{markup.text(_short(text))}</span>'
