"""What a view does not count, and why: unreachable replicas, suppressed findings, ignored settings.

Accepting a finding: the entry for fleet.yaml that suppresses it until a date, and what else it would cover.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial

from dashboard.analysis.assembly import Fleet
from dashboard.compare.traits import NAMING
from dashboard.fleet import Replica, ReplicaState
from dashboard.fleet.formatting import FAILURE_WORDS, MANY, MOST, SOME, count, iso, one_line, shortlist
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, join_texts, page, plain, to_plain
from dashboard.rules.findings import Finding, Suppression
from dashboard.rules.policy import suppress
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Table, Tone
from dashboard.views.finding_list import FindingList, side_of
from dashboard.views.finding_text import are_few, finding_fields, findings_data, remarks, where_of
from dashboard.views.names import brief, names_of, replica_text
from dashboard.views.since import SINCE, since_cell
from dashboard.views.table import Field, to_data, to_table

MOST_GROUPS = 24  # of replicas that are unreadable for the same reason
MOST_ROWS = 100  # of a table
DAYS = 90  # of an acceptance, unless another date is chosen
PARTIAL_REASON = "Answers, but its cache configuration could not be read."


def state_tone(state: ReplicaState) -> Tone:
    """Return the tone of a state. A state is no severity: findings have one."""
    return Tone.PLAIN if state is ReplicaState.UP else Tone.UNKNOWN


def reason(replica: Replica) -> str:
    return replica.failure.detail if replica.failure else PARTIAL_REASON


UNREAD = (  # for programs
    Field("name", key="replica"),
    Field("id", key="address"),
    Field("pool"),
    Field("state"),
    Field("", key="failure", value=lambda replica: replica.failure.kind.value if replica.failure else ""),
    Field("", key="reason", value=reason),
    Field("observed_at"),
)


def unread_entries(replicas: Iterable[Replica], most: int = MOST_GROUPS) -> tuple[Entries, ...]:
    """Return the replicas that are down or partial, grouped by reason, at most `most` groups; empty without any."""
    groups: dict[tuple[ReplicaState, str, str], list[Replica]] = defaultdict(list)
    for replica in replicas:
        kind = FAILURE_WORDS[replica.failure.kind] if replica.failure else ""
        groups[replica.state, kind, reason(replica)].append(replica)
    items = [_unread(*key, members) for key, members in list(groups.items())[:most]]
    if rest := sum(map(len, list(groups.values())[most:])):
        items.append(Entry(Tone.UNKNOWN, (Piece(count(rest, "more replica"), link=page(pages.REPLICAS)),)))
    every = [replica for own in groups.values() for replica in own]
    return (
        (Entries(tuple(items), partial(to_data, every, UNREAD, "not-read", "Unreachable or partial")),) if items else ()
    )


def suppressed_blocks(fleet: Fleet, known: FindingList) -> tuple[Block, ...]:
    """Return the suppressed findings, the first to expire first, expired suppressions, and entries without effect."""
    expired = _expired(fleet.inspection.findings, known)
    warnings = (*fleet.inspection.notes, *fleet.unrecorded)
    notes: tuple[Block, ...] = (*expired, *(Paragraph(plain(note), Tone.WARNING) for note in warnings))
    if not known.suppressed:
        return (Paragraph(plain("No suppressed findings.")), *notes)
    found = sorted(known.suppressed, key=lambda each: _texts(each.finding)[1])
    fields = [
        Field(
            "",
            "Finding",
            lambda row: f"{row.finding.severity}: {row.finding.rule} {row.finding.sentence}",
            tone=lambda row: Tone(row.finding.severity),
            link=lambda row: Link(Kind.FINDING, row.key),
        ),
        Field("", "Where", lambda row: _where(row.finding, known.names)),
        Field("", "Suppressed by", lambda row: _texts(row.finding)[0]),
        Field("", "Until", lambda row: _texts(row.finding)[1]),
        Field("", "Reason", lambda row: _texts(row.finding)[2]),
    ]
    if any(each.sighting for each in found):
        fields.append(Field("", SINCE.title, lambda row: since_cell(row.sighting)))
    rest = "{:,} more not listed.".format
    table = to_table(found, fields, "suppressed", "Suppressed findings", most=MOST_ROWS, rest=rest)
    columns = (
        *finding_fields(known.names, known.sightings),
        Field("suppression.owner", key="owner"),
        Field("suppression.until", value=lambda finding: f"{finding.suppression.until}", key="until"),
        Field("suppression.reason", key="reason"),
    )
    findings = [each.finding for each in found]
    data = to_data(findings, columns, "suppressed", "Suppressed findings")
    return (replace(table, for_programs=lambda: data), *notes)


def ignored_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    if not fleet.ignored:
        return ()
    pools = sum(bool(each.ignored) for each in fleet.pools)
    globs = join_texts(((Piece(glob, Style.CODE),) for glob in fleet.ignored), last=", ")
    differ = f"these differ in {count(pools, 'pool')}" if pools else "these differ in no pool"
    return (Paragraph((Piece("Ignored by fleet.yaml: "), *globs, Piece(f" ({differ})."))),)


def ignored_table(fleet: Fleet) -> Table | None:
    own = [pool for pool in fleet.pools if pool.ignored]
    fields = (
        Field("name", "Pool", lambda pool: brief(pool.name), link=lambda pool: Link(Kind.POOL, pool.name)),
        Field("", "Differences", value=lambda pool: len(pool.ignored), is_number=True),
        Field("", "Settings", lambda pool: shortlist(pool.ignored, MANY), lambda pool: tuple(pool.ignored)),
    )
    return to_table(own, fields, "ignored", "Ignored differences", most=MOST_ROWS) if own else None


def _unread(state: ReplicaState, kind: str, why: str, members: Sequence[Replica]) -> Entry:
    names = replica_text([each.id for each in members], {each.id: each.name for each in members}, MOST)
    strong = (piece._replace(style=Style.STRONG) for piece in names)
    head = (*strong, Piece(f" {state}{f' · {kind}' if kind else ''}", Style.MUTED))
    side = count(len(members), "replica") if len(members) > 1 else ""
    lines: list[Text] = [plain(one_line(why))]
    if state is ReplicaState.DOWN and len(members) == 1 and members[0].observed_at is not None:
        lines.append(plain(f"Last read {iso(members[0].observed_at)} (values kept, marked stale)."))
    return Entry(state_tone(state), head, side, tuple(lines))


def _where(finding: Finding, names: Mapping[str, str]) -> str:
    in_order = [brief(name) for each in finding.cohorts for name in names_of(each.replicas, names)]
    many = "" if are_few(finding) else shortlist(in_order, MOST)
    return " · ".join(filter(None, (where_of(finding), to_plain(side_of([finding], names)), many)))


def _texts(finding: Finding) -> tuple[str, str, str]:
    by = finding.suppression
    return (brief(by.owner), f"{by.until}", one_line(by.reason)) if by else ("", "", "")


def _expired(findings: Iterable[Finding], known: FindingList) -> Iterator[Entries]:
    found = [each for each in findings if each.expired]
    items = tuple(
        Entry(
            Tone(each.severity),
            (Piece(where_of(each), Style.STRONG), Piece(f" {each.rule} {each.sentence}")),
            lines=(plain(one_line(remarks(each)[0])),),
        )
        for each in found
    )
    if items:
        yield Entries(items, partial(findings_data, found, known.names, known.sightings))


def scopes(fleet: Fleet, finding: Finding) -> Mapping[str, Suppression]:
    """Return what an entry can cover, by its name on the page: replicas, common labels, the pool, or every pool."""
    entry = Suppression(finding.rule, "", "", date.max, finding.pools[0] if len(finding.pools) == 1 else None)
    members = [each for each in fleet.replicas if each.id in finding.replicas]
    found = {}
    if members:
        names = tuple(each.name for each in members)
        found[f"only {shortlist(names, SOME)}"] = replace(entry, replicas=names)
        common = set.intersection(*(set(each.labels.items()) for each in members))
        for key, text in sorted(common):
            if key not in NAMING:
                found[f"replicas with {key}={text}"] = replace(entry, labels={key: text})
    found[f"pool {entry.pool}" if entry.pool else "every pool"] = entry
    return found


def default_until(today: date) -> date:
    return today + timedelta(days=DAYS)


def covered_text(fleet: Fleet, finding: Finding, entry: Suppression) -> str:
    """Return which active findings the entry would suppress, in other pools too, and what would stay active."""
    replicas = {each.id: each for each in fleet.replicas}
    result = suppress(
        fleet.inspection.findings, [entry], entry.until, replicas, lambda each, part: replace(each, replicas=part)
    )
    this = (finding.id, finding.subject)
    own = [each for each in result.suppressed if (each.id, each.subject) == this]
    others = [each for each in result.suppressed if (each.id, each.subject) != this]
    left = set(finding.replicas).difference(*(each.replicas for each in own))
    texts = ["The entry suppresses this finding" + (f" except on {count(len(left), 'replica')}." if left else ".")]
    if others:
        named = [f"{each.rule} in {', '.join(each.pools) or 'the fleet'}" for each in others]
        texts.append(f"It also suppresses {count(len(others), 'finding')}: {shortlist(named, SOME)}.")
    return " ".join(texts)
