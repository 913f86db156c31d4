"""What the matrix opens: every value of one setting with its replicas and sources, or the replicas of one cohort."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.compare import holders
from dashboard.compare.encoding import lookup_setting
from dashboard.fleet import Cohort, Pool, Replica, SettingValue, Source, State
from dashboard.fleet.formatting import SOURCE_WORDS, STATE_WORDS, count, joined, whole_text
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, page, plain
from dashboard.rules.findings import Finding
from dashboard.rules.subject import FINGERPRINT
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Tone
from dashboard.views.finding_text import rule_title
from dashboard.views.names import replica_names, replica_text
from dashboard.views.pages import COMPARE, CONVERGE, POOL, REFERENCE, SETTINGS
from dashboard.views.pool_comparison import cohort_sightings, difference_sightings, findings_by_path
from dashboard.views.pool_text import trait_paragraphs
from dashboard.views.setting import origin_text, origins_text
from dashboard.views.since import since_paragraphs
from dashboard.vllm.field_reference import known_sentences

MOST_TEXTS = 10  # reported texts of a value of which only a part is compared
MOST_NAMES = 60  # replicas per value; the page Replicas has all


def setting_blocks(fleet: Fleet, pool: Pool, path: str) -> tuple[Block, ...]:
    """Return every value of a setting in a pool, and the findings about it."""
    replicas = {each.id: each for each in fleet.replicas}
    every = Piece("values in all pools", link=page(SETTINGS, path=path))
    where = (Piece(path, Style.CODE), Piece(" in "), Piece(pool.name, Style.STRONG), Piece(" · "), every)
    head = Paragraph((*where, *plain(f". {sentence}")) if (sentence := known_sentences().get(path)) else where)
    found = findings_by_path(fleet.inspection, pool.name).get(path, ())
    since = since_paragraphs(difference_sightings(fleet, pool).get(path), "Differs")
    findings = (*since, *((Entries(tuple(map(_finding, found))),) if found else ()))
    if path == FINGERPRINT:
        hint = plain("Each engine computes these digests: see the page of the replica.")
        return (head, *findings, Paragraph(hint, Tone.INFO))
    sources = {
        key: setting.source
        for key in pool.documents
        if (setting := lookup_setting(fleet.documents[key].settings, path))
    }
    if not sources:
        return (head, *findings, Paragraph(plain("Not reported by any replica of this pool."), Tone.INFO))
    values = []
    for value, ids in holders(pool, fleet.documents, path).items():
        values.append(_value(value, [replicas[each] for each in ids], sources, path, pool))
    return (head, *findings, Entries(tuple(values)))


def cohort_blocks(fleet: Fleet, pool: Pool, own: Cohort) -> tuple[Block, ...]:
    """Return the replicas of a cohort, and the settings that distinguish it."""
    names = replica_names(fleet)
    number = Piece(count(len(own.replicas), "replica"), Style.STRONG)
    blocks: list[Block] = [
        Paragraph((cohort(own.letter, pool.name), Piece(" "), number, Piece(" of "), Piece(pool.name, Style.STRONG))),
        *since_paragraphs(cohort_sightings(fleet, pool).get(own.letter)),
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


def _value(value: SettingValue, own: Sequence[Replica], sources: Mapping[str, Source], path: str, pool: Pool) -> Entry:
    """Return a value with the cohorts of its replicas, the replicas, and who reported it. `sources` are by document."""
    keys = {str(replica.document) for replica in own}
    letters = [each.letter for each in pool.cohorts if not keys.isdisjoint(each.documents)]
    head: Text = (
        *(piece for letter in letters for piece in (cohort(letter, pool.name), Piece(" "))),
        Piece(count(len(own), "replica"), Style.STRONG),
    )
    known = {sources[key] for key in keys if key in sources}
    if known:
        words = joined([SOURCE_WORDS[source] for source in Source if source in known])
        head = (*head, Piece(f" · reported by {words}", Style.MUTED))
    names = {replica.id: replica.name for replica in own}
    lines = [replica_text(names, names, MOST_NAMES)]
    if state := STATE_WORDS.get(value.state):
        return Entry(Tone.PLAIN, head, lines=(plain(state), *lines))
    origins = Counter(origin_text(path, value, replica) for replica in own)
    lines.append(plain(f"Origin: {origins_text(origins.most_common())}."))
    snippets = [whole_text(*value)]
    if reported := sorted({replica.identity[path].value for replica in own if path in replica.identity}):
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
