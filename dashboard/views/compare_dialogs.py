"""What the matrix opens: every value of one setting with its replicas and sources, or the replicas of one cohort."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.compare import ValueHolders, group_by_value
from dashboard.fleet import Cohort, Pool, Replica, State
from dashboard.fleet.formatting import SOURCE_WORDS, STATE_WORDS, count, joined, whole_text
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, page, plain
from dashboard.rules.findings import Finding
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Tone
from dashboard.views.finding_text import rule_title
from dashboard.views.names import replica_names, replica_text
from dashboard.views.pages import COMPARE, CONVERGE, POOL, REFERENCE, SETTINGS
from dashboard.views.pool_comparison import cohort_sightings, difference_sightings, findings_by_path
from dashboard.views.setting_replicas import origin_text
from dashboard.views.settings import origins_text
from dashboard.views.since import since_paragraphs
from dashboard.views.trait_text import trait_paragraphs
from dashboard.vllm.field_reference import known_sentences

MOST_TEXTS = 10  # reported texts of a value of which only a part is compared
MOST_NAMES = 60  # replicas per value; the page Replicas has all


def setting_blocks(fleet: Fleet, pool: Pool, path: str, now: datetime | None = None) -> tuple[Block, ...]:
    """Return every value of a setting in a pool, and the findings about it. Ages count from `now`."""
    replicas = {each.id: each for each in fleet.replicas}
    every = Piece("values in all pools", link=page(SETTINGS, path=path))
    where = (Piece(path, Style.CODE), Piece(" in "), Piece(pool.name, Style.STRONG), Piece(" · "), every)
    head = Paragraph((*where, *plain(f". {sentence}")) if (sentence := known_sentences().get(path)) else where)
    found = findings_by_path(fleet.inspection, pool.name).get(path, ())
    since = since_paragraphs(difference_sightings(fleet, pool).get(path), now, "Differs")
    findings = (*since, *((Entries(tuple(map(_finding, found))),) if found else ()))
    if path == FINGERPRINT:
        hint = plain("Each engine computes these digests: see the page of the replica.")
        return (head, *findings, Paragraph(hint, Tone.INFO))
    values = group_by_value(pool, fleet.documents, path)
    if not any(each.sources for each in values):
        return (head, *findings, Paragraph(plain("Not reported by any replica of this pool."), Tone.INFO))
    return (head, *findings, Entries(tuple(_value(each, path, pool, replicas) for each in values)))


def cohort_blocks(fleet: Fleet, pool: Pool, own: Cohort, now: datetime | None = None) -> tuple[Block, ...]:
    """Return the replicas of a cohort, and the settings that distinguish it. Ages count from `now`."""
    names = replica_names(fleet)
    number = Piece(count(len(own.replicas), "replica"), Style.STRONG)
    blocks: list[Block] = [
        Paragraph((cohort(own.letter, pool.name), Piece(" "), number, Piece(" of "), Piece(pool.name, Style.STRONG))),
        *since_paragraphs(cohort_sightings(fleet, pool).get(own.letter), now),
    ]
    if own.distinguishing:
        settings = "\n".join(f"{path} = {whole_text(*value)}" for path, value in own.distinguishing.items())
        label = plain("Fewest settings that distinguish it from all other cohorts")
        blocks.append(Entries((Entry(Tone.PLAIN, label, snippets=(settings,)),)))
    blocks.append(Paragraph(replica_text(own.replicas, names, MOST_NAMES)))
    blocks += trait_paragraphs(fleet, own.replicas, [pool.name])
    if own.read_in_part:
        blocks.append(Paragraph((Piece("Incomplete data: "), *replica_text(own.read_in_part, names, MOST_NAMES))))
    return (*blocks, *_next(pool, own.letter))


def _finding(finding: Finding) -> Entry:
    rule = (Piece(rule_title(finding.rule), Style.MUTED),)
    head = finding.text
    return Entry(Tone(finding.severity), head, lines=(rule,), link=Link(Kind.FINDING, finding.id))


def _value(holders: ValueHolders, path: str, pool: Pool, replicas: dict[str, Replica]) -> Entry:
    letters = [piece for letter in holders.cohorts for piece in (cohort(letter, pool.name), Piece(" "))]
    head: Text = (*letters, Piece(count(len(holders.replicas), "replica"), Style.STRONG))
    if holders.sources:
        sources = joined([SOURCE_WORDS[source] for source in holders.sources])
        head = (*head, Piece(f" · reported by {sources}", Style.MUTED))
    names = {each.id: each.name for each in replicas.values()}
    lines = [replica_text(holders.replicas, names, MOST_NAMES)]
    if state := STATE_WORDS.get(holders.value.state):
        return Entry(Tone.PLAIN, head, lines=(plain(state), *lines))
    origins = Counter(origin_text(path, holders.value, replicas[each]) for each in holders.replicas)
    lines.append(plain(f"Origin: {origins_text(origins.most_common())}."))
    snippets = [whole_text(*holders.value)]
    identities = [replicas[each].identity for each in holders.replicas]
    if reported := sorted({each[path].value for each in identities if path in each}):
        snippets.append("\n".join(whole_text(text, State.REPORTED) for text in reported[:MOST_TEXTS]))
        lines.append(plain("Only the part shown first is compared; the second is as reported."))
    return Entry(Tone.PLAIN, head, lines=tuple(lines), snippets=tuple(snippets))


def _next(pool: Pool, letter: str) -> Iterator[Paragraph]:
    if len(pool.cohorts) > 1:
        compared = page(COMPARE, **{POOL: pool.name, REFERENCE: letter})
        converged = page(COMPARE, **{POOL: pool.name, CONVERGE: letter})
        yield Paragraph(
            (
                Piece(f"Compare with {letter}", link=compared),
                Piece(" · "),
                Piece(f"What if all were like {letter}", link=converged),
            )
        )
